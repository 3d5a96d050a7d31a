"""Collect the problems of a set, worst first, for the condition ReplicaFailure and for Events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import Condition, Rejection, elapsed, is_true, moment_of, timestamp
from lws.kube.metadata import controller_of, name_of, uid_of
from lws.kube.names import byte_length, tightest_derived_name
from lws.kube.nodes import OUT_OF_SERVICE_TAINT, NodeLossPolicy, StuckPod, why_unfit
from lws.kube.ownership import name_clash_note
from lws.kube.pods import NodeWait
from lws.leaderworkerset.group_records import out_of_restarts
from lws.leaderworkerset.pod_identity import must_return_to
from lws.leaderworkerset.rollout.replacement import deletion_of
from lws.leaderworkerset.rollout.state import rollout_budget
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import nodes_of_no_return, return_to
from lws.runtime.actions import Announce, Delete, Fold, Object, Plan, Problem, Reference
from lws_api.leaderworkerset.placement import NODE_RETURN_EXCEPT_ANNOTATION, NodeReturn
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE

_DROPS_START_ORDINAL = Problem(
    "StartOrdinalUnsupported",
    "the API server drops spec.ordinals.start of StatefulSets, so workers would be taken for leaders and no "
    "more of them are created: requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature",
)


def problems_of(snapshot: SetSnapshot, encountered: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return all problems of the set, worst first. encountered: problems found by this pass's plan."""
    problems = list(encountered)
    drops_start = snapshot.drops_start_ordinal or any(
        [group.lacks_start_ordinal for group in snapshot.groups]
    )
    if drops_start and snapshot.spec.size > 1:
        problems.append(_DROPS_START_ORDINAL)
    owner = name_of(snapshot.lws)
    clashing = [group.name_clash for group in snapshot.groups if group.name_clash is not None]
    problems += [Problem("NameClash", name_clash_note(obj, "LeaderWorkerSet", owner)) for obj in clashing]
    if (too_long := _name_too_long(snapshot)) is not None:
        problems.append(too_long)
    # Rejections come last: another problem may have caused them.
    return (*problems, *map(rejection_problem, snapshot.rejections))


def rejection_problem(rejection: Rejection) -> Problem:
    """Return the problem that the API server rejects a write."""
    return Problem(rejection.reason, rejection.message, rejection.is_reported, rejection.action)


def _name_too_long(snapshot: SetSnapshot) -> Problem | None:
    """Return the problem of a name that is too long for the number of replicas; None if it fits. Admission
    rejects such names, but the scale subresource bypasses it.
    """
    spec, replicas = snapshot.spec, snapshot.spec.replicas
    if replicas == 0:
        return None
    highest = replicas + rollout_budget(spec).surge - 1
    derived = tightest_derived_name(highest, spec.size)
    length = byte_length(name_of(snapshot.lws))
    if length <= derived.room:
        return None
    return Problem(
        "NameTooLong",
        f"the name has {length} bytes, at {replicas} replicas it may have {derived.room}: {derived.purpose} "
        f"({derived.pattern}) would be too long; scale down or use a shorter name",
    )


_MOST_NAMED = 10


def lost_nodes(snapshot: SetSnapshot) -> tuple[Problem, ...]:
    """Return one problem for each lost node on which pods of the set are stuck."""
    by_node: dict[str, list[StuckPod]] = {}
    for pod in snapshot.node_losses.stuck_pods():
        by_node.setdefault(pod.loss.node, []).append(pod)
    return tuple(_node_lost(stuck, snapshot.policies.node_loss) for _node, stuck in sorted(by_node.items()))


def is_forced(stuck: StuckPod, policy: NodeLossPolicy) -> bool:
    """Return whether to force-delete the pod. Pods that Kubernetes deletes itself are not force-deleted."""
    return policy.force_delete and not stuck.loss.is_collected


def force_delete(lws: Object, stuck: StuckPod, leader_uid: str = "") -> Delete:
    """Force-delete the pod. leader_uid: UID of its group's leader; empty if that does not exist."""
    name, loss = stuck.pod["metadata"]["name"], stuck.loss
    why = f"it has been terminating since {timestamp(stuck.since)} on node {loss.node}, which {loss.why}"
    event = Announce(
        regarding=Reference.to(lws),
        related=Reference.to(stuck.pod),
        reason="NodeLost",
        action="Delete",
        note=f"Force-deleted pod {name}: {why}",
        type="Warning",
    )
    return Delete(
        target=Reference.to(stuck.pod),
        # The workers of a leader are always deleted before the leader, on any node.
        propagation="Foreground" if stuck.pod["metadata"]["uid"] == leader_uid else "Background",
        why=why,
        announce=(event,),
        grace_seconds=0,
    )


