"""Delete groups to recreate them, and decide which new leaders may be scheduled while pods of previous groups
are left.

A ReplicaSet replaces a leader as soon as its deletion begins. The pod webhook gives every leader of a Hash
group a scheduling gate, so that the new group does not preempt others while the previous one is terminating.
A leader with an index gets the gate only if pods of its previous group are left: the new leader must never
run together with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from lws.kube.metadata import (
    ORPHAN_FINALIZER,
    annotations_of,
    controller_of,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
)
from lws.kube.pods import has_ended, has_gate
from lws.leaderworkerset.pod_identity import GATED_DELETION_COST, is_leader, is_of_hash_group, own_workers
from lws.leaderworkerset.restart_counts import is_exhausted
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.leaderworkerset.snapshot import Teardown
from lws.runtime.actions import Announce, Delete, Fold, Merge, Object, Reference, Tally
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    LEADER_NAME_ANNOTATION,
    REVISION_LABEL,
)

_AGE = attrgetter("created", "name")


def deletion_of(
    leader: Object,
    workers: Object | None,
    why: str,
    announce: tuple[Announce, ...] = (),
    tallies: tuple[Tally, ...] = (),
) -> tuple[Delete, ...]:
    """Delete a group to recreate it: leader and worker StatefulSet at once, in the background, and in this
    order, because workers without a deleted leader would be recreated.

    In the foreground, 22 of the 66 requests for a group of four are the garbage collector's look-ups and
    finalizers. The next leader is created before the last old pod is gone; the pod webhook gates it. The
    leader alone is deleted in the foreground if the manager does not see its workers: the garbage collector
    then has to find them before it deletes the leader. Hash groups are deleted in the same way, because their
    leaders are replaced at once in any case.
    """
    own = own_workers(leader, workers)
    if own is None or is_terminating(own) or is_of_hash_group(leader):
        return (Delete(Reference.to(leader), "Foreground", why, announce, tallies=tallies),)
    why_workers = f"its leader {name_of(leader)} is deleted: {why}"
    return (
        Delete(Reference.to(leader), "Background", why, announce, tallies=tallies),
        Delete(Reference.to(own), "Background", why_workers),
    )


def workers_to_delete(leader: Object, workers: Object | None) -> Object | None:
    """Return the worker StatefulSet of a terminating leader unless it is being deleted or orphaned. The
    garbage collector would delete it only after the leader is gone.
    """
    own = own_workers(leader, workers)
    if own is None or not is_terminating(leader) or is_terminating(own):
        return None
    return None if ORPHAN_FINALIZER in (metadata_of(leader).get("finalizers") or ()) else own


@dataclass(frozen=True, slots=True)
class Leader:
    """A leader pod that is not terminating, or that is kept.
    created: creation time in RFC 3339. is_gated: whether the pod has the gate of group replacement.
    is_current: whether the pod has the revision of the Deployment. has_ended: whether the pod has ended, so
    that its ReplicaSet has replaced it. revision: revision key of the pod; empty if unknown.
    """

    name: str
    created: str
    is_gated: bool
    is_current: bool
    has_ended: bool = False
    revision: str = ""


def leaders_of(pods: Iterable[Object], revision: str) -> tuple[Leader, ...]:
    """Return the live leaders among the pods of a set. revision: revision key of the Deployment."""
    return tuple(leader_of(pod, revision) for pod in pods if is_leader(pod) and not is_terminating(pod))


def leader_of(pod: Object, revision: str) -> Leader:
    """Reduce a leader pod to the facts that admission of gated leaders depends on."""
    key = labels_of(pod).get(REVISION_LABEL, "")
    return Leader(
        name_of(pod),
        pod["metadata"]["creationTimestamp"],
        has_gate(pod, GROUP_REPLACEMENT_GATE),
        key == revision,
        has_ended(pod),
        key,
    )


def teardowns_of(pods: Sequence[Object], revision: str, lost: Collection[str] = ()) -> tuple[Teardown, ...]:
    """Return the groups of a set that are terminating.
    revision: revision key of the Deployment. lost: names of leaders that a lost Deployment has left, whose
    groups are deleted or adopted. Gated leaders are left out: they have never been scheduled, hold no node,
    and have no workers.
    """
    leaders = [pod for pod in pods if is_leader(pod) and not is_terminating(pod) and name_of(pod) not in lost]
    # Workers without the label of their group name its leader.
    live = {name for pod in leaders for name in (_group(pod), name_of(pod))}
    teardowns: dict[str, Teardown] = {}
    for pod in pods:
        group = _group(pod)
        if group not in live and not has_gate(pod, GROUP_REPLACEMENT_GATE):
            teardown = teardowns.get(group, Teardown(group, is_current=True))
            is_current = teardown.is_current and labels_of(pod).get(REVISION_LABEL) == revision
            is_kept_leader = is_leader(pod) and is_exhausted(pod)
            teardowns[group] = Teardown(group, is_current, teardown.is_kept or is_kept_leader)
    return tuple(teardowns.values())


def leaders_to_admit(
    leaders: Sequence[Leader],
    teardowns: Sequence[Teardown],
    replicas: int,
    surge: int,
    is_immediate: bool = False,
    starts: Mapping[str, int] | None = None,
) -> tuple[Leader, ...]:
    """Return the gated leaders that may be scheduled now: those of the current revision first, then by age.

    leaders, teardowns: all of the set, on any revision.
    replicas, surge: numbers of the Deployment.
    is_immediate: whether the policy is Immediate.
    starts: how many groups of each revision may start; None for any number. A leader that waits for its wave
    takes no place from leaders of other revisions.

    Under both policies, one leader of the same revision waits for each group that is kept, and for each
    leader that has ended, because a backoff or a limit of restarts may still keep its group. Under
    PostTermination, there are never more admitted leaders and teardowns together than `replicas`, or
    `replicas` + `surge` while a rollout uses the surge. So:

    - Without a rollout, a new group waits for a previous one even if `surge` is above 0.
    - Groups of all revisions share one number: two revisions never overlap by more than the surge.
    - Once the teardowns have ended, all leaders that the Deployment keeps are admitted, including those of a
      previous revision. A ReplicaSet deletes the others first: their deletion cost is lowest.
    - After a scale-down, new groups wait until enough removed groups have terminated: no pod shows whether a
      group has a successor.
    """
    waiting = [*_gated_leaders(leaders, teardowns, True), *_gated_leaders(leaders, teardowns, False)]
    if starts is not None:
        waiting = [*_next_to_start(waiting, starts)]
    if is_immediate:
        return tuple(waiting)
    holding = sum(not leader.is_gated for leader in leaders) + len(teardowns)
    return tuple(waiting[: max(max_groups_with_nodes(leaders, teardowns, replicas, surge) - holding, 0)])


def _next_to_start(waiting: Iterable[Leader], starts: Mapping[str, int]) -> Iterator[Leader]:
    left = dict(starts)
    for leader in waiting:
        left[leader.revision] = left.get(leader.revision, 0) - 1
        if left[leader.revision] >= 0:
            yield leader


def _gated_leaders(
    leaders: Iterable[Leader], teardowns: Iterable[Teardown], is_current: bool
) -> Sequence[Leader]:
    """Return gated leaders of the current revision, or of others, by age, less one for each kept group and
    each leader that has ended.
    """
    of_revision = [leader for leader in leaders if leader.is_current == is_current]
    kept_count = sum(teardown.is_kept and teardown.is_current == is_current for teardown in teardowns)
    kept_count += sum(leader.has_ended for leader in of_revision)
    ordered = sorted((leader for leader in of_revision if leader.is_gated), key=_AGE)
    return ordered[: max(len(ordered) - kept_count, 0)]


def surplus_kept_groups(
    kept_groups: Collection[Leader], leaders: Collection[Leader], replicas: int
) -> Iterator[Leader]:
    """Return the kept groups that a scale-down removes. In each revision the oldest kept groups stay, one for
    each group that is missing besides them.
    """
    for is_current in (True, False):
        of_revision = [leader for leader in kept_groups if leader.is_current == is_current]
        gates = [leader.is_gated for leader in leaders if leader.is_current == is_current]
        active = gates.count(False) + max(gates.count(True) - len(of_revision), 0)
        yield from sorted(of_revision, key=_AGE)[max(replicas - active, 0) :]


def max_groups_with_nodes(
    leaders: Sequence[Leader], teardowns: Sequence[Teardown], replicas: int, surge: int
) -> int:
    """Return the maximum number of groups that may hold nodes at a time."""
    if not all([leader.is_current for leader in leaders] + [group.is_current for group in teardowns]):
        return replicas + surge
    # In the last step of a rollout, or of its reversal, the Deployment has not yet removed the surge. A
    # leader that has ended and its successor are no surge.
    running = sum(not leader.has_ended for leader in leaders)
    return replicas + min(max(running - replicas, 0), surge)


def admit(lws: Object | None, leader: Object) -> Merge:
    """Remove our gate from a leader, and the deletion cost unless it has been changed. lws: the set, for the
    Event; None if it does not exist any more.
    """
    patch: dict[str, Any] = {
        "spec": {"schedulingGates": [{"$patch": "delete", "name": GROUP_REPLACEMENT_GATE}]}
    }
    if annotations_of(leader).get(DELETION_COST_ANNOTATION) == GATED_DELETION_COST:
        patch["metadata"] = {"annotations": {DELETION_COST_ANNOTATION: None}}
    note = f"Leader pod {name_of(leader)} admitted for scheduling"
    fold = Fold("Leader pods {} admitted for scheduling", name_of(leader))
    about = Reference.to(leader)
    announce = () if lws is None else (_admitted(lws, about, note, fold),)
    return Merge(about, patch, "the groups that it replaces are gone", announce=announce, is_strategic=True)


def _admitted(lws: Object, leader: Reference, note: str, fold: Fold) -> Announce:
    return Announce(Reference.to(lws), "GroupReplacementAdmitted", "Update", note, related=leader, fold=fold)


def deferral(lws: Object, leader: Object, terminating: int) -> Announce:
    """Return the Event about a leader that stays gated. terminating: number of teardowns."""
    note = (
        f"Leader pod {name_of(leader)} waits for {terminating} terminating group(s) to be removed before "
        f"scheduling"
    )
    together = "Leader pods {} wait for terminating groups to be removed"
    return _deferral(lws, leader, note, together)


def deferral_of_index(lws: Object, leader: Object, index: str) -> Announce:
    """Return the Event about a gated leader with an index, which waits for pods of its own previous group."""
    note = (
        f"Leader pod {name_of(leader)} waits for previous group {index} pods to be removed before scheduling"
    )
    together = "Leader pods {} wait for the pods of their former groups to be removed"
    return _deferral(lws, leader, note, together)


def _deferral(lws: Object, leader: Object, note: str, together: str) -> Announce:
    """Return an Event that is written once for each note. together: the note for several leaders."""
    about, fold = Reference.to(leader), Fold(together, name_of(leader))
    return Announce(
        Reference.to(lws), "GroupReplacementDeferred", "Update", note, related=about, fold=fold, once=True
    )


def _group(pod: Object) -> str:
    """Return the group of a pod by its label or, without the label, by its leader or its owner."""
    owner = controller_of(pod)
    return str(
        labels_of(pod).get(GROUP_INDEX_LABEL)
        or (name_of(pod) if is_leader(pod) else annotations_of(pod).get(LEADER_NAME_ANNOTATION))
        or (owner["name"] if owner is not None else name_of(pod))
    )
