"""The StatefulSet and Deployment controllers, the scheduler and the kubelets of a FakeCluster, one move at a
time.

statefulset_sync.py decides what a StatefulSet deletes and creates, deployment_sync.py how large ReplicaSets
are.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from lws.kube.conditions import is_true
from lws.kube.metadata import controller_of, is_terminating, owner_reference
from lws.kube.pods import PREFERRED, gate_of
from lws.leaderworkerset.assessment.prewarm import has_ended, is_idle
from lws.leaderworkerset.pod_identity import must_return_to
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.runtime.actions import Object
from test.unit.stories.deployment_sync import sizes_after
from test.unit.stories.fake_cluster import FakeCluster
from test.unit.stories.statefulset_sync import SeenPod, StatefulSetSpec, sync

Move = Callable[[], object]
_HASH = "controller-revision-hash"


class FakeNodes:
    """Controllers and nodes of a FakeCluster.

    stuck: UIDs of pods that do not become ready. hopeless: images whose pods never become ready. held: UIDs
    of pods whose node does not report their end. refused: names that a StatefulSet needed for its pods while
    other objects had them. is_cold: whether no Job ends by itself. are_doomed: whether every node is cordoned
    once a pod must return to it. place: the function that picks a node for a pod.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.stuck: set[str] = set()
        self.hopeless: frozenset[str] = frozenset()
        self.held: set[str] = set()
        self.refused: set[str] = set()
        self.is_cold = False
        self.are_doomed = False
        self.place: Callable[[Object], str] = lambda pod: "node"
        self._cluster = cluster
        # Keyed by identity: objects are never changed in place.
        self._hashes: dict[int, tuple[Object, str]] = {}

    def sync_all(self) -> bool:
        """Run one pass of its controller over every workload. Return whether anything changed."""
        before = self._cluster.version
        for reconcile in self.syncs():
            reconcile()
        return self._cluster.version != before

    def syncs(self) -> list[Move]:
        """Return one pass of its controller over each workload."""
        syncs = (
            ("Deployment", self.sync_deployment),
            ("ReplicaSet", self._sync_replica_set),
            ("StatefulSet", self.sync),
        )
        return [partial(reconcile, obj) for kind, reconcile in syncs for obj in self._cluster.of_kind(kind)]

    def moves(self) -> list[Move]:
        """Return what may happen next by itself to any pod or Job."""
        pod_moves = (self._move(pod) for pod in self._cluster.of_kind("Pod"))
        jobs = (
            job
            for job in self._cluster.of_kind("Job")
            if is_idle(job) or not (self.is_cold or has_ended(job))
        )
        return [
            *(move for move in pod_moves if move is not None),
            *(partial(self._go_on, job) for job in jobs),
        ]

    def crash(self, pod: Object) -> None:
        """Restart a container of the pod, which is not ready for a while."""
        status = pod["status"]
        count = sum(container["restartCount"] for container in status.get("containerStatuses", ()))
        self._report(pod, ready=False, restarts=count + 1)

    def hang(self, pod: Object) -> None:
        """Make the pod unready for good."""
        self.stuck.add(pod["metadata"]["uid"])
        self._report(pod, ready=False)

    def fail(self, pod: Object) -> None:
        """Evict the pod."""
        self._cluster.change(pod, status={"phase": "Failed", "reason": "Evicted"})

    def lose_node(self, pod: Object) -> None:
        """Lose and delete the pod with its node: it is not ready, and it stays terminating."""
        self.held.add(pod["metadata"]["uid"])
        self.stuck.add(pod["metadata"]["uid"])
        self._report(pod, ready=False)
        self._cluster.request_deletion(self._cluster.objects["Pod", pod["metadata"]["name"]])

    def sync(self, statefulset: dict[str, Any]) -> None:
        """Run one pass of the StatefulSet controller."""
        cluster, name = self._cluster, statefulset["metadata"]["name"]
        if is_terminating(statefulset) or cluster.find("StatefulSet", name) is None:
            return
        pods = self._pods_of(statefulset)
        spec = self._spec_of(statefulset)
        did = sync(spec, [_seen(pod) for pod in pods.values()])
        for ordinal in did.deleted:
            cluster.request_deletion(pods[ordinal])
        for ordinal, revision in did.create:
            self._create(statefulset, ordinal, revision)
        ready = sum(_seen(pod).ready for pod in pods.values())
        status = {
            "observedGeneration": statefulset["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentRevision": did.current,
            "updateRevision": spec.update,
        }
        if statefulset.get("status") != status:
            cluster.change(statefulset, status=status)

    def sync_deployment(self, deployment: dict[str, Any]) -> None:
        """Run one pass of the Deployment controller."""
        cluster, name = self._cluster, deployment["metadata"]["name"]
        if is_terminating(deployment) or cluster.find("Deployment", name) is not deployment:
            return
        labels = deployment["spec"]["selector"]["matchLabels"].items()
        for orphan in cluster.orphans("ReplicaSet"):
            if labels <= orphan["spec"]["template"]["metadata"]["labels"].items():
                cluster.change(orphan, {"ownerReferences": [owner_reference(deployment)]})
        spec = deployment["spec"]
        newest = f"{name}-{self._hash_of(spec['template'])}"
        if not spec.get("paused") and cluster.find("ReplicaSet", newest) is None:
            metadata = {
                "name": newest,
                "labels": {**spec["template"]["metadata"]["labels"]},
                "ownerReferences": [owner_reference(deployment)],
            }
            template = {"replicas": 0, "template": spec["template"]}
            cluster.add(
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": template}
            )
        sets = {
            replica_set["metadata"]["name"]: replica_set
            for replica_set in cluster.owned_by(deployment["metadata"]["uid"], "ReplicaSet")
            if not is_terminating(replica_set)
        }
        pods = {its_name: self._active_pods(replica_set) for its_name, replica_set in sets.items()}
        ready = {its_name: sum(map(_is_ready, of_set)) for its_name, of_set in pods.items()}
        sizes = {its_name: replica_set["spec"]["replicas"] for its_name, replica_set in sets.items()}
        if sets and (spec.get("paused") or newest in sets):
            for its_name, size in sizes_after(spec, newest, sizes, ready).items():
                if size != sizes[its_name]:
                    cluster.change(sets[its_name], spec={**sets[its_name]["spec"], "replicas": size})
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": sum(map(len, pods.values())),
            "updatedReplicas": len(pods.get(newest, ())),
            "readyReplicas": sum(ready.values()),
        }
        if deployment.get("status") != status:
            cluster.change(deployment, status=status)

    def _hash_of(self, template: Object) -> str:
        cached = self._hashes.get(id(template))
        if cached is None:
            hashed = zlib.crc32(json.dumps(template, sort_keys=True).encode())
            cached = self._hashes[id(template)] = (template, f"{hashed:08x}")
        return cached[1]

    def _active_pods(self, replica_set: Object) -> list[dict[str, Any]]:
        return [
            pod
            for pod in self._cluster.owned_by(replica_set["metadata"]["uid"], "Pod")
            if not is_terminating(pod) and pod["status"]["phase"] not in ("Failed", "Succeeded")
        ]

    def _sync_replica_set(self, replica_set: dict[str, Any]) -> None:
        cluster, name = self._cluster, replica_set["metadata"]["name"]
        stored = cluster.find("ReplicaSet", name)
        if stored is None or is_terminating(stored):
            return
        template, labels = stored["spec"]["template"], stored["metadata"]["labels"]
        for orphan in cluster.orphans("Pod"):
            if labels.items() <= orphan["metadata"]["labels"].items() and not is_terminating(orphan):
                cluster.change(orphan, {"ownerReferences": [owner_reference(stored)]})
        pods = self._active_pods(stored)
        missing = stored["spec"]["replicas"] - len(pods)
        for _ in range(missing):
            self._create_from(stored, template)
        # As the ReplicaSet controller ranks them: pods without a node first, the cheap, then the young.
        order = sorted(
            pods, key=lambda pod: ("nodeName" in pod["spec"], _cost(pod), _is_ready(pod), -_age(pod))
        )
        for pod in order[: max(0, -missing)]:
            cluster.request_deletion(pod)

    def _create_from(self, replica_set: Object, template: Object) -> None:
        metadata = {
            "generateName": f"{replica_set['metadata']['name']}-",
            "labels": {**template["metadata"]["labels"]},
            "annotations": {**template["metadata"].get("annotations", {})},
            "ownerReferences": [owner_reference(replica_set)],
        }
        containers = [dict(container) for container in template["spec"]["containers"]]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**template["spec"], "containers": containers},
            "status": {"phase": "Pending"},
        }
        self._cluster.add(pod)

    def _pods_of(self, statefulset: Object) -> dict[int, dict[str, Any]]:
        metadata = statefulset["metadata"]
        selector = statefulset["spec"]["selector"]["matchLabels"].items()
        for pod in self._cluster.orphans("Pod"):
            is_member = pod["metadata"]["name"].rpartition("-")[0] == metadata["name"]
            if is_member and selector <= pod["metadata"]["labels"].items():
                self._cluster.change(pod, {"ownerReferences": [owner_reference(statefulset)]})
        return {_ordinal(pod): pod for pod in self._cluster.owned_by(metadata["uid"], "Pod")}

    def _spec_of(self, statefulset: Object) -> StatefulSetSpec:
        spec, status = statefulset["spec"], statefulset.get("status") or {}
        rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        update, current = self._revision(statefulset), status.get("currentRevision")
        if current is None or self._cluster.find("ControllerRevision", current) is None:
            current = update
        return StatefulSetSpec(
            replicas=spec["replicas"],
            current=current,
            update=update,
            partition=rolling.get("partition", 0),
            max_unavailable=rolling.get("maxUnavailable"),
            start=(spec.get("ordinals") or {}).get("start", 0),
        )

    def _revision(self, statefulset: Object) -> str:
        """Return the name of the StatefulSet's own revision of its template, and store the revision if it is
        new.
        """
        metadata, template = statefulset["metadata"], statefulset["spec"]["template"]
        name = f"{metadata['name']}-{self._hash_of(template)}"
        stored = self._cluster.find("ControllerRevision", name)
        owner = controller_of(stored) if stored is not None else None
        if stored is not None and owner is not None and owner["uid"] != metadata["uid"]:
            # The revision belongs to a deleted StatefulSet of this name. It awaits garbage collection.
            self._cluster.end(stored)
            stored = None
        elif stored is not None and owner is None:
            self._cluster.change(stored, {"ownerReferences": [owner_reference(statefulset)]})
        if stored is None:
            self._cluster.add(
                {
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {
                        "name": name,
                        "labels": template["metadata"]["labels"],
                        "ownerReferences": [owner_reference(statefulset)],
                    },
                    "data": {"spec": {"template": template}},
                    "revision": 1,
                }
            )
        return name

    def _create(self, statefulset: Object, ordinal: int, revision: str) -> None:
        recorded = self._cluster.find("ControllerRevision", revision)
        assert recorded is not None
        template = recorded["data"]["spec"]["template"]
        name = f"{statefulset['metadata']['name']}-{ordinal}"
        if self._cluster.find("Pod", name) is not None:
            # The pod belongs to a deleted StatefulSet: the creation is retried.
            self.refused.add(name)
            return
        own = {_HASH: revision, "statefulset.kubernetes.io/pod-name": name}
        metadata = {
            **template["metadata"],
            "name": name,
            "labels": template["metadata"]["labels"] | own,
            "ownerReferences": [owner_reference(statefulset)],
        }
        containers = [dict(container) for container in template["spec"]["containers"]]
        self._cluster.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {**template["spec"], "containers": containers},
                "status": {"phase": "Pending"},
            }
        )

    def _move(self, pod: dict[str, Any]) -> Move | None:
        metadata = pod["metadata"]
        if is_terminating(pod):
            is_over = not metadata.get("deletionGracePeriodSeconds") or metadata["uid"] in self.held
            return None if is_over else partial(self._cluster.stopped, pod)
        if pod["status"]["phase"] in ("Failed", "Succeeded") or metadata["uid"] in self.stuck:
            return None
        if pod["spec"]["containers"][0].get("image", "") in self.hopeless or gate_of(pod):
            return None
        if _are_containers_ready(pod):
            is_ready = _is_released(pod)
            return partial(self._report, pod, ready=True) if is_ready != _is_ready(pod) else None
        node = must_return_to(pod)
        if self.are_doomed and node:
            self._cluster.cordoned |= {node}
        if node in self._cluster.cordoned:
            return None if pod["status"].get("conditions") else partial(self._turn_away, pod)
        # Every other pod runs for a while before it is ready.
        is_slow = pod["status"]["phase"] == "Pending" and int(metadata["uid"].rpartition("-")[2]) % 2
        return partial(self._report, pod, ready=not is_slow)

    def _turn_away(self, pod: Object) -> None:
        """Report that the scheduler finds no node for the pod."""
        turned_away = {"type": "PodScheduled", "status": "False"}
        self._cluster.change(pod, status={"phase": "Pending", "conditions": [turned_away]})

    def _go_on(self, job: Object) -> None:
        """Give the Job its pod, or end it."""
        if is_idle(job):
            self._cluster.change(job, status={"active": 1})
            return
        kind = "Complete" if int(job["metadata"]["uid"].rpartition("-")[2]) % 3 else "Failed"
        self._cluster.change(job, status={"conditions": [{"type": kind, "status": "True"}]})

    def _report(self, pod: Object, ready: bool, restarts: int = 0) -> None:
        """Report a running pod, as its kubelet does. The scheduler has found a node for it by then."""
        statuses = pod["status"].get("containerStatuses", [{"restartCount": 0}])
        count = max(restarts, statuses[0]["restartCount"])
        self._cluster.change(
            pod,
            spec={**pod["spec"], "nodeName": pod["spec"].get("nodeName") or self.place(pod)},
            status={
                "phase": "Running",
                "conditions": _conditions(pod, ready),
                "containerStatuses": [{"name": "main", "restartCount": count}],
            },
        )


