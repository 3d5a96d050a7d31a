"""Reviews of objects in which one list, map, string or number is as large as a stranger can send it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import orjson

from lws.runtime.webhooks.server import MAX_BODY_BYTES, MOST_VALUES
from lws_api.disaggregatedset import v1 as disaggregated
from lws_api.leaderworkerset.placement import (
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    API_VERSION,
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    KIND,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)

Path = tuple[str | int, ...]

_TPU = "google.com/tpu"


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "app:1",
        "args": ["serve"],
        "env": [{"name": "A", "value": "b"}, {"name": "LWS_GROUP_SIZE", "value": "3"}],
        "ports": [{"name": "http", "containerPort": 80}],
        "resources": {"limits": {_TPU: "4", "cpu": "1"}, "requests": {_TPU: "4"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


def _pod_spec() -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    near = {"labelSelector": {**term, "matchLabels": {"c": "d"}}, "topologyKey": "rack", "namespaces": ["e"]}
    return {
        "containers": [_container("main"), _container("other")],
        "initContainers": [{**_container("prepare"), "restartPolicy": "Always"}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "subdomain": "demo",
        "schedulerName": "default-scheduler",
        "schedulingGates": [{"name": "wait"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]},
        },
    }


def _template(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "x", **labels}, "annotations": {"a": "b"}}, "spec": _pod_spec()}


def _set_spec() -> dict[str, Any]:
    return {
        "replicas": 3,
        "startupPolicy": "LeaderCreated",
        "leaderWorkerTemplate": {
            "size": 4,
            "restartPolicy": "RecreateGroupOnPodRestart",
            "restartBackoff": {"baseSeconds": 1, "capSeconds": 60},
            "leaderTemplate": _template(role="leader"),
            "workerTemplate": _template(role="worker"),
            "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderWorker"},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data", "labels": {"a": "b"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
        },
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"partition": 1, "maxUnavailable": 1, "maxSurge": "50%"},
            "prewarm": {"command": ["true"], "deadlineSeconds": 60},
        },
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        "leaderService": {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        "startStrategy": {"seedGroups": 1, "growthFactor": 2},
    }


def a_set() -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": "demo",
            "namespace": "default",
            "labels": {"team": "a"},
            "annotations": {
                EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
                SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host",
                GROUP_NODE_SELECTOR_ANNOTATION: "pool=pool-$(GROUP_INDEX)",
                GROUP_TOLERATIONS_ANNOTATION: "pool=x:NoSchedule",
                NODE_RETURN_ANNOTATION: "Preferred",
                NODE_RETURN_EXCEPT_ANNOTATION: "node-1,node-2",
            },
            "finalizers": ["a/b"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}],
            "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": _set_spec(),
        "status": {
            "replicas": 5,
            "updatedReplicas": 2,
            "conditions": [{"type": "UpdateInProgress", "status": "True", "reason": "r", "message": "m"}],
            "groups": {"unsettled": [{"name": "demo-0", "state": "NotReady"}], "counts": {"Ready": 1}},
        },
    }


def a_hash_set() -> dict[str, Any]:
    """Return a set with the fields that `a_set` cannot have too."""
    lws = a_set()
    del lws["spec"]["leaderWorkerTemplate"]["volumeClaimTemplates"], lws["spec"]["rolloutStrategy"]
    lws["spec"] |= {
        "groupIdentity": "Hash",
        "managedBy": "example.com/controller",
        "maxGroupRestarts": 3,
        "networkConfig": {"subdomainPolicy": "Shared"},
        "scheduling": {
            "replica": {
                "schedulingPolicy": {"gang": {"minCount": 4}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
            }
        },
    }
    lws["metadata"]["annotations"] = {SHARED_TOPOLOGY_ANNOTATION: "rack"}
    return lws


def a_disaggregated_set() -> dict[str, Any]:
    names = ("prefill", "decode", "prefill-x")
    roles = [
        {
            "name": name,
            "scaling": {"mode": "External"},
            "startAfter": list(names[:index]),
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {**_set_spec(), "rolloutStrategy": {"type": "RollingUpdate"}},
        }
        for index, name in enumerate(names)
    ]
    return {
        "apiVersion": disaggregated.API_VERSION,
        "kind": disaggregated.KIND,
        "metadata": {"name": "llm", "namespace": "default", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "slices": 2,
            "roles": roles,
            "placementPolicy": {"type": "Colocated", "topology": "rack", "strength": "Required"},
        },
        "status": {
            "currentRevision": "a",
            "updateRevision": "b",
            "roleStatuses": [{"name": name, "replicas": 9, "updatedReplicas": 1} for name in names],
        },
    }


def _pod(name: str, labels: Mapping[str, str], annotations: Mapping[str, str], owner: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": "demo", "uid": "u", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "0", **labels},
            "annotations": {SIZE_ANNOTATION: "4000", SUBGROUP_SIZE_ANNOTATION: "2000", **annotations},
            "ownerReferences": [reference],
            "finalizers": ["a/b"],
        },
        "spec": _pod_spec(),
    }


def a_leader() -> dict[str, Any]:
    annotations = {
        EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
        SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host",
        SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica",
        GROUP_NODE_SELECTOR_ANNOTATION: "pool=pool-$(GROUP_INDEX)",
        GROUP_TOLERATIONS_ANNOTATION: "pool=x:NoSchedule",
    }
    return _pod("demo-0", {WORKER_INDEX_LABEL: "0"}, annotations, "StatefulSet")


def a_worker() -> dict[str, Any]:
    annotations = {
        LEADER_NAME_ANNOTATION: "demo-0",
        "leaderworkerset.sigs.k8s.io/leader-requests-tpus": "true",
    }
    return _pod("demo-0-3", {}, annotations, "StatefulSet")


def locations(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every list, map, string and number of an object, with its path."""
    yield path, value
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in items:
        yield from locations(item, (*path, key))


