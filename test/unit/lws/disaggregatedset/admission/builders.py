"""DisaggregatedSets as users write them, with the definition's defaults, and their errors and warnings."""

from __future__ import annotations

import copy
from typing import Any

from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import API_VERSION, KIND

Object = dict[str, Any]

EXTERNAL: Object = {"scaling": {"mode": "External"}}


def make_role(
    name: str = "prefill",
    max_unavailable: Any = None,
    max_surge: Any = None,
    size: Any = None,
    pod: Object | None = None,
    **spec: Any,
) -> Object:
    template: Object = {"workerTemplate": pod or {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    if size is not None:
        template["size"] = size
    template.update(spec.pop("leaderWorkerTemplate", {}))
    budgets = {"maxUnavailable": max_unavailable, "maxSurge": max_surge}
    rolling = {key: value for key, value in budgets.items() if value is not None}
    if rolling:
        spec["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling}
    return copy.deepcopy({"name": name, "spec": {"leaderWorkerTemplate": template, **spec}})


def make_set(*roles: Object, name: str = "llm", **spec: Any) -> Object:
    raw = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"roles": list(roles or (make_role("prefill"), make_role("decode"))), **spec},
    }
    return defaulted(raw)


def beside(role: Object) -> list[Object]:
    """Return this role, and a second one that causes no message."""
    return [role, make_role("decode")]


def messages(new: Object, old: Object | None = None) -> list[str]:
    return [str(error) for error in errors_in(new, old)]


def warnings(new: Object, old: Object | None = None) -> list[str]:
    return warnings_in(new, old)
