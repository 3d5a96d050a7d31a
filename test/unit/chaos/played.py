"""Generate the audit log of writes to a set, and run the chaos checks on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lws.kube.pods import with_required_node
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.harness.audit import MANAGER
from test.integration.chaos.invariants import STATEFULSET_CONTROLLER, violations
from test.integration.chaos.record import PODS, SETS, STATEFULSETS, Entry, changes_of, ordered
from test.integration.chaos.replay import Step, steps_of

Object = dict[str, Any]

NAME = "web"
KUBELET, USER = "kubelet", "somebody"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
WAITING: Object = {
    "metadata": {"annotations": {RETURNS_TO_ANNOTATION: "node-1"}},
    "spec": {"affinity": with_required_node({}, "node-1")},
    "status": {"phase": "Pending"},
}
"""A pod without a node that must return to a certain node."""
_RESOURCES = {"Pod": PODS, "StatefulSet": STATEFULSETS, "LeaderWorkerSet": SETS}


class Played:
    """A settled set of `replicas` groups of two pods on revision "old", and the audit log of its writes.

    budget: fields of the rollingUpdateConfiguration.
    """

    def __init__(self, replicas: int = 4, **budget: Any) -> None:
        self.entries: list[Entry] = []
        self._objects: dict[tuple[str, str], Object] = {}
        self._version = 0
        self._seconds = 0.0
        rolling = {"rolloutStrategy": {"rollingUpdateConfiguration": budget}}
        self.write(USER, {"kind": "LeaderWorkerSet", "spec": {"replicas": replicas, **rolling}}, NAME)
        self.apply_statefulset("old", replicas=replicas, partition=0)
        for group in range(replicas):
            self.create_group(group, "old")
        self.wait(60)

    def wait(self, seconds: float) -> None:
        self._seconds += seconds

    def apply_statefulset(self, key: str, replicas: int, partition: int, by: str = MANAGER) -> None:
        """Apply the leader StatefulSet."""
        rolling = {"rollingUpdate": {"partition": partition}}
        spec = {"replicas": replicas, "updateStrategy": rolling}
        self.write(
            by,
            {"kind": "StatefulSet", "spec": spec, "metadata": {"labels": {REVISION_LABEL: key}}},
            NAME,
        )

    def create_group(self, group: int, key: str, generation: int = 1, worker_key: str = "") -> None:
        """Create a whole group: leader, worker StatefulSet and worker, all ready."""
        self.create_leader(group, key, generation)
        self.create_worker_statefulset(group, generation)
        self.create_worker(group, worker_key or key, generation)

    def create_leader(
        self,
        group: int,
        key: str,
        generation: int = 1,
        is_gated: bool = False,
        extra: Object | None = None,
    ) -> None:
        """Create the leader only, ready or waiting at its gate. extra: fields to merge into the pod."""
        pod = _merged(_pod(group, 0, key, f"leader-{group}-{generation}", "leaders"), extra or {})
        gates = [{"name": GROUP_REPLACEMENT_GATE}] if is_gated else []
        spec = {**pod.get("spec", {}), "schedulingGates": gates}
        self.write(STATEFULSET_CONTROLLER, {**pod, "spec": spec}, f"{NAME}-{group}")

    def create_worker_statefulset(self, group: int, generation: int, uid: str = "") -> None:
        """Create the StatefulSet of a worker."""
        leader = f"leader-{group}-{generation}"
        workers = {
            "kind": "StatefulSet",
            "metadata": {"uid": uid or f"workers-{leader}", "ownerReferences": _owned_by(leader)},
            "spec": {"replicas": 1},
            "status": {"readyReplicas": 1},
        }
        self.write(MANAGER, workers, f"{NAME}-{group}")

    def create_worker(
        self,
        group: int,
        key: str,
        generation: int = 1,
        uid: str = "",
        owner: str = "",
        extra: Object | None = None,
    ) -> None:
        """Create the worker only, ready. extra: fields to merge into the pod."""
        owner = owner or f"workers-leader-{group}-{generation}"
        pod = _pod(group, 1, key, uid or f"worker-{group}-{generation}", owner)
        self.write(STATEFULSET_CONTROLLER, _merged(pod, extra or {}), f"{NAME}-{group}-1")

    def write(self, by: str, obj: Object, name: str, verb: str = "patch") -> None:
        """Store an object as given, with the labels of the set."""
        metadata = {"name": name, "uid": f"{obj['kind']}-{name}", "generation": 1, **obj.get("metadata", {})}
        metadata["labels"] = {NAME_LABEL: NAME, **metadata.get("labels", {})}
        status = {"observedGeneration": 1, **obj.get("status", {})}
        self._store(by, verb, {**obj, "metadata": metadata, "status": status})

    def delete(self, by: str, name: str, grace: int = 30) -> None:
        """Delete a pod: mark it as terminating, or remove it if `grace` is 0."""
        pod = self._objects["Pod", name]
        deletion = {"deletionTimestamp": "now", "deletionGracePeriodSeconds": grace}
        self._store(by, "delete", {**pod, "metadata": {**pod["metadata"], **deletion}})

    def replace(self, by: str, group: int, key: str, generation: int = 2) -> None:
        """Delete a leader, remove its group, and recreate it."""
        self.delete(by, f"{NAME}-{group}")
        self.delete(KUBELET, f"{NAME}-{group}-1", grace=0)
        self.delete(KUBELET, f"{NAME}-{group}", grace=0)
        self.create_group(group, key, generation)

    def set_status(self, name: str, **status: Any) -> None:
        """Have the kubelet write fields of a pod's status."""
        pod = self._objects["Pod", name]
        self._store(KUBELET, "patch", {**pod, "status": {**pod["status"], **status}})

    def steps(self) -> list[Step]:
        return steps_of(NAME, ordered(list(changes_of(self.entries))))

    def violations(self) -> list[str]:
        return [violation.what for violation in violations(NAME, self.steps())]

    def _store(self, by: str, verb: str, obj: Object) -> None:
        self._version += 1
        self._seconds += 0.01
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        stored = {**obj, "metadata": metadata}
        kind, name = obj["kind"], metadata["name"]
        self._objects[kind, name] = stored
        at = BEGAN + timedelta(seconds=self._seconds)
        self.entries.append(
            Entry(at, verb, _RESOURCES[kind], "default", name, 200, by, credential=by, answer=stored)
        )


def _pod(group: int, worker: int, key: str, uid: str, owner: str) -> Object:
    labels = {GROUP_INDEX_LABEL: str(group), WORKER_INDEX_LABEL: str(worker), REVISION_LABEL: key}
    return {
        "kind": "Pod",
        "metadata": {
            "uid": uid,
            "labels": labels,
            "annotations": {SIZE_ANNOTATION: "2"},
            "ownerReferences": _owned_by(owner),
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def _merged(pod: Object, extra: Object) -> Object:
    annotations = {**pod["metadata"]["annotations"], **extra.get("metadata", {}).get("annotations", {})}
    return {**pod, **extra, "metadata": {**pod["metadata"], "annotations": annotations}}


def _owned_by(uid: str) -> list[Object]:
    return [{"uid": uid, "controller": True}]
