"""Assess a set: the owner of its leader StatefulSet, its target revision, the state of its groups and
rollout.

Both the controller's plan and the commands start from this assessment. The position of a rollout is recorded
in `status.rollout`, so that a leader StatefulSet deleted in the middle of a rollout is recreated correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.ownership import Ownership
from lws.kube.quantities import is_integer
from lws.kube.statefulsets import update_revision_of
from lws.leaderworkerset.assessment.likeness import ownership_of_leaders
from lws.leaderworkerset.assessment.target_revision import TargetRevision, choose_revision, sizes
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.rollout.groups import DesiredGroups, GroupState, group_states, leader_statefulset
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import Begun, Rollout, RolloutState, budget_of, counted
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Merge, Object, Reference


@dataclass(frozen=True, slots=True)
class Assessment:
    """A set as its planner sees it.

    ownership: of the StatefulSet with the name of the set. target: the target revision, recorded or not.
    rollout: input of the next step; its StatefulSet is ours or about to be adopted.
    """

    ownership: Ownership
    target: TargetRevision
    rollout: RolloutState

    @property
    def groups(self) -> tuple[GroupState, ...]:
        """Groups that have a leader pod."""
        return self.rollout.groups


def begun(snapshot: SetSnapshot, assessment: Assessment) -> Begun | None:
    """Return how a missing leader StatefulSet is created; None if it exists."""
    if assessment.rollout.statefulset is not None:
        return None
    start = beginning(snapshot, assessment.target, plan_rollout(assessment.rollout))
    return Begun(start.rollout, start.former is not None)


def assess(snapshot: SetSnapshot) -> Assessment:
    lws, leader, spec = snapshot.lws, snapshot.leader, snapshot.spec
    ownership = ownership_of_leaders(snapshot)
    target = choose_revision(snapshot, ownership)
    update_revision = update_revision_of(leader) if leader is not None else ""
    usable = leader if ownership in (Ownership.OURS, Ownership.ORPHAN) else None
    position = remembered_position(lws)
    rollout = RolloutState(
        replicas=spec.replicas,
        budget=budget_of(spec),
        floor=spec.floor,
        groups=group_states(snapshot.groups, DesiredGroups(target.key, sizes(target), update_revision)),
        statefulset=leader_statefulset(usable, target.key, snapshot.now) if usable is not None else None,
        paused=spec.paused,
        reached=position.partition if position is not None and position.revision == target.name else None,
        is_refused=snapshot.leaders_refused,
    )
    return Assessment(ownership, target, rollout)


@dataclass(frozen=True, slots=True)
class Position:
    """Groups at or above `partition` move to `revision`, the name of a ControllerRevision."""

    revision: str
    partition: int

    @property
    def stored(self) -> dict[str, Any]:
        """As `status.rollout` has it."""
        return {"revision": self.revision, "partition": self.partition}


def remembered_position(lws: Object) -> Position | None:
    """The position recorded in the status; None if there was no rollout or the record is unreadable."""
    stored = (lws.get("status") or {}).get("rollout")
    if not isinstance(stored, Mapping):
        return None
    # The API server may omit zero.
    revision, partition = stored.get("revision"), stored.get("partition", 0)
    if not isinstance(revision, str) or not revision or not (is_integer(partition) and partition >= 0):
        return None
    return Position(revision, partition)


def remember(lws: Object, position: Position) -> Merge:
    """Record the position; this write must precede the update of the StatefulSet."""
    why = f"groups from {position.partition} on may move to {position.revision}: remembered before they do"
    patch = {"status": {"rollout": position.stored}}
    return Merge(Reference.to(lws), patch, why=why, subresource="status")


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a missing leader StatefulSet is created.

    former: the revision to create it with; None for the target revision.
    """

    rollout: Rollout
    former: Recorded | None = None


def beginning(snapshot: SetSnapshot, choice: TargetRevision, planned: Rollout) -> Beginning:
    """Return `planned` if the set never had a StatefulSet, or lost it while no rollout was in progress.

    A StatefulSet that was lost during a rollout is created with the previous revision of the set. A
    StatefulSet has two templates, and recreates groups below the partition from the older one. The next step
    applies the target template. Until then no orphaned pod may be moved in either direction. Surge groups may
    be among the orphaned pods; they are kept until ready groups have been counted. If the previous revision
    is unknown, no group moves until the next pass.
    """
    lws = snapshot.lws
    former_name = (lws.get("status") or {}).get("currentRevision")
    position = remembered_position(lws)
    groups = snapshot.spec.replicas + budget_of(snapshot.spec).surge
    if not former_name or former_name == choice.name:
        # After a rollback to the previous revision there is only one template, but pods of another revision.
        is_on_its_way = position is not None and position.partition > snapshot.spec.floor
        return Beginning(_standing(snapshot, groups, planned.why)) if is_on_its_way else Beginning(planned)
    former = next(
        (revision for revision in snapshot.revisions if revision.name == former_name and not revision.broken),
        None,
    )
    # Without a recorded position, the StatefulSet may never have existed or may have been rejected.
    if position is None or former is None or former.key == choice.key:
        return Beginning(_standing(snapshot, planned.replicas, planned.why))
    partition = position.partition if position.revision == choice.name else groups
    why = (
        f"the leader StatefulSet was lost in a rollout: {counted(groups)} of revision {former.number} first, "
        f"then on from {partition}"
    )
    return Beginning(_standing(snapshot, groups, why), former)


def _standing(snapshot: SetSnapshot, groups: int, why: str) -> Rollout:
    """A rollout that keeps `groups` groups and moves none of them."""
    return Rollout(max(groups, snapshot.spec.floor), groups, why=why)
