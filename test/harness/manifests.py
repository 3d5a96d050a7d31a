"""Build manifests and patches of small sets whose pods are ready after a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws_api.leaderworkerset.v1 import API_VERSION, KIND

Object = dict[str, Any]

CONTAINER = "server"


def pod_template(image: str = "server:1", annotations: Mapping[str, str] | None = None, **pod: Any) -> Object:
    """Build the template of a pod with one container."""
    metadata = {"annotations": dict(annotations)} if annotations else {}
    return {"metadata": metadata, "spec": {"containers": [{"name": CONTAINER, "image": image}], **pod}}


def a_set(
    name: str,
    replicas: int | None = 2,
    size: int = 2,
    *,
    workers: Mapping[str, Any] | None = None,
    group: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Build a LeaderWorkerSet.

    workers: the template of worker pods.
    group: more fields of `leaderWorkerTemplate`.
    spec: more fields of the spec.
    """
    template = {"size": size, "workerTemplate": dict(workers or pod_template()), **(group or {})}
    count = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {**count, "leaderWorkerTemplate": template, **spec},
    }


def rolling(**budget: Any) -> Object:
    """Build a rolloutStrategy with this maxUnavailable, maxSurge or partition."""
    return {"type": "RollingUpdate", "rollingUpdateConfiguration": budget}


def new_image(image: str) -> Object:
    """Build the patch that starts a rollout of `a_set`."""
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": pod_template(image)["spec"]}}}}


def scaled_to(replicas: int) -> Object:
    """Build the patch that scales a set."""
    return {"spec": {"replicas": replicas}}


def new_budget(**budget: Any) -> Object:
    """Build the patch that changes single fields of the rollout's budget."""
    return {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": budget}}}
