"""Read from pods and workloads alone how a set stands, and compare that with its status.

Nothing here calls the product's own decisions, and nothing is remembered but whether a group of another
revision has existed since the set was last Available. Two promises are checked:

- A group that can run does run once nothing changes any more, in whatever revision it is. It may lack pods
  whose node is lost, or have used up its restarts, or wait for a wave or for nodes of groups that end.
- Conditions and counters say what the objects say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, cast

from lws.kube.conditions import is_true
from lws.kube.metadata import annotations_of, controller_of, is_terminating, labels_of
from lws.kube.pods import gate_of
from lws.leaderworkerset.pod_identity import must_return_to
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.stories.fake_cluster import FakeCluster
from test.unit.stories.fake_nodes import FakeNodes
from test.unit.stories.promises import SIZES, limits, revision_of

AVAILABLE, PROGRESSING, UPDATING = "Available", "Progressing", "UpdateInProgress"
DEGRADED, STALLED = "Degraded", "Stalled"
_REFUSED = ("FailedCreate", "FailedUpdate", "FailedDelete")


@dataclass(frozen=True)
class Group:
    """One group. pods: all of them, the leader first. is_formed: whether its workers have a StatefulSet.
    is_reported: whether that reports all of them as available.
    """

    leader: Object
    revision: str
    pods: tuple[Object, ...]
    is_formed: bool
    is_reported: bool

    @property
    def name(self) -> str:
        return str(self.leader["metadata"]["name"])

    @property
    def index(self) -> int:
        """The index of the group; of a Hash group, any number."""
        text = self.name.rpartition("-")[2]
        return int(text) if text.isdigit() else 0

    @property
    def is_live(self) -> bool:
        """Whether the leader is to run: it is not terminating and has not ended."""
        return not is_terminating(self.leader) and self.leader["status"]["phase"] not in (
            "Failed",
            "Succeeded",
        )

    @property
    def is_gated(self) -> bool:
        return bool(gate_of(self.leader))

    @property
    def is_kept(self) -> bool:
        """Whether the group has used up the restarts that upstream's field allows."""
        return annotations_of(self.leader).get(RESTART_BUDGET_EXHAUSTED_ANNOTATION) == "true"

    @property
    def serves(self) -> bool:
        """Whether leader and workers are all there, and ready."""
        return self.is_live and len(self.pods) == SIZES[self.revision] and all(map(_is_serving, self.pods))

    @property
    def is_ready(self) -> bool:
        """Whether the group is ready by its leader and by the StatefulSet of its workers."""
        return self.is_live and _is_serving(self.leader) and self.is_reported


class Standing:
    """How one set stands."""

    def __init__(self, cluster: FakeCluster, name: str) -> None:
        self._cluster = cluster
        lws = cluster.find("LeaderWorkerSet", name)
        assert lws is not None
        self.lws, self.name = lws, name
        self.spec, self.target = (
            lws["spec"],
            revision_of(lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]),
        )
        self.is_hash = self.spec.get("groupIdentity") == "Hash"
        self.replicas = self.spec["replicas"]
        pods = [pod for pod in cluster.of_kind("Pod") if labels_of(pod).get(NAME_LABEL) == name]
        self.groups = [self._group(pod) for pod in pods if _is_leader(pod)]
        self.pods = pods

    def _group(self, leader: Object) -> Group:
        revision = self._cluster.images[leader["metadata"]["uid"]]
        owned = self._cluster.owned_by(leader["metadata"]["uid"], "StatefulSet")
        workers = [
            pod for workers in owned for pod in self._cluster.owned_by(workers["metadata"]["uid"], "Pod")
        ]
        members = [pod for pod in workers if self._cluster.images[pod["metadata"]["uid"]] == revision]
        is_formed = SIZES[revision] == 1 or len(owned) == 1
        is_reported = is_formed and all(map(_reports_all, owned))
        return Group(leader, revision, (leader, *members), is_formed, is_reported)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        return list((self.lws.get("status") or {}).get("conditions", ()))

    def is_true(self, type_: str) -> bool:
        return is_true(self.conditions, type_)

    @property
    def workload(self) -> Object | None:
        """The StatefulSet or Deployment of the leaders."""
        return self._cluster.find("Deployment" if self.is_hash else "StatefulSet", self.name)

    @property
    def desired(self) -> list[Group]:
        """The groups that the user wants: of a Hash set, all with a live leader."""
        if self.is_hash:
            return [group for group in self.groups if group.is_live]
        return [group for group in self.groups if group.index < self.replicas]

    @property
    def is_outdated(self) -> bool:
        """Whether a group that the rollout covers is of another revision, or soon created in one."""
        strategy = self.spec["rolloutStrategy"].get("rollingUpdateConfiguration") or {}
        floor = 0 if self.is_hash else strategy.get("partition") or 0
        if any(g.revision != self.target for g in self.desired if self.is_hash or g.index >= floor):
            return True
        workload = self.workload
        return (
            self.is_hash and workload is not None and revision_of(workload["spec"]["template"]) != self.target
        )

    @property
    def is_available(self) -> bool:
        ready = [group for group in self.desired if group.is_ready]
        has_surplus = self.is_hash and len(self.desired) > self.replicas
        return len(ready) == self.replicas and not has_surplus and not self.is_outdated

    def is_counted(self, group: Group) -> bool:
        """Return whether the workload of the leaders counts the group."""
        owner = (controller_of(group.leader) or {}).get("uid")
        return group.is_live if self.is_hash else owner == (self.workload or self.lws)["metadata"]["uid"]

    @property
    def is_said_available(self) -> bool:
        """Whether the set is available by what the Deployment of its leaders reports."""
        workload = self.workload
        if not self.is_hash or workload is None:
            return False
        status = workload.get("status") or {}
        return bool(status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == self.replicas)

    @property
    def runs_jobs(self) -> bool:
        """Whether a Job of this set prepares a node."""
        return any(
            not is_true(job.get("status", {}).get("conditions"), "Complete")
            and not is_true(job.get("status", {}).get("conditions"), "Failed")
            for job in self._cluster.owned_by(self.lws["metadata"]["uid"], "Job")
        )

    def describe(self) -> str:
        true = [condition["type"] for condition in self.conditions if condition["status"] == "True"]
        groups = ", ".join(
            f"{group.name} {group.revision}{' ready' * group.serves}{' gated' * group.is_gated}"
            f"{' ending' * (not group.is_live)}{' kept' * group.is_kept}"
            for group in self.groups
        )
        return f"{self.name}: {self.replicas} of {self.target}; {groups}; {', '.join(true)}"


