"""Build manifests and patches of DisaggregatedSets with two roles whose pods are ready after a second."""

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
    """Build one role.

    replicas: the number of groups; None if a scaler sets it.
    budget: maxSurge and maxUnavailable.
    more: fields of the role beside its spec.
    pod: fields of the pods' spec.
    """
    template = {"size": size, "workerTemplate": pod_template(image, **pod)}
    spec: Object = {"leaderWorkerTemplate": template}
    if budget is not None:
        spec["rolloutStrategy"] = rolling(**budget)
    if replicas is None:
        return {"name": name, "scaling": {"mode": "External"}, "spec": spec, **(more or {})}
    return {"name": name, "spec": {**spec, "replicas": replicas}, **(more or {})}


def roles(prefill: int | None, decode: int | None, image: str = "server:1", **more: Any) -> list[Object]:
    """Build the roles prefill and decode.

    more: arguments of `a_role`, for both roles.
    """
    return [a_role("prefill", prefill, image, **more), a_role("decode", decode, image, **more)]


def a_disaggregated_set(name: str, of: list[Object], **spec: Any) -> Object:
    """Build a DisaggregatedSet.

    of: its roles.
    spec: fields of the spec beside the roles.
    """
    obj = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
    return {**obj, "spec": {"roles": of, **spec}}


def new_roles(of: list[Object], **spec: Any) -> Object:
    """Build the patch that replaces the roles."""
    return {"spec": {"roles": of, **spec}}