def preferred_node(pod: Object) -> str:
    """Return the node that the scheduler prefers for a pod; empty if it has no preference."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get(PREFERRED) or [{"preference": {"matchFields": [{"values": [""]}]}}]
    return str(terms[0]["preference"]["matchFields"][0]["values"][0])


def _seen(pod: Object) -> SeenPod:
    return SeenPod(
        ordinal=_ordinal(pod),
        revision=pod["metadata"]["labels"][_HASH],
        ready=_is_ready(pod),
        terminating=is_terminating(pod),
        ended=pod["status"]["phase"] == "Failed",
    )


def _ordinal(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _is_ready(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and is_true(pod["status"].get("conditions"), "Ready")


def _are_containers_ready(pod: Object) -> bool:
    type_ = "ContainersReady" if pod["spec"].get("readinessGates") else "Ready"
    return pod["status"]["phase"] == "Running" and is_true(pod["status"].get("conditions"), type_)


def _is_released(pod: Object) -> bool:
    """Return whether every readiness gate of the pod is True."""
    gates = pod["spec"].get("readinessGates") or ()
    return all(is_true(pod["status"].get("conditions"), gate["conditionType"]) for gate in gates)


def _conditions(pod: Object, ready: bool) -> list[dict[str, Any]]:
    """Return the conditions of a running pod. ready: whether its containers are. Ready is the first."""
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()}
    if not gates:
        return [{"type": "Ready", "status": str(ready)}]
    kept = [c for c in pod["status"].get("conditions") or () if c["type"] in gates]
    return [
        {"type": "Ready", "status": str(ready and _is_released(pod))},
        {"type": "ContainersReady", "status": str(ready)},
        *kept,
    ]


def _cost(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(DELETION_COST_ANNOTATION, 0))


def _age(pod: Object) -> int:
    return int(pod["metadata"]["uid"].rpartition("-")[2])