def barred_pods(snapshot: SetSnapshot) -> Iterator[Problem]:
    """Yield one problem for all pods that have long waited for the node that they must return to."""
    long = [
        wait
        for wait in _node_waits(snapshot)
        if elapsed(wait.since, snapshot.now) >= timing.NODE_WAIT_IS_LONG
    ]
    if not long:
        return
    named = ", ".join(f"{wait.pod} to node {wait.node}" for wait in long[:_MOST_NAMED])
    more = f" and {len(long) - _MOST_NAMED} more" if len(long) > _MOST_NAMED else ""
    yield Problem(
        "NodeReturnBlocked",
        f"pods must return to their nodes and cannot be scheduled there: {named}{more}; make room there, or "
        f"name the nodes in {NODE_RETURN_EXCEPT_ANNOTATION}",
    )


def recheck_barred_pods(snapshot: SetSnapshot) -> float | None:
    """Return the seconds until another pod has waited long for its node; None if no such pod is left."""
    ages = (elapsed(wait.since, snapshot.now) for wait in _node_waits(snapshot))
    return min(
        ((timing.NODE_WAIT_IS_LONG - age).total_seconds() for age in ages if age < timing.NODE_WAIT_IS_LONG),
        default=None,
    )


def _node_waits(snapshot: SetSnapshot) -> Iterator[NodeWait]:
    return (wait for group in snapshot.groups for wait in group.waits if wait.node)


def plan_returns(snapshot: SetSnapshot) -> Plan:
    """Delete pods that wait for a node to which their successors need not return by the webhook's rules. The
    affinity of a pod cannot be loosened. These pods never ran, so deleting them is no restart of their group.
    Groups that are kept for diagnosis stay as they are. The workers of a leader are deleted with it.
    """
    releases = {
        uid_of(pod): (pod, why) for pod in snapshot.returning_pods if (why := _release_reason(snapshot, pod))
    }
    if not releases:
        return Plan()
    exhausted, sequences = out_of_restarts(snapshot), []
    groups = {group.uid: group for group in snapshot.groups}
    groups |= {
        uid_of(group.worker_statefulset): group
        for group in snapshot.groups
        if group.worker_statefulset is not None
    }
    for uid, (pod, why) in releases.items():
        group = groups.get(uid) or groups.get((controller_of(pod) or {}).get("uid", ""))
        if group is None or group.index in exhausted or group.is_exhausted:
            continue
        deletion = _delete_waiting_pod(snapshot.lws, pod, why)
        if uid == group.uid:
            leader, *workers = deletion_of(group.leader, group.worker_statefulset, deletion.why)
            sequences.append((replace(deletion, propagation=leader.propagation), *workers))
        elif group.uid not in releases:
            sequences.append((deletion,))
    return Plan(tuple(sequences))


def _release_reason(snapshot: SetSnapshot, pod: Object) -> str:
    """Return why the successor of a waiting pod need not return to its node; empty if it must, or if that is
    unknown because the node was not due to be read.
    """
    node = must_return_to(pod)
    if node in nodes_of_no_return(snapshot.lws):
        return f"the node is named in {NODE_RETURN_EXCEPT_ANNOTATION}"
    if return_to(snapshot.lws, node) != NodeReturn.REQUIRED:
        return "the set no longer requires that"
    unfit = why_unfit(node, snapshot.nodes[node], pod["spec"]) if node in snapshot.nodes else ""
    return f"the node {unfit}" if unfit else ""


def _delete_waiting_pod(lws: Object, pod: Object, why: str) -> Delete:
    target, why = Reference.to(pod), f"which had to return to node {must_return_to(pod)}: {why}"
    event = Announce(
        regarding=Reference.to(lws),
        related=target,
        reason="NodeReturnBlocked",
        action="Delete",
        note=f"Deleted pod {target.name}, {why}",
        fold=Fold(f"Deleted pods {{}}, {why}", target.name),
    )
    return Delete(
        target,
        "Background",
        why=f"a pod was waiting, {why}",
        announce=(event,),
        version=target.resource_version,
    )


def _node_lost(stuck: list[StuckPod], policy: NodeLossPolicy) -> Problem:
    loss = stuck[0].loss
    names = [name_of(stuck_pod.pod) for stuck_pod in stuck]
    more = len(names) - _MOST_NAMED
    pods = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    advice = _advice(stuck[0], policy)
    return Problem(
        "NodeLost",
        f"node {loss.node} {loss.why} and cannot terminate {pods}: their groups are blocked; {advice}",
    )


def _advice(stuck: StuckPod, policy: NodeLossPolicy) -> str:
    if stuck.loss.is_collected:
        return "Kubernetes deletes such pods itself (pod garbage collector)"
    if policy.force_delete:
        return "such pods are force-deleted"
    return (
        f"repair the node, delete it, or, once it is shut down, taint it with {OUT_OF_SERVICE_TAINT}; with "
        f"nodeLoss.forceDelete the manager force-deletes such pods"
    )


