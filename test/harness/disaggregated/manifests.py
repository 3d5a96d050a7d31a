"""Build manifests and patches of DisaggregatedSets: two roles whose pods are ready after a second."""

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
    """One role. replicas: None if a scaler sets it. budget: maxSurge, maxUnavailable. more: fields of the
    role beside its spec. pod: fields of the pods' spec.
    """
    template = {"size": size, "workerTemplate": pod_template(image, **pod)}
    spec: Object = {"leaderWorkerTemplate": template}
    if budget is not None:
        spec["rolloutStrategy"] = rolling(**budget)
    if replicas is None:
        return {"name": name, "scaling": {"mode": "External"}, "spec": spec, **(more or {})}
    return {"name": name, "spec": {**spec, "replicas": replicas}, **(more or {})}


def roles(prefill: int | None, decode: int | None, image: str = "server:1", **more: Any) -> list[Object]:
    """The roles prefill and decode. more: arguments of `a_role`, for both."""
    return [a_role("prefill", prefill, image, **more), a_role("decode", decode, image, **more)]


def a_disaggregated_set(name: str, of: list[Object], **spec: Any) -> Object:
    """A DisaggregatedSet. of: its roles. spec: fields beside them."""
    obj = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
    return {**obj, "spec": {"roles": of, **spec}}


def new_roles(of: list[Object], **spec: Any) -> Object:
    """The patch that replaces the roles."""
    return {"spec": {"roles": of, **spec}}
