"""Build the sets to measure, and the StatefulSets of the baseline with the same pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws_api.leaderworkerset.v1 import API_VERSION, KIND
from test.bench.shapes import Shape
from tools.localcluster.kubelet import STOPS_AFTER

Object = dict[str, Any]

OLD, NEW = "server:1", "server:2"
_SET = "floor-set"


def pod_spec(image: str, grace: int = 0) -> Object:
    """Return a pod spec with one container.

    With a grace period of 0 seconds, a deleted pod is gone at once, because no program plays its kubelet.
    """
    return {"terminationGracePeriodSeconds": grace, "containers": [{"name": "server", "image": image}]}


def pod_template(shape: Shape, image: str) -> Object:
    """Return the template of pods that terminate at once, or in a second."""
    if not shape.is_ending:
        return {"spec": pod_spec(image)}
    return {"metadata": {"annotations": {STOPS_AFTER: "1"}}, "spec": pod_spec(image, grace=30)}


def a_set(shape: Shape, index: int) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": set_name(index)},
        "spec": {
            "replicas": shape.groups,
            **({"groupIdentity": "Hash"} if shape.is_hash else {}),
            "leaderWorkerTemplate": {"size": shape.size, "workerTemplate": pod_template(shape, OLD)},
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": shape.max_unavailable, "maxSurge": 0},
            },
        },
    }


def new_image(shape: Shape) -> Object:
    """Return the patch of a set that starts a rollout."""
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": pod_template(shape, NEW)}}}


def set_name(index: int) -> str:
    return f"set-{index}"


def group_name(index: int, group: int) -> str:
    return f"{set_name(index)}-{group}"


def a_service(index: int) -> Object:
    """Return the Service that gives the pods of one set their DNS names, as a controller creates it."""
    name = set_name(index)
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {_SET: name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def leaders(shape: Shape, index: int, image: str) -> Object:
    """Return the StatefulSet of one set's leaders, which is rolled out by deleting its pods."""
    statefulset = _statefulset(
        set_name(index), shape.groups, pod_template(shape, image), {_SET: set_name(index)}
    )
    statefulset["spec"]["updateStrategy"] = {"type": "OnDelete"}
    return statefulset


def workers(shape: Shape, index: int, group: int, image: str) -> Object:
    """Return the StatefulSet of one group's workers."""
    template = pod_template(shape, image)
    statefulset = _statefulset(group_name(index, group), shape.size - 1, template, {_SET: set_name(index)})
    statefulset["spec"]["ordinals"] = {"start": 1}
    return statefulset


def _statefulset(name: str, replicas: int, template: Object, also: Mapping[str, str]) -> Object:
    """Return a StatefulSet. also: labels of its pods in addition to the StatefulSet's own."""
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
            "template": {
                **template,
                "metadata": {**template.get("metadata", {}), "labels": {**labels, **also}},
            },
        },
    }


def a_foreign_pod(index: int) -> Object:
    """Return a pod without an owner that is never scheduled."""
    spec = {**pod_spec(OLD), "schedulerName": "nobody"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"foreign-{index}"}, "spec": spec}


def a_foreign_statefulset(index: int) -> Object:
    """Return a StatefulSet without pods that belongs to no set."""
    return _statefulset(f"foreign-{index}", 0, {"spec": pod_spec(OLD)}, {})
