"""The CustomResourceDefinitions of this API, and pruning and defaulting of objects by their schemas.

The YAML files in this directory are generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from lws_api.crds.defaulting import stored

__all__ = ["defaulted", "definitions"]

# The loader written in C, where PyYAML has it, reads these thousands of lines in 50 ms instead of a second.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Kind → its CustomResourceDefinition (apiextensions.k8s.io/v1). Shared by all callers: not to be
    changed.
    """
    by_kind = {}
    for entry in resources.files(__name__).iterdir():
        if entry.name.endswith(".yaml"):
            definition = yaml.load(entry.read_text(encoding="utf-8"), Loader=_LOADER)
            by_kind[definition["spec"]["names"]["kind"]] = definition
    return by_kind


def defaulted(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `raw` as the API server would store it: unknown fields and nulls gone, the defaults of the
    schema in.

    Raises ValueError if it is of no kind that this API serves. It is not validated, and no webhook is played.
    """
    kind, version = str(raw.get("kind", "")), str(raw.get("apiVersion", ""))
    spec: Mapping[str, Any] = definitions().get(kind, {}).get("spec", {})
    for served in spec.get("versions", ()):
        if version == f"{spec['group']}/{served['name']}":
            return stored(raw, served["schema"]["openAPIV3Schema"])
    raise ValueError(f"{version or 'no apiVersion'}, kind {kind or 'missing'}: this API serves {_served()}")


def _served() -> str:
    return ", ".join(
        f"{kind} of {definition['spec']['group']}/{version['name']}"
        for kind, definition in sorted(definitions().items())
        for version in definition["spec"]["versions"]
    )