# --- Record when a set last made progress, and decide whether it is stalled. The condition is only reported:
# nothing else depends on it. If the record is lost, the condition becomes true later.


PROGRESSING = "Progressing"
STALLED = "Stalled"

LAST_PROGRESS = "lastProgressTime"
"""Name of the status field that records the last progress."""

# A wait for a node is long if it exceeds this fraction of the deadline.
_LONG_WAIT = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """Progress of a set.

    deadline: maximum seconds without progress; None for no limit. is_progressing: whether groups are being
    created or replaced. is_paused: whether the user has paused the rollout. has_moved: whether the rollout
    takes a step. settled: number of groups that are ready on the target revision. waits: waits for a node, of
    pods of groups that are not ready. is_prewarming: whether the rollout waits for nodes to be prewarmed,
    which has a deadline of its own.
    """

    deadline: int | None
    now: datetime
    is_progressing: bool
    is_paused: bool
    has_moved: bool
    settled: int
    waits: tuple[NodeWait, ...] = ()
    is_prewarming: bool = False

    def last_progress(self, obj: Object) -> str | None:
        """Return the moment to record (RFC 3339); None if nothing has happened yet. Progress is more settled
        groups than the status of `obj`, the set, shows. A step, a changed spec, and the first group that is
        not ready after all were settled also restart the clock.
        """
        stored: Mapping[str, Any] = obj.get("status") or {}
        recorded: str | None = stored.get(LAST_PROGRESS)
        moment = moment_of(recorded)
        if moment is None or elapsed(moment, self.now) == timedelta.max:
            # Somebody edited it. The deadline would come late, or never.
            recorded = None
        was_progressing = is_true(stored.get("conditions"), PROGRESSING)
        has_moved = self.has_moved or stored.get("observedGeneration") != obj["metadata"].get("generation", 0)
        # Upstream does not write these counts. An empty status has no settled groups.
        groups = stored.get("groups") if stored else {}
        has_begun = self.is_progressing and (not was_progressing or has_moved or not recorded)
        has_more = groups is not None and self.settled > int((groups.get("counts") or {}).get("Ready") or 0)
        return timestamp(self.now) if has_begun or has_more else recorded

    @property
    def lacks_nodes(self) -> bool:
        """Whether a pod of an unready group has long been without a node, so that the clock is stopped."""
        return any(wait.until is None for wait in self._long_waits())

    def due_in(self, last: str | None) -> float | None:
        """Return the seconds until the set is stalled, 0 if it is; None if no deadline applies. No deadline
        applies to a set that is settled, paused or prewarming. The clock restarts when the last pod that
        waited for a node is scheduled. The pods show how long they waited, so nothing has to be recorded.
        """
        moment, is_held = moment_of(last), self.is_paused or self.is_prewarming
        if self.deadline is None or not self.is_progressing or is_held or moment is None:
            return None
        if self.lacks_nodes:
            return float(self.deadline)
        scheduled = (wait.until for wait in self._long_waits() if wait.until is not None)
        return max(0.0, self.deadline - (self.now - max((moment, *scheduled))).total_seconds())

    def _long_waits(self) -> Iterator[NodeWait]:
        """Yield waits that explain missing progress. A repeatedly recreated group has short waits too. A
        leader with our own gate waits for a former group, not for a node.
        """
        if self.deadline:
            longest = timedelta(seconds=self.deadline / _LONG_WAIT)
            others = (wait for wait in self.waits if wait.gate != GROUP_REPLACEMENT_GATE)
            yield from (wait for wait in others if (wait.until or self.now) - wait.since > longest)


def stalled_condition(pace: Pace, due_in: float | None, why: str) -> Condition:
    """Return the condition Stalled. due_in: seconds until the deadline; 0 if it is overdue, None if none
    applies. why: the groups that are not ready, each with its reason.
    """
    if due_in == 0:
        message = f"No progress for {pace.deadline} s; {why}"
        return Condition(STALLED, True, "ProgressDeadlineExceeded", message)
    if not pace.is_progressing:
        return Condition(STALLED, False, "AtRest", "No group is being created or replaced")
    if pace.is_paused:
        return Condition(STALLED, False, "RolloutPaused", "The rollout is paused")
    if pace.is_prewarming:
        message = "Nodes are prewarmed; the deadline restarts when the rollout begins"
        return Condition(STALLED, False, "NodesPrewarming", message)
    if pace.lacks_nodes:
        message = "Pods are not scheduled; the deadline restarts when they are"
        return Condition(STALLED, False, "PodsUnscheduled", message)
    return Condition(STALLED, False, "Progressing", "Groups are being created or replaced")