def _named(item: Any, index: int) -> Any:
    return {**item, "name": f"n{index}"} if isinstance(item, dict) else f"n{index}"


Grow = Callable[[Any, int], Any]

_LISTS: Mapping[str, Grow] = {
    "copies": lambda value, size: value[:1] * size,
    "names": lambda value, size: [_named(value[0] if value else {}, index) for index in range(size)],
    "one name": lambda value, size: [{"name": "n"}] * size,
    "empty": lambda value, size: [{}] * size,
    "lists": lambda value, size: [[]] * size,
    "text": lambda value, size: [""] * size,
    "null": lambda value, size: [None] * size,
    "added": lambda value, size: value + [{}] * size,
    "nested": lambda value, size: _nested_list(min(size, 900)),
}
_MAPS: Mapping[str, Grow] = {
    "copies": lambda value, size: {**value, **{f"k{index}": _first(value) for index in range(size)}},
    "text": lambda value, size: {**value, **{f"k{index}": "" for index in range(size)}},
    "objects": lambda value, size: {**value, **{f"k{index}": {} for index in range(size)}},
    "long key": lambda value, size: {**value, "k" * size: _first(value)},
    "nested": lambda value, size: nested(min(size, 900)),
}
_TEXTS: Mapping[str, Grow] = {
    "letters": lambda value, size: "a" * size,
    "digits": lambda value, size: "9" * size,
    "dashes": lambda value, size: "a-" * (size // 2) or "-",
    "dots": lambda value, size: "a." * (size // 2) or ".",
    "slashes": lambda value, size: "a/" * (size // 2) or "/",
    "commas": lambda value, size: "a," * (size // 2) or ",",
    "spaces": lambda value, size: " " * size,
    "escapes": lambda value, size: "\x01" * size,
    "wide": lambda value, size: "a" * size + "\U0001f600",
    "braces": lambda value, size: "{" * size,
    "end": lambda value, size: f"{value}{'0' * size}!",
    "list": lambda value, size: "[" + "{}," * (size // 3) + "{}]",
    "map": lambda value, size: "{" + "".join(f'"a{i}":"{{index}}",' for i in range(size // 20)) + '"z":"1"}',
}
_NUMBERS: Mapping[str, Grow] = {"number": lambda value, size: size, "largest": lambda value, size: 2**63 - 1}


def _first(value: Mapping[str, Any]) -> Any:
    return next(iter(value.values()), "")


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"k": value}
    return value


def _nested_list(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def variants(value: Any) -> Mapping[str, Grow]:
    """Return the ways in which a value can be large."""
    if isinstance(value, list):
        return _LISTS
    if isinstance(value, dict):
        return _MAPS
    if isinstance(value, str):
        return _TEXTS
    return _NUMBERS if type(value) is int else {}


def replaced(obj: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return a copy of the object with another value at the path."""
    if not path:
        return change(obj)
    copied = copy.copy(obj)
    copied[path[0]] = replaced(obj[path[0]], path[1:], change)
    return copied


def _grown(grow: Grow, size: int, value: Any) -> Any:
    return grow(value, size)


def largest(obj: Any, path: Path, grow: Grow, size: int, most: int, values: int) -> Any:
    """Return the object with the value at the path grown to `size`, or to what fits into so many bytes and
    values.
    """
    while True:
        big = replaced(obj, path, partial(_grown, grow, size))
        text = encoded(big)
        excess = max(len(text) / most, sum(map(text.count, (b",", b"[", b"{"))) / values)
        if excess <= 1 or size <= 1:
            return big
        size = max(1, int(size / excess * 0.98))


def encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson writes fewer levels than it reads.
        return json.dumps(value).encode()


def body(resource: Any, new: Any, old: Any = None) -> bytes:
    request = {
        "uid": "review-1",
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "default",
        "userInfo": {},
        "object": new,
        "oldObject": old,
    }
    return encoded({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


ROOM, VALUES = MAX_BODY_BYTES - 4096, MOST_VALUES - 100
