"""Build snapshots: read everything that a pass needs before its first decision.

Facts come from the store, or live from the API server if the store cannot have them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lws import timing
from lws.history.revision import find
from lws.kube.conditions import elapsed, moment_of
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from lws.kube.nodes import node_of
from lws.kube.pods import has_gate, is_running
from lws.leaderworkerset import fields
from lws.leaderworkerset.assessment.ownership import are_orphaned_workers, leader_named_by, may_be_adopted
from lws.leaderworkerset.assessment.prewarm import job_prefix
from lws.leaderworkerset.children.disruption_budget import wants_disruption_budget
from lws.leaderworkerset.children.services import leader_service_name
from lws.leaderworkerset.fields import SCHEDULING
from lws.leaderworkerset.group.exhaustion import Abandoned
from lws.leaderworkerset.group.failures import incident_of
from lws.leaderworkerset.group.gangs import GangProvider, may_be_gangs_of, name_by_labels
from lws.leaderworkerset.group.marks import (
    PodMarks,
    edits_of,
    lacks_group,
    marks_of_leader,
    marks_of_worker,
    was_admitted,
    with_identity,
    without_group,
)
from lws.leaderworkerset.group.placement import is_placed
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.observe.failed_creates import FailedCreates, Shortage, Shortages
from lws.leaderworkerset.observe.former_node import NodesOfReturn
from lws.leaderworkerset.observe.history import RevisionReader, carried_keys
from lws.leaderworkerset.observe.membership import (
    Membership,
    Origin,
    Owners,
    former_pods,
    has_former_workers,
    leader_pods_of,
    leaders_of,
    with_key,
    workers_of,
)
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.observe.replaced_pods import ReplacedPods
from lws.leaderworkerset.observe.terminating_pods import TerminatingPods, is_of_set
from lws.leaderworkerset.pod_identity import group_name, is_leader, is_of_hash_group, own_workers
from lws.leaderworkerset.restart_counts import is_kept
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import Running, reconstruct
from lws.leaderworkerset.rollout.replacement import teardowns_of
from lws.leaderworkerset.scheduling import (
    NO_SCHEDULER,
    Scheduled,
    Scheduler,
    needs_workload,
    pod_group_of_set,
    pod_groups_of_group,
    workload_name,
)
from lws.leaderworkerset.snapshot import (
    FormerGang,
    GroupFacts,
    NodesOfGroup,
    PrewarmFacts,
    SetSnapshot,
    Teardown,
)
from lws.leaderworkerset.spec import SetSpec, leaders_kind, recorded_size
from lws.leaderworkerset.tables import LEADER_WORKER_SET
from lws.leaderworkerset.templates.claims import claims_of
from lws.policies import Policies
from lws.runtime.actions import Object, Problem, soonest
from lws.runtime.client.connection import Cluster
from lws.runtime.lookup import Lookup
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import (
    GROUP_REPLACEMENT_GATE,
    KIND,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SubdomainPolicy,
)


async def _everywhere(namespace: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Environment:
    """Inputs of a snapshot that are not objects.

    policies: settings that plans read. covers: a function that reports whether the pod webhook receives pods
    of a namespace. gang: a function that returns the gang scheduler; None without one, or while its API is
    not served. start, wake: as for `FailedCreates`; commands, which run a single pass, need neither.
    scheduler: the scheduler that serves `spec.scheduling`. workloads: a function that reports whether the API
    server serves Workloads; None if they are not watched.
    """

    policies: Policies = field(default_factory=Policies)
    covers: Callable[[str], Awaitable[bool]] = _everywhere
    gang: Callable[[], GangProvider | None] = lambda: None
    start: Callable[[Coroutine[Any, Any, None]], object] = lambda work: work.close()
    wake: Callable[[str, str], None] = lambda namespace, name: None
    scheduler: Scheduler = NO_SCHEDULER
    workloads: Callable[[], Scheduled] | None = None


class Observer:
    """Build snapshots from the store. Read live if an object of another owner or an orphan may exist."""

    def __init__(
        self, cluster: Cluster, store: Store, writes: SetWrites, environment: Environment | None = None
    ) -> None:
        self._store = store
        self._writes = writes
        self._environment = environment = environment or Environment()
        self._terminating = TerminatingPods(cluster, store, writes.clock)
        self._owners = Owners(store, LEADER_WORKER_SET)
        self._lookup = Lookup(cluster, store, LEADER_WORKER_SET.label)
        self.members = Membership(store, writes.deleting)
        self._history = RevisionReader(cluster, store, writes, self.members)
        self._groups = ReplacedPods(store)
        self._shortages = Shortages(FailedCreates(cluster, environment.start, environment.wake, writes.clock))
        self._returns = NodesOfReturn(store, self._terminating.read, writes.clock)

    async def observe_set(self, namespace: str, name: str, now: datetime) -> SetSnapshot | None:
        """Read everything about one set; return None if the set does not exist."""
        lws = self._store.get(KIND, namespace, name)
        if lws is None:
            self._shortages.forget(namespace, name)
            self._returns.forget(namespace, name)
            return None
        if is_terminating(lws):
            # The garbage collector deletes the objects of the set.
            return SetSnapshot(lws, now)
        if (problem := await self._why_left_alone(lws)) is not None:
            return SetSnapshot(lws, now, left_alone=problem)
        return await self._observe_whole_set(lws, now)

    async def _why_left_alone(self, lws: Object) -> Problem | None:
        fault = self._writes.fault_of(lws)
        is_covered = bool(fault) or await self._environment.covers(namespace_of(lws))
        return why_left_alone(lws, is_covered, self._environment.scheduler, fault)

    async def _observe_whole_set(self, lws: Object, now: datetime) -> SetSnapshot | None:
        namespace, name, uid = namespace_of(lws), name_of(lws), uid_of(lws)
        leaders = await self._lookup.named(leaders_kind(lws), namespace, name, uid, look_when_absent=True)
        is_ours = leaders is not None and is_controlled_by(leaders, uid)
        groups = await self._groups_of(leaders) if leaders is not None and is_ours else ()
        live_keys, unrecorded = await self._keys(lws, leaders, groups)
        service = await self._lookup.named("Service", namespace, name, uid)
        leader_service = await self._leader_service(lws)
        budget = await self._lookup.named("PodDisruptionBudget", namespace, name, uid)
        # Read after `_keys`, because unrecorded revisions may be recorded meanwhile.
        revisions = self._history.recorded(lws)
        knows_live_keys = leaders is None or self._history.knows_reported(leaders)
        scheduled = await self._scheduled(lws, leaders)
        named = (leaders, service, budget, leader_service)
        # The set may be deleted already: nothing is created, recorded or adopted for it before a live read.
        needs_live_read = (
            is_incomplete(lws, *named) or not revisions or has_orphans(named, revisions) or bool(unrecorded)
        )
        if scheduled is not None and scheduled.is_served:
            needs_live_read |= scheduled.workload is None or may_be_adopted(scheduled.workload)
        set_read_live = await self._lookup.reread(lws) if needs_live_read else None
        if needs_live_read and (set_read_live is None or is_terminating(set_read_live)):
            return SetSnapshot(set_read_live, now) if set_read_live is not None else None
        shortage = self._shortage(lws, leaders, groups, now)
        terminating = self._terminating.of_set(lws)
        waiting = await self._returns.of_set(lws, groups, now)
        leader_uid = uid_of(leaders) if leaders is not None else ""
        return SetSnapshot(
            lws=lws,
            now=now,
            leaders=leaders,
            service=service,
            leader_service=leader_service,
            pod_disruption_budget=budget,
            groups=groups,
            revisions=revisions,
            live_keys=live_keys,
            knows_live_keys=knows_live_keys,
            taken_revisions=self._history.foreign_revisions(lws),
            unrecorded_templates=unrecorded,
            claims=tuple(self._labelled(lws, "PersistentVolumeClaim")) if claims_of(lws) else (),
            owners_alive=self._owners.existing_owners(*named, *of_scheduler(scheduled)),
            set_read_live=set_read_live,
            applied_leaders=self._writes.applied.get(leader_uid),
            drops_start_ordinal=self._writes.drops_start_ordinal,
            rejections=shortage.rejections,
            recheck_after=soonest((shortage.recheck_after, waiting.recheck_after)),
            pods_refused_at=shortage.pods_refused_at,
            are_leaders_refused=self._writes.refusals.of_leaders(namespace, name),
            terminating_pods=terminating,
            returning_pods=waiting.pods,
            nodes={**waiting.nodes, **await self._terminating.nodes(terminating, now)},
            policies=self._environment.policies,
            teardowns=self._teardowns(lws, leaders, groups),
            occupied_index_count=self._occupied_indices(lws) if leaders is None else 0,
            left_keys=self._history.left_keys(lws) if leaders is None else frozenset(),
            has_replica_sets=any(
                owner is None or owner["uid"] == leader_uid
                for owner in map(controller_of, self._labelled(lws, "ReplicaSet"))
            ),
            scheduled=scheduled,
            former_gangs=self._former_gangs(lws, groups),
            prewarm=self._prewarm(lws, groups, now),
        )

    def _labelled(self, lws: Object, kind: str) -> list[Object]:
        return self._store.labelled(NAME_LABEL, namespace_of(lws), name_of(lws), kind)

    def _prewarm(self, lws: Object, groups: Iterable[GroupFacts], now: datetime) -> PrewarmFacts | None:
        spec = SetSpec.of(lws)
        # Other software may make the set the owner of its own Jobs.
        owned, prefix = self._store.owned_by(uid_of(lws), "Job"), job_prefix(lws)
        jobs = tuple(job for job in owned if name_of(job).startswith(prefix))
        if spec.prewarm is None:
            return PrewarmFacts(jobs) if jobs else None
        status = lws.get("status") or {}
        is_seen = status.get("observedGeneration") == lws["metadata"].get("generation")
        if (
            is_seen
            # An undo returns to the current revision.
            and not status.get("prewarm")
            and status.get("updateRevision")
            and status["updateRevision"] == status.get("currentRevision")
        ):
            # No rollout is in progress, and reading the nodes of thousands of pods takes time.
            return PrewarmFacts(jobs)
        nodes = {group.index: self._nodes_of(group) for group in groups}
        return PrewarmFacts(jobs, nodes, self._shortages.of_jobs(namespace_of(lws), name_of(lws), jobs, now))

    def _nodes_of(self, group: GroupFacts) -> NodesOfGroup:
        workers = group.worker_statefulset
        pods = self._store.owned_by(uid_of(workers), "Pod") if workers is not None else ()
        return NodesOfGroup(node_of(group.leader), frozenset(map(node_of, pods)) - {""})

    def _occupied_indices(self, lws: Object) -> int:
        """Return the highest index of a live leader plus 1: fewer replicas would delete the leaders above."""
        spec = SetSpec.of(lws)
        if spec.start_strategy is None:
            return 0
        namespace, name = namespace_of(lws), name_of(lws)
        most = spec.replicas + (spec.surge_groups or 0)
        leaders = ((i, self._store.get("Pod", namespace, f"{name}-{i}")) for i in range(most))
        return max((i + 1 for i, pod in leaders if pod is not None and not is_terminating(pod)), default=0)

    async def _scheduled(self, lws: Object, leaders: Object | None, *names: str) -> Scheduled | None:
        """Read the objects of `spec.scheduling`; return None for a set without a Workload.
        names: the PodGroups of one group; if empty, all PodGroups of the set are read.
        """
        workloads = self._environment.workloads
        if workloads is None or not needs_workload(lws, self._environment.scheduler):
            return None
        if not (scheduled := workloads()).is_served:
            return scheduled
        namespace, name, uid = namespace_of(lws), workload_name(lws, leaders), uid_of(lws)
        workload = await self._lookup.named("Workload", namespace, name, uid, look_when_absent=True)
        required = [
            await self._lookup.named("PodGroup", namespace, pod_group, uid)
            for pod_group in names or (pod_group_of_set(name),)
        ]
        others = () if names else self._store.owned_by(uid, "PodGroup")
        by_name = {name_of(obj): obj for obj in (*others, *required) if obj is not None}
        return replace(scheduled, workload=workload, pod_groups=tuple(by_name.values()))

    def _former_gangs(self, lws: Object, groups: Iterable[GroupFacts]) -> tuple[FormerGang, ...]:
        if SCHEDULING.stored_in(lws) is None or needs_workload(lws, self._environment.scheduler):
            return ()
        led = {name for group in groups for name in may_be_gangs_of(group.leader)}
        owned = self._store.owned_by(uid_of(lws), "PodGroup")
        named = [gang for gang in owned if name_of(gang) == name_by_labels(labels_of(gang))]
        former = [gang for gang in named if name_of(gang) not in led and not is_terminating(gang)]
        if not former:
            # The rest reads all pods of the set.
            return ()
        pods = self._store.labelled_pods(NAME_LABEL, namespace_of(lws), name_of(lws))
        used = {name for pod in pods for name in may_be_gangs_of(pod)}
        return tuple(FormerGang(gang, has_pods=name_of(gang) in used) for gang in former)

    def _teardowns(
        self, lws: Object, leaders: Object | None, groups: Collection[GroupFacts]
    ) -> tuple[Teardown, ...]:
        """Find Hash groups that have pods but no live leader. This reads all pods of the set, so it is done
        only while a leader is gated.
        """
        if leaders is None or leaders["kind"] != "Deployment":
            return ()
        if not any(has_gate(group.leader, GROUP_REPLACEMENT_GATE) for group in groups):
            return ()
        labelled = self._store.labelled_pods(NAME_LABEL, namespace_of(lws), name_of(lws))
        # No controller deletes workers without an owner, so they do not count as a terminating group.
        pods = [pod for pod in labelled if is_leader(pod) or controller_of(pod) is not None]
        own = {name_of(group.leader) for group in groups}
        lost = [
            name_of(pod)
            for pod in pods
            if is_leader(pod) and name_of(pod) not in own and is_of_set(pod, name_of(lws))
        ]
        return teardowns_of(pods, key_of_template(leaders) or "", lost)

    async def _groups_of(self, leaders: Object) -> tuple[GroupFacts, ...]:
        groups = self.members.groups_of(leaders)
        hidden = [
            name
            for group in groups
            if group.worker_statefulset is None and (name := self.members.hidden_workers(group.leader))
        ]
        for name in hidden:
            await self._lookup.named("StatefulSet", namespace_of(leaders), name, "", look_when_absent=True)
        return self.members.groups_of(leaders) if hidden else groups

    async def _leader_service(self, lws: Object) -> Object | None:
        """Read the Service of the leaders. If the set needs none, return it only if the set owns it."""
        namespace, name = namespace_of(lws), leader_service_name(name_of(lws))
        service = self._store.get("Service", namespace, name)
        is_own = service is not None and is_controlled_by(service, uid_of(lws))
        if fields.LEADER_SERVICE.stored_in(lws) is None and not is_own:
            return None
        return await self._lookup.named("Service", namespace, name, uid_of(lws))

    async def _keys(
        self, lws: Object, leaders: Object | None, groups: Iterable[GroupFacts]
    ) -> tuple[frozenset[str], tuple[Running, ...]]:
        """Return keys of objects of the set or of recreated leaders, and templates of unrecorded keys."""
        keys = carried_keys(leaders, groups)
        if leaders is None:
            return keys | self._history.worker_keys(lws) | self._history.left_keys(lws), ()
        if not is_controlled_by(leaders, uid_of(lws)):
            return keys, ()
        unrecorded = await self._history.unrecorded(lws, leaders, keys)
        return keys | self._history.reported_keys(leaders), unrecorded

    def _shortage(
        self, lws: Object, leaders: Object | None, groups: Iterable[GroupFacts], now: datetime
    ) -> Shortage:
        """Find writes that the API server rejects, from the manager or from StatefulSet controllers."""
        namespace, name = namespace_of(lws), name_of(lws)
        creators: tuple[Object, ...] = ()
        if leaders is not None and is_controlled_by(leaders, uid_of(lws)):
            is_hash = leaders["kind"] == "Deployment"
            creators = self._store.owned_by(uid_of(leaders), "ReplicaSet") if is_hash else (leaders,)
        workers = [
            group.worker_statefulset
            for group in groups
            if group.are_workers_short and group.worker_statefulset is not None
        ]
        shortage = self._shortages.of_set(namespace, name, [*creators, *workers], now)
        refused = self._writes.refusals.of_set(namespace, name)
        if not refused:
            return shortage
        rejections = (*refused, *shortage.rejections)
        return replace(shortage, rejections=rejections, recheck_after=timing.RECHECK_SECONDS)

    async def observe_group(
        self, namespace: str, name: str, now: datetime
    ) -> GroupSnapshot | Abandoned | None:
        """Read everything about the group of a leader pod. Return None if the pod, or a readable set that
        owns it, does not exist and no pods of the group are kept.
        """
        leader = self._store.get("Pod", namespace, name)
        lws = self.members.set_of_leader(leader) if leader is not None else None
        leaders = leaders_of(self._store, lws) if lws is not None else None
        kept_workers = self._kept_workers(namespace, name, leader)
        if leader is None or lws is None or leaders is None:
            self._groups.forget(namespace, name)
            if leader is None:
                return await self._left_behind(namespace, name, kept_workers)
            return await self._abandoned(leader, kept_workers)
        is_keeping = bool(kept_workers) or is_kept(leader)
        is_ending = is_keeping and await self._terminating.is_namespace_ending(namespace)
        if not is_terminating(lws) and (problem := await self._why_left_alone(lws)) is not None:
            self._groups.forget(namespace, name)
            alone = GroupSnapshot(
                lws, leader, now, kept_workers=kept_workers, is_namespace_ending=is_ending, left_alone=problem
            )
            if not has_gate(leader, GROUP_REPLACEMENT_GATE):
                return alone
            return self._with_former_workers(
                replace(alone, worker_statefulset=workers_of(self._store, leader))
            )
        terminating = self._terminating.of_group(leader)
        nodes, policies = await self._terminating.nodes(terminating, now), self._environment.policies
        # A deletion causes many events. For a terminating group, only lost nodes matter.
        base = GroupSnapshot(
            lws,
            leader,
            now,
            terminating_pods=terminating,
            nodes=nodes,
            policies=policies,
            kept_workers=kept_workers,
            is_namespace_ending=is_ending,
            leaders=leaders if is_kept(leader) else None,
        )
        if is_terminating(leader):
            return replace(base, worker_statefulset=workers_of(self._store, leader))
        if is_terminating(lws):
            return base
        uid = leader["metadata"]["uid"]
        hidden, host = self.members.hidden_workers(leader), group_name(leader)
        stored_workers = workers_of(self._store, leader)
        workers_name = name_of(stored_workers) if stored_workers is not None else hidden or host
        if _waits_for(stored_workers, leader):
            workers = stored_workers
        else:
            workers = await self._lookup.named(
                "StatefulSet", namespace, workers_name, uid, look_when_absent=bool(hidden)
            )
        group = await self._with_identities(base, leaders, workers)
        service = await self._lookup.named("Service", namespace, host, uid)
        has_workload = needs_workload(lws, self._environment.scheduler)
        names = pod_groups_of_group(lws, group.leader).values() if has_workload else ()
        scheduled = await self._scheduled(lws, leaders, *names) if names else None
        pod_group = await self._pod_group(lws, group.leader) if not has_workload else None
        named = (workers, service, pod_group, *of_scheduler(scheduled))
        orphaned = any(obj is not None and may_be_adopted(obj) for obj in named)
        # The stream of pods may lag behind that of StatefulSets: the leader may have ended with its workers.
        # New workers for it would meet the next leader.
        is_doubtful = workers is None and group.size != 1 and _has_run(leader, now)
        must_live = orphaned or is_doubtful
        leader_read_live = await self._lookup.reread(leader) if must_live else None
        if must_live and (leader_read_live is None or is_terminating(leader_read_live)):
            return replace(base, leader=leader_read_live) if leader_read_live is not None else None
        is_placing = workers is None and is_placed(lws, group.revision, leader)
        snapshot = replace(
            group,
            service=service,
            owners_alive=self._owners.existing_owners(*named),
            leader_node=await self._lookup.node_of(leader) if is_placing else None,
            leader_read_live=leader_read_live,
            gang=None if has_workload else self._environment.gang(),
            scheduled=scheduled,
            pod_group=pod_group,
            drops_start_ordinal=self._writes.drops_start_ordinal,
        )
        return self._with_losses(self._with_former_workers(snapshot), leaders)

    async def _with_identities(
        self, group: GroupSnapshot, leaders: Object, workers: Object | None
    ) -> GroupSnapshot:
        """Return the group with its revision, its pods as they should be and the edits to repair, even if
        labels and annotations of the pods were edited.
        leaders: the StatefulSet that controls the leader of the group. workers: the StatefulSet with the name
        of the workers, regardless of owner.
        """
        pod, lws = group.leader, group.lws
        own = own_workers(pod, workers)
        pods = self._store.controlled_by(workers["metadata"]["uid"], "Pod") if workers is not None else []
        origin = self.members.origin_of(pod, leaders, own)
        revision, unrecorded = await self._revision(lws, leaders, origin, workers)
        # The label of a recorded revision is trusted until the StatefulSet controller shows that it is wrong.
        labelled = find(self._history.recorded(lws), labels_of(pod).get(REVISION_LABEL, ""))
        key = origin.key if origin.controller_key is not None or labelled is None else None
        size = _size(lws, revision, unrecorded)
        marks = await self._marks(pod, marks_of_leader(pod, key, size, leaders["spec"]["template"], own), own)
        leader = with_key(with_identity(pod, marks), origin.key)
        marks_by_worker = _marks_of_workers(leader, own, pods, size)
        return replace(
            group,
            leader=leader,
            revision=revision,
            unrecorded_templates=unrecorded,
            is_revision_shown=origin.is_shown,
            worker_statefulset=workers,
            worker_pods=tuple(
                with_identity(worker, worker_marks) for worker, worker_marks in marks_by_worker
            ),
            edited_pods=edits_of(((pod, marks), *marks_by_worker)),
        )

    async def _revision(
        self, lws: Object, leaders: Object, origin: Origin, workers: Object | None
    ) -> tuple[Recorded | None, Running | None]:
        """Return the revision of a leader pod or, if it is not recorded, the templates of its key."""
        key = origin.key or ""
        revision = find(self._history.recorded(lws), key)
        if revision is not None or not key:
            return revision, None
        unrecorded = await self._history.unrecorded(lws, leaders, [key], first=workers)
        # The revision may have been recorded meanwhile.
        return find(self._history.recorded(lws), key), unrecorded[0] if unrecorded else None

    async def _marks(self, pod: Object, marks: PodMarks, own: Object | None) -> PodMarks:
        """Leave out the group labels of a leader that the pod webhook has not mutated. Such a pod lacks more
        than labels, and must not look complete.
        """
        if own is not None or not lacks_group(pod):
            return marks
        live = await self._lookup.reread(pod)
        return marks if live is not None and was_admitted(live) else without_group(marks)

    def _kept_workers(self, namespace: str, name: str, leader: Object | None) -> tuple[Object, ...]:
        """Find workers kept by the finalizer. name: the leader's, or a deleted Hash leader's host name."""
        owners = {name} if leader is None else {name, group_name(leader)}
        kept_pods = [
            pod for owner in sorted(owners) for pod in self._store.kept(namespace, owner) if is_kept(pod)
        ]
        if leader is not None:
            return tuple(kept_pods)
        return tuple(
            pod
            for pod in kept_pods
            if not self._store.get("Pod", namespace, annotations_of(pod).get(LEADER_NAME_ANNOTATION, name))
        )

    async def _left_behind(
        self, namespace: str, name: str, kept_workers: tuple[Object, ...]
    ) -> Abandoned | None:
        """Find what a leader that does not exist any more has left. name: as in `_kept_workers`."""
        workers = self._store.get("StatefulSet", namespace, name)
        if workers is not None and not (
            are_orphaned_workers(workers)
            and not is_terminating(workers)
            and await self._lacks_leader(workers)
            # A leader that has lost its labels, or whose owners are unknown, may be missing from the store.
            and await self._lookup.named(
                "Pod", namespace, leader_named_by(workers), "", look_when_absent=True
            )
            is None
        ):
            workers = None
        is_any_left = bool(kept_workers) or workers is not None
        return Abandoned(kept_workers, worker_statefulset=workers) if is_any_left else None

    async def _lacks_leader(self, workers: Object) -> bool:
        """Return whether the set of these workers is reconciled, and has no leader for them."""
        lws = self._store.get(KIND, namespace_of(workers), labels_of(workers)[NAME_LABEL])
        leaders = leaders_of(self._store, lws) if lws is not None else None
        if lws is None or leaders is None or not is_controlled_by(leaders, uid_of(lws)):
            return False
        if is_terminating(lws) or await self._why_left_alone(lws) is not None:
            return False
        pods = leader_pods_of(self._store, lws)
        return not any(name_of(workers) in (name_of(pod), group_name(pod)) for pod in pods)

    async def _abandoned(self, leader: Object, kept_workers: tuple[Object, ...]) -> Abandoned | None:
        """Find the pods of a leader without a set."""
        is_gated = has_gate(leader, GROUP_REPLACEMENT_GATE) and not is_terminating(leader)
        if (
            is_gated
            and self.members.is_orphaned(leader)
            and not has_former_workers(self._store, namespace_of(leader), name_of(leader))
        ):
            return Abandoned(kept_workers, leader, is_to_be_admitted=True)
        workers = own_workers(leader, workers_of(self._store, leader)) if is_terminating(leader) else None
        pods = (*kept_workers, leader) if is_kept(leader) else kept_workers
        if pods and not await self._has_no_set(leader):
            pods = ()
        return Abandoned(pods, leader, workers) if pods or workers is not None else None

    async def _has_no_set(self, leader: Object) -> bool:
        """Return whether the set of a leader, its StatefulSet or its ReplicaSet certainly does not exist."""
        namespace, owner = namespace_of(leader), controller_of(leader) or {}
        if owner.get("kind") == "ReplicaSet":
            is_lost = self._store.get("ReplicaSet", namespace, owner["name"]) is None
            return is_lost or self._store.get(KIND, namespace, labels_of(leader).get(NAME_LABEL, "")) is None
        if owner.get("kind") != "StatefulSet":
            return False
        await self._lookup.named("StatefulSet", namespace, owner["name"], "", look_when_absent=True)
        return self.members.set_of_leader(leader) is None

    def _with_former_workers(self, snapshot: GroupSnapshot) -> GroupSnapshot:
        """Add pods that block names of the workers, or that must be gone before a gated leader may start."""
        if has_gate(snapshot.leader, GROUP_REPLACEMENT_GATE) and not is_of_hash_group(snapshot.leader):
            own = own_workers(snapshot.leader, snapshot.worker_statefulset)
            uid = uid_of(own) if own is not None else ""
            namespace, name = namespace_of(snapshot.leader), name_of(snapshot.leader)
            return replace(snapshot, former_workers=former_pods(self._store, namespace, name, uid))
        if snapshot.worker_statefulset is not None:
            return snapshot
        former_workers = self._terminating.former_workers(snapshot.leader, snapshot.size)
        return replace(snapshot, former_workers=former_workers) if former_workers else snapshot

    def _with_losses(self, snapshot: GroupSnapshot, leaders: Object) -> GroupSnapshot:
        """Add replaced workers and, if the group must be recreated for them, the other groups of the set."""
        size = snapshot.size
        with_losses = self._groups.with_losses(snapshot, size)
        # The plan checks for the failure again. Reading all groups in every pass would cost 1.4 ms with 1,000
        # groups: seven times the rest of the pass.
        has_failed = incident_of(with_losses, size) is not None
        if (since := self._groups.failed_since(with_losses, has_failed)) is None:
            return with_losses
        key = key_of_template(leaders) or ""
        siblings = self.members.groups_of(leaders)
        return replace(with_losses, siblings=siblings, target_key=key, failed_since=since)

    async def _pod_group(self, lws: Object, leader: Object) -> Object | None:
        gang = self._environment.gang()
        name = gang.name_of(leader) if gang is not None else ""
        if not name:
            return None
        owner = uid_of(leader if SCHEDULING.stored_in(lws) is None else lws)
        return await self._lookup.named("PodGroup", namespace_of(leader), name, owner)


def _has_run(leader: Object, now: datetime) -> bool:
    """Return whether a leader runs and is no longer new, or the clock of the API server differs from ours."""
    created = moment_of(leader["metadata"].get("creationTimestamp"))
    return is_running(leader) and created is not None and elapsed(created, now) > timing.NEW_LEADER


def _waits_for(workers: Object | None, leader: Object) -> bool:
    """Return whether a gated leader waits for these workers of its predecessor to be gone. The watch shows
    when: live reads took 2.6 requests for each group in a rollout of 5,000.
    """
    if workers is None or not has_gate(leader, GROUP_REPLACEMENT_GATE):
        return False
    owner, is_shown = controller_of(workers) or {}, NAME_LABEL in labels_of(workers)
    return is_shown and owner.get("kind") == "Pod" and owner.get("uid") != uid_of(leader)


def _size(lws: Object, revision: Recorded | None, unrecorded: Running | None) -> int | None:
    """Return the number of pods per group; None if neither a revision nor running templates show it."""
    if revision is not None:
        return recorded_size(revision.record.spec)
    rebuilt = reconstruct(lws, unrecorded) if unrecorded is not None else None
    return recorded_size(rebuilt.record.spec) if rebuilt is not None else None


def _marks_of_workers(
    leader: Object, workers: Object | None, pods: list[Object], size: int | None
) -> list[tuple[Object, PodMarks]]:
    if workers is None:
        return [(pod, PodMarks()) for pod in pods]
    is_same = key_of_template(workers) == labels_of(leader).get(REVISION_LABEL)
    return [(pod, marks_of_worker(pod, leader, workers, size if is_same else None)) for pod in pods]


def of_scheduler(scheduled: Scheduled | None) -> tuple[Object | None, ...]:
    """Return the Workload and PodGroups of a set or group."""
    return (scheduled.workload, *scheduled.pod_groups) if scheduled is not None else ()


def has_orphans(objects: Iterable[Object | None], revisions: Iterable[Recorded]) -> bool:
    """Return whether the set may adopt any of these objects."""
    if any(obj is not None and may_be_adopted(obj) for obj in objects):
        return True
    return any(recorded.is_orphan for recorded in revisions)


def is_incomplete(
    lws: Object,
    leaders: Object | None,
    service: Object | None,
    budget: Object | None,
    of_leaders: Object | None = None,
) -> bool:
    """Return whether an object of the set must be created. of_leaders: the Service of the set's leaders."""
    spec = SetSpec.of(lws)
    return (
        leaders is None
        or (service is None and spec.subdomain_policy == SubdomainPolicy.SHARED)
        or (budget is None and wants_disruption_budget(spec))
        or (of_leaders is None and spec.leader_service is not None)
    )
