"""Build the sets to measure, and the StatefulSets of the floor with the same pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws_api.leaderworkerset.v1 import API_VERSION, KIND
from test.bench.shapes import Shape

Object = dict[str, Any]

OLD, NEW = "server:1", "server:2"
_SET = "floor-set"


def pod_spec(image: str) -> Object:
    """One container; gone at once when deleted, as no kubelet has to be played then."""
    return {"terminationGracePeriodSeconds": 0, "containers": [{"name": "server", "image": image}]}


def a_set(shape: Shape, index: int) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": set_name(index)},
        "spec": {
            "replicas": shape.groups,
            **({"groupIdentity": "Hash"} if shape.is_hash else {}),
            "leaderWorkerTemplate": {"size": shape.size, "workerTemplate": {"spec": pod_spec(OLD)}},
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": shape.max_unavailable, "maxSurge": 0},
            },
        },
    }


def new_image() -> Object:
    """The patch of a set that starts a rollout."""
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": pod_spec(NEW)}}}}


def set_name(index: int) -> str:
    return f"set-{index}"


def group_name(index: int, group: int) -> str:
    return f"{set_name(index)}-{group}"


def a_service(index: int) -> Object:
    """What gives the pods of one set their names, as a controller makes it."""
    name = set_name(index)
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {_SET: name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def leaders(shape: Shape, index: int, image: str) -> Object:
    """The StatefulSet of the leaders of one set, rolled by deleting its pods."""
    made = _statefulset(set_name(index), shape.groups, image, {_SET: set_name(index)})
    made["spec"]["updateStrategy"] = {"type": "OnDelete"}
    return made


def workers(shape: Shape, index: int, group: int, image: str) -> Object:
    """The StatefulSet of the workers of one group."""
    made = _statefulset(group_name(index, group), shape.size - 1, image, {_SET: set_name(index)})
    made["spec"]["ordinals"] = {"start": 1}
    return made


def _statefulset(name: str, replicas: int, image: str, also: Mapping[str, str]) -> Object:
    """also: labels of its pods besides that of the StatefulSet itself."""
    labels = {"floor": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, **also}}, "spec": pod_spec(image)},
        },
    }


def a_foreign_pod(index: int) -> Object:
    """A pod that is nobody's and is never scheduled."""
    spec = {**pod_spec(OLD), "schedulerName": "nobody"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"foreign-{index}"}, "spec": spec}


def a_foreign_statefulset(index: int) -> Object:
    """A StatefulSet without pods that has nothing to do with sets."""
    return _statefulset(f"foreign-{index}", 0, OLD, {})
