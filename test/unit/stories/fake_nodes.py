"""The StatefulSet controller, the scheduler and the kubelets of a FakeCluster, one move at a time.

statefulset_sync.py decides what a StatefulSet deletes and creates.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from lws.kube.metadata import controller_of, is_terminating, owner_reference
from lws.kube.pods import PREFERRED, gate_of
from lws.leaderworkerset.assessment.prewarm import has_ended, is_idle
from lws.leaderworkerset.pod_identity import must_return_to
from lws.runtime.actions import Object
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
        """Run one pass of the controller over every StatefulSet. Return whether anything changed."""
        before = self._cluster.version
        for statefulset in list(self._cluster.of_kind("StatefulSet")):
            self.sync(statefulset)
        return self._cluster.version != before

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
        cached = self._hashes.get(id(template))
        if cached is None:
            hashed = zlib.crc32(json.dumps(template, sort_keys=True).encode())
            cached = self._hashes[id(template)] = (template, f"{hashed:08x}")
        name = f"{metadata['name']}-{cached[1]}"
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
        if pod["status"]["phase"] == "Failed" or _is_ready(pod) or metadata["uid"] in self.stuck:
            return None
        if pod["spec"]["containers"][0].get("image", "") in self.hopeless or gate_of(pod):
            return None
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
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
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
    status = pod["status"]
    conditions = status.get("conditions") or [{"status": "False"}]
    return status["phase"] == "Running" and conditions[0]["status"] == "True"
