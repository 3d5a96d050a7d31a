"""Parse sets from a stream of YAML or JSON documents, and predict how the API server would store them.

The stream is read as UTF-8, regardless of the encoding of the terminal. Objects of other kinds are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, ClassVar

import yaml
from pydantic import ValidationError

from lws.cli.session import Refusal
from lws.cli.sets import RESOURCES, kind_of
from lws.disaggregatedset.admission import validation
from lws.kube.field_errors import FieldError, aggregate
from lws.leaderworkerset.admission import validation as set_validation
from lws.leaderworkerset.admission.defaulting import default
from lws.runtime.actions import Object
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.leaderworkerset.v1 import KIND

_TAG = "tag:yaml.org,2002:"
_NOT_AS_PYYAML = frozenset({f"{_TAG}timestamp", f"{_TAG}int", f"{_TAG}float"})
_JSON_START = re.compile(r"\S")
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")


# The C loader is ten times faster, but not every PyYAML has it. A base class chosen at run time has no type.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as kubectl does: dates are strings, 1:30 is not a number, and 1e3 is one."""

    yaml_implicit_resolvers: ClassVar = {
        first: [resolver for resolver in resolvers if resolver[0] not in _NOT_AS_PYYAML]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(f"{_TAG}int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


def title_of(stream: BinaryIO) -> str:
    return str(getattr(stream, "name", "<stdin>"))


def sets_in(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield all sets in a stream in order, including those within a List, or a list of one kind.

    Raises a Refusal if the stream is neither JSON nor YAML, has values that JSON lacks, or an unknown version
    of a set.
    """
    versions = {resource.kind: resource.api_version for resource in RESOURCES}
    try:
        documents = _documents(stream.read())
        json.dumps(documents, ensure_ascii=False, allow_nan=False).encode()
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refusal(f"{title_of(stream)} is not YAML: {error}") from error
    except RecursionError as error:
        raise Refusal(f"{title_of(stream)} is nested too deeply to be a manifest") from error
    except (TypeError, ValueError) as error:
        # YAML has sets, binary data and references to itself, but JSON does not.
        raise Refusal(f"{title_of(stream)} cannot be written as JSON: {error}") from error
    for document in documents:
        yield from _sets_of(document, title_of(stream), versions)


def _documents(raw: bytes) -> list[Any]:
    """Return the documents of a stream. As in kubectl, JSON objects need no separator between them.

    Raises yaml.YAMLError, UnicodeDecodeError or RecursionError.
    """
    if raw.lstrip().startswith(b"{"):
        # Anything else that begins like JSON may be a flow mapping of YAML.
        with suppress(ValueError):
            return list(_json_objects(raw.decode()))
    return list(yaml.load_all(raw, Loader=_Loader))


def _json_objects(text: str) -> Iterator[Any]:
    decoder, end = json.JSONDecoder(), 0
    while start := _JSON_START.search(text, end):
        document, end = decoder.raw_decode(text, start.start())
        yield document


def _sets_of(document: Any, name: str, versions: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        return
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str):
        return
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            yield from _sets_of(item, name, versions)
    if kind not in versions:
        return
    version = document.get("apiVersion")
    if version != versions[kind]:
        raise Refusal(f"{name}: apiVersion is {version!r}, only {versions[kind]} is known")
    yield document


def as_stored(manifest: Object) -> dict[str, Any]:
    """Return the set as the API server and our webhook would store it, without contacting a cluster.

    The UID is a dash, because no cluster has assigned one. Raises a Refusal if they would reject the set.
    """
    obj = defaulted(manifest)
    if errors := _ERRORS[manifest["kind"]](obj):
        raise Refusal(f"it would be rejected: {aggregate(errors)}")
    try:
        kind_of(obj).resource.model.model_validate(obj)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise Refusal(f"it would be rejected: {path}: {first['msg']}") from error
    # The CRD has limits that the models do not have.
    if fault := kind_of(obj).fault(obj):
        raise Refusal(f"it would be rejected: {fault}")
    return {**obj, "metadata": {"namespace": "default", **obj["metadata"], "uid": "-"}}


def _errors_with_defaults(lws: dict[str, Any]) -> Sequence[FieldError]:
    default(lws)
    return set_validation.errors_in(lws)


_ERRORS: Mapping[str, Callable[[dict[str, Any]], Sequence[FieldError]]] = {
    KIND: _errors_with_defaults,
    ROLES_KIND: validation.errors_in,
}
