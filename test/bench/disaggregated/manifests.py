"""Build the DisaggregatedSets to measure, and the LeaderWorkerSets that they would create."""

from __future__ import annotations

from lws_api.disaggregatedset import v1 as disaggregatedset
from lws_api.leaderworkerset import v1 as leaderworkerset
from test.bench.disaggregated.shape import PairedShape
from test.bench.manifests import Object, pod_spec


def a_disaggregated_set(shape: PairedShape, index: int, image: str) -> Object:
    return {
        "apiVersion": disaggregatedset.API_VERSION,
        "kind": disaggregatedset.KIND,
        "metadata": {"name": disaggregated_name(index)},
        "spec": new_roles(shape, image)["spec"],
    }


def new_roles(shape: PairedShape, image: str) -> Object:
    """Return the patch that starts a rollout; roles are a list, which is replaced as a whole."""
    spec = {"replicas": shape.groups, "leaderWorkerTemplate": _template(shape, image)}
    return {"spec": {"roles": [{"name": role, "spec": spec} for role in shape.roles]}}


def disaggregated_name(index: int) -> str:
    return f"ds-{index}"


def a_role_set(shape: PairedShape, name: str, replicas: int, image: str) -> Object:
    """Return the LeaderWorkerSet of a role, without the labels of a DisaggregatedSet."""
    return {
        "apiVersion": leaderworkerset.API_VERSION,
        "kind": leaderworkerset.KIND,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": _template(shape, image)},
    }


def _template(shape: PairedShape, image: str) -> Object:
    return {"size": shape.size, "workerTemplate": {"spec": pod_spec(image)}}
