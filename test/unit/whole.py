"""Check that no decision depends on fields that the store trims away.

A second observer, whose store keeps whole objects, must make the same plans; otherwise an AssertionError is
raised. The fields that were read are recorded by kind. Before that, every object gets the fields that a real
cluster would add to it.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import ModuleType
from typing import Any
from unittest import mock

from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.observe.observer import Observer
from lws.leaderworkerset.plan import plan as plan_set
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.tables import table_of
from lws.runtime.store import Store
from lws.runtime.stored_fields import StoredFields

Object = Mapping[str, Any]
Path = tuple[str, ...]

EARLY = "2026-01-01T00:00:00Z"
OF_OTHERS: list[dict[str, Any]] = [
    {
        "manager": "kubectl-edit",
        "operation": "Update",
        "apiVersion": "v1",
        "time": EARLY,
        "fieldsV1": {"f:x": {}},
    },
    {"manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
]
USERS = {
    "labels": {"team": "a", "app.kubernetes.io/name": "server"},
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/note": "x"},
}
CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "imagePullPolicy": "IfNotPresent",
    "env": [{"name": "HOME", "value": "/"}],
    "resources": {"requests": {"cpu": "1"}},
    "volumeMounts": [{"name": "token", "mountPath": "/var/run"}],
}
CONTAINER_STATUS = {
    "ready": True,
    "started": True,
    "image": "x",
    "imageID": "sha256:0",
    "containerID": "c://0",
}
INIT_STATUS = {
    "name": "prepare",
    "restartCount": 0,
    "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": EARLY, "finishedAt": EARLY}},
    **CONTAINER_STATUS,
}
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady")
ADDED: dict[str, dict[str, Any]] = {
    "Pod": {
        "metadata": {"generateName": "demo-", "selfLink": "/api/v1/pods/demo", **USERS},
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": []}}],
            "initContainers": [{"name": "prepare", "image": "x"}],
            "serviceAccountName": "default",
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
            "priority": 0,
            "nodeSelector": {"pool": "a"},
        },
        "status": {
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "hostIP": "10.0.0.1",
            "qosClass": "Burstable",
            "startTime": EARLY,
            "message": "words",
            "initContainerStatuses": [INIT_STATUS],
        },
    },
    "StatefulSet": {
        "metadata": USERS,
        "status": {
            "collisionCount": 0,
            "readyReplicas": 7,
            "updatedReplicas": 7,
            "conditions": [{"type": "X"}],
        },
    },
    "Service": {
        "metadata": USERS,
        "spec": {
            "clusterIP": "10.0.0.9",
            "clusterIPs": ["10.0.0.9"],
            "type": "ClusterIP",
            "ipFamilies": ["IPv4"],
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    },
    "PodDisruptionBudget": {
        "metadata": USERS,
        "status": {"currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1, "expectedPods": 3},
    },
    "PersistentVolumeClaim": {
        "metadata": {**USERS, "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    },
    "PodGroup": {"metadata": USERS, "spec": {"minMember": 2}, "status": {"phase": "Running"}},
}


def dressed(obj: Object) -> dict[str, Any]:
    """Return the object with absent fields that users, kubelets and controllers would add."""
    result = copy.deepcopy(dict(obj))
    _fill(result, ADDED.get(result["kind"], {}))
    result["metadata"]["managedFields"] = [*(result["metadata"].get("managedFields") or ()), *OF_OTHERS]
    if result["kind"] == "Pod":
        _dress_pod(result)
    return result


def _fill(target: dict[str, Any], added: Mapping[str, Any]) -> None:
    for name, value in added.items():
        if isinstance(value, Mapping) and isinstance(target.get(name), dict):
            _fill(target[name], value)
        elif target.get(name) is None:
            target[name] = copy.deepcopy(value)


def _dress_pod(pod: dict[str, Any]) -> None:
    for container in (*pod["spec"].get("containers", ()), *pod["spec"]["initContainers"]):
        _fill(container, CONTAINER)
    for entry in pod["status"].get("containerStatuses") or ():
        _fill(entry, CONTAINER_STATUS)
    conditions = pod["status"].get("conditions") or []
    for condition in conditions:
        _fill(condition, {"lastProbeTime": EARLY, "message": "words"})
    common = {"status": "True", "lastTransitionTime": EARLY, "reason": "r"}
    pod["status"]["conditions"] = [
        *({"type": condition_type, **common} for condition_type in CONDITIONS),
        *conditions,
    ]


class Watched(dict[str, Any]):
    """JSON data that records which of its fields are read."""

    def __init__(self, data: Object, path: Path, reads: set[Path]) -> None:
        super().__init__({name: _watched(value, (*path, name), reads) for name, value in data.items()})
        self._path, self._reads = path, reads

    def __getitem__(self, name: str) -> Any:
        self._reads.add((*self._path, name))
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._reads.add((*self._path, str(name)))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._reads.add((*self._path, name))
        return super().get(name, default)

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return copy.deepcopy(dict(self), memo)


def _watched(value: Any, path: Path, reads: set[Path]) -> Any:
    if isinstance(value, Mapping):
        return Watched(value, path, reads)
    return [_watched(item, path, reads) for item in value] if isinstance(value, list) else value


class Reads:
    """The fields that were read.

    tables: the table of each kind, or part of a kind. compared: the number of compared plans.
    """

    def __init__(self) -> None:
        self.tables: dict[str, StoredFields] = {}
        self.paths: defaultdict[str, set[Path]] = defaultdict(set)
        self.compared: Counter[str] = Counter()

    def watched(self, obj: Object) -> Any:
        """Return the whole object, so that reads of its fields are recorded."""
        table = table_of(obj)
        if table is None:
            return dict(obj)
        # The two tables of StatefulSets count as two kinds here.
        name = f"{table.kind} {'in part' if table.others is None else 'whole'}"
        self.tables[name] = table
        return Watched(obj, (), self.paths[name])

    def without_row(self) -> list[str]:
        """Return fields that were read although no row of their table keeps them."""
        return sorted(
            f"{name}: {'.'.join(path)}"
            for name, paths in self.paths.items()
            for path in paths
            if not is_kept(self.tables[name], path)
        )


def is_kept(table: StoredFields, path: Path) -> bool:
    """Report whether a row keeps this field, a part of it, or a field that contains it."""
    if table.others is not None or path in (("apiVersion",), ("kind",)):
        return True
    if (table.kind, path) == ("StatefulSet", ("data",)):
        # StatefulSets have no `data`; it is read because ControllerRevisions go through the same code.
        return True
    rows = [tuple(field.path.split(".")) for field in table.fields]
    return any(row[: len(path)] == path[: len(row)] for row in rows)


@contextmanager
def doubled(stores: ModuleType, observers: ModuleType) -> Iterator[Reads]:
    """Give the stores and observers of these modules a double that sees whole objects."""
    reads = Reads()

    class Whole(Store):
        def __init__(self) -> None:
            super().__init__(lambda before, after: None, ())
            self.trimmed, self._is_same = reads.watched, lambda before, after: False

    class Mirrored(Store):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.whole = Whole()

        def put(self, obj: Object) -> None:
            filled = dressed(obj)
            self.whole.put(filled)
            super().put(filled)

        def drop(self, obj: Object) -> None:
            key = obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            stored = self.whole.get(*key) if obj is self.get(*key) else None
            self.whole.drop(stored if stored is not None else obj)
            super().drop(obj)

        def retain(self, kind: str, *args: Any, **kwargs: Any) -> None:
            self.whole.retain(kind, *args, **kwargs)
            super().retain(kind, *args, **kwargs)

    class Doubled(Observer):
        def __init__(self, cluster: Any, store: Any, memory: Any, environment: Any = None) -> None:
            super().__init__(cluster, store, memory, environment)
            self._double = Observer(cluster, store.whole, memory, environment)

        async def observe_set(self, namespace: str, name: str, now: datetime) -> SetSnapshot | None:
            seen = await self._double.observe_set(namespace, name, now)
            snapshot = await super().observe_set(namespace, name, now)
            assert (seen and plan_set(seen)) == (snapshot and plan_set(snapshot))
            reads.compared["set"] += snapshot is not None
            return snapshot

        async def observe_group(self, namespace: str, name: str, now: datetime) -> GroupSnapshot | None:
            seen = await self._double.observe_group(namespace, name, now)
            snapshot = await super().observe_group(namespace, name, now)
            assert (seen and plan_group(seen)) == (snapshot and plan_group(snapshot))
            reads.compared["group"] += snapshot is not None
            return snapshot

    with mock.patch.object(stores, "Store", Mirrored), mock.patch.object(observers, "Observer", Doubled):
        yield reads
