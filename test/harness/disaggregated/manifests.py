"""Which DisaggregatedSets do tests make? Two roles whose pods are ready after a second.

In: what a test is about. Out: manifests and patches as plain dicts.
"""

from __future__ import annotations

from typing import Any

from lws_api.disaggregatedset.v1 import API_VERSION, KIND
from test.harness.manifests import pod_template, rolling

Object = dict[str, Any]


def a_role(
    name: str,
    replicas: int | None = 1,
    image: str = "server:1",
    *,
    size: int = 1,
    budget: Object | None = None,
    more: Object | None = None,
    **pod: Any,
) -> Object:
    """replicas: None where a scaler says it. budget: maxSurge, maxUnavailable. more: of the role, beside its
    spec. pod: fields of the pods' spec.
    """
    template = {"size": size, "workerTemplate": pod_template(image, **pod)}
    spec: Object = {"leaderWorkerTemplate": template}
    if budget is not None:
        spec["rolloutStrategy"] = rolling(**budget)
    if replicas is None:
        return {"name": name, "scaling": {"mode": "External"}, "spec": spec, **(more or {})}
    return {"name": name, "spec": {**spec, "replicas": replicas}, **(more or {})}


def roles(prefill: int | None, decode: int | None, image: str = "server:1", **more: Any) -> list[Object]:
    """more: arguments of `a_role`, for both."""
    return [a_role("prefill", prefill, image, **more), a_role("decode", decode, image, **more)]


def a_disaggregated_set(name: str, of: list[Object], **spec: Any) -> Object:
    """of: its roles. spec: fields beside them."""
    made = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
    return {**made, "spec": {"roles": of, **spec}}


def new_roles(of: list[Object], **spec: Any) -> Object:
    """The patch that asks for these roles instead."""
    return {"spec": {"roles": of, **spec}}