class Reader:
    """An independent reader of one set and its status.

    restarts: how often the manager has restarted groups, by revision of a Hash group and by index of others.
    """

    def __init__(self, cluster: FakeCluster, nodes: FakeNodes) -> None:
        self._cluster, self._nodes = cluster, nodes
        self._was_updating: set[str] = set()
        self.restarts: dict[tuple[str, int | str], int] = {}
        self.checks = 0

    def standings(self) -> Iterator[Standing]:
        for lws in list(self._cluster.of_kind("LeaderWorkerSet")):
            # The status of a set of another controller is whatever that controller writes.
            if not is_terminating(lws) and "managedBy" not in lws["spec"]:
                yield Standing(self._cluster, lws["metadata"]["name"])

    def look(self) -> None:
        """Note whether groups of another revision exist. Call it at every moment."""
        for lws in self._cluster.of_kind("LeaderWorkerSet"):
            name = lws["metadata"]["name"]
            if name not in self._was_updating and Standing(self._cluster, name).is_outdated:
                self._was_updating.add(name)

    def check_now(self) -> None:
        """Check conditions right after the manager has seen and done everything."""
        self.look()
        for standing in self.standings():
            says, picture = standing.is_true, standing.describe()
            if says(UPDATING):
                assert standing.name in self._was_updating, f"nothing is updated: {picture}"
            if says(AVAILABLE):
                is_available = standing.is_available or standing.is_said_available
                assert is_available, f"it is not Available: {picture}"
                assert not says(PROGRESSING) and not says(UPDATING), f"it is Available: {picture}"
                self._was_updating.discard(standing.name)
            if says(STALLED):
                assert not self._is_prewarming(standing), f"it prepares nodes: {picture}"
                assert not standing.is_available, f"it is Available and not stalled: {picture}"

    def _is_prewarming(self, standing: Standing) -> bool:
        """Return whether a rollout has to wait for Jobs, and nothing else is wrong with the set."""
        is_well = (
            all(group.serves for group in standing.desired) and len(standing.desired) == standing.replicas
        )
        return is_well and standing.runs_jobs

    def check_rest(self) -> None:
        """Check everything once nothing changes any more."""
        self.check_now()
        for standing in self.standings():
            self.checks += 1
            refused = [
                c["message"]
                for c in standing.conditions
                if c.get("reason") in _REFUSED and c["status"] == "True"
            ]
            assert not refused, f"{refused}: {standing.describe()}"
            self._check_runs(standing)
            self._check_conditions(standing)
            self._check_counters(standing)

    # Groups run.

    def _check_runs(self, standing: Standing) -> None:
        waiting = [group for group in standing.groups if group.is_live and not group.serves]
        lost = [group for group in waiting if not self._is_excused(standing, group)]
        gated = [group for group in lost if group.is_gated]
        lost = [group for group in lost if not group.is_gated]
        assert not lost, f"{lost[0].name} is not recreated: {standing.describe()}"
        if not standing.is_hash:
            assert not gated, f"{gated[0].name} is gated: {standing.describe()}"
            self._check_missing(standing)
            return
        is_wave = standing.spec.get("startStrategy") and any(
            group.revision == standing.target and not group.is_gated and not group.serves
            for group in standing.groups
        )
        gated = [group for group in gated if not (is_wave and group.revision == standing.target)]
        live = [group for group in standing.groups if group.is_live]
        ending = {_group_of(pod) for pod in standing.pods} - {_group_of(group.leader) for group in live}
        surge = limits(standing.spec)[1] if standing.is_outdated else 0
        surplus = max(len(live) - standing.replicas - surge, 0)
        assert len(gated) <= len(ending) + surplus, f"{gated[0].name} is not recreated: {standing.describe()}"

    def _check_missing(self, standing: Standing) -> None:
        """Check that every group exists that the StatefulSet is to have, or that waves keep it from it."""
        missing = set(range(standing.replicas)) - {group.index for group in standing.groups}
        is_wave = standing.spec.get("startStrategy") and not all(group.serves for group in standing.desired)
        assert not missing or is_wave, f"groups {missing} are missing: {standing.describe()}"

    def _is_excused(self, standing: Standing, group: Group) -> bool:
        """Return whether the group cannot run, or must not."""
        if group.revision in self._nodes.hopeless or group.is_kept:
            return True
        prefix, index = (
            f"{group.name}-",
            labels_of(group.leader).get("leaderworkerset.sigs.k8s.io/group-index"),
        )
        names = [
            pod
            for pod in standing.pods
            if pod["metadata"]["name"].startswith(prefix)
            or labels_of(pod).get("leaderworkerset.sigs.k8s.io/group-index") == index
        ]
        pods = [group.leader, *names]
        broken = self._nodes.stuck | self._nodes.held
        if any(
            pod["metadata"]["uid"] in broken or must_return_to(pod) in self._cluster.cordoned for pod in pods
        ):
            return True
        limit = standing.spec.get("maxGroupRestarts")
        if limit is None:
            limit = standing.spec["leaderWorkerTemplate"].get("maxGroupRestarts")
        key = group.revision if standing.is_hash else group.index
        return limit is not None and self.restarts.get((standing.name, key), 0) >= limit

    # The status is true.

    def _check_conditions(self, standing: Standing) -> None:
        true = {type_ for type_ in (AVAILABLE, PROGRESSING, UPDATING) if standing.is_true(type_)}
        kept = [group for group in standing.groups if group.is_kept]
        assert standing.is_true(DEGRADED) == bool(kept), f"Degraded: {standing.describe()}"
        if standing.is_available:
            expected = [{AVAILABLE}]
        elif standing.is_outdated:
            expected = [{UPDATING, PROGRESSING}]
        else:
            expected = [{PROGRESSING}, {PROGRESSING, UPDATING}]
        if kept and not standing.is_outdated:
            expected += [set(), {UPDATING}]
        assert true in expected, f"{expected} would be true: {standing.describe()}"

    def _check_counters(self, standing: Standing) -> None:
        status = standing.lws.get("status") or {}
        workload = standing.workload
        existing = (workload.get("status") or {}).get("replicas", 0) if workload is not None else 0
        counted = [group for group in standing.groups if standing.is_counted(group)]
        assert existing == len(counted), f"{existing} groups: {standing.describe()}"
        assert status.get("replicas", 0) == existing, (
            f"{status.get('replicas')} replicas: {standing.describe()}"
        )
        ready = sum(group.serves for group in standing.groups)
        said = status.get("readyReplicas", 0)
        assert said == ready, f"{said} are said to be ready, {ready} are: {standing.describe()}"
        updated, said = self._updated(standing, counted), status.get("updatedReplicas", 0)
        assert said in updated, f"{said} are said to be updated, {updated} are: {standing.describe()}"

    def _updated(self, standing: Standing, counted: Collection[Group]) -> tuple[int, ...]:
        of_target = [group for group in counted if group.revision == standing.target]
        updated = sum(standing.is_hash or group.is_formed for group in of_target)
        if standing.is_hash or len(counted) <= standing.replicas:
            return (updated,)
        # During a surge the number stays below the desired one until all desired groups are settled.
        return (updated, min(updated, standing.replicas - 1))


def _is_leader(pod: Object) -> bool:
    is_first = labels_of(pod).get(WORKER_INDEX_LABEL) == "0"
    return is_first and LEADER_NAME_ANNOTATION not in annotations_of(pod)


def _is_serving(pod: Object) -> bool:
    is_running = pod["status"]["phase"] == "Running" and not is_terminating(pod)
    return is_running and is_true(pod["status"].get("conditions"), "Ready")


def _reports_all(workers: Object) -> bool:
    status = workers.get("status") or {}
    is_seen = status.get("observedGeneration") == workers["metadata"]["generation"]
    return bool(is_seen and status["availableReplicas"] == workers["spec"]["replicas"])


def _group_of(pod: Object) -> str:
    return cast(str, labels_of(pod).get("leaderworkerset.sigs.k8s.io/group-index", ""))
