"""Assess a set: ownership of the leader StatefulSet, target revision, state of the groups, and the position
of its rollout.

The controller's plan and the commands both begin with the `Assessment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.actions import Merge, Object, Reference
from lws.kube.ownership import Ownership
from lws.kube.quantities import is_integer
from lws.kube.statefulsets import update_revision_of
from lws.leaderworkerset.assessment.likeness import ownership_of_leaders
from lws.leaderworkerset.assessment.target_revision import Choice, choose_revision
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.rollout.groups import DesiredGroups, GroupState, group_states, leader_statefulset
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.reasons import counted
from lws.leaderworkerset.rollout.simulation import Begun
from lws.leaderworkerset.rollout.state import Rollout, RolloutState, budget_of
from lws.leaderworkerset.snapshot import SetSnapshot


@dataclass(frozen=True, slots=True)
class Assessment:
    """A set as its planner sees it.

    ownership: of the StatefulSet that has the name of the set. target: the target revision, recorded or not.
    rollout: what the next step is decided from; its StatefulSet is one of ours, or one to be adopted.
    """

    ownership: Ownership
    target: Choice
    rollout: RolloutState

    @property
    def groups(self) -> tuple[GroupState, ...]:
        """Groups that have a leader pod."""
        return self.rollout.groups


def begun(snapshot: SetSnapshot, assessment: Assessment) -> Begun | None:
    """With what a leader StatefulSet that is not there is made; None where there is one."""
    if assessment.rollout.statefulset is not None:
        return None
    made = beginning(snapshot, assessment.target, plan_rollout(assessment.rollout))
    return Begun(made.rollout, made.former is not None)


def assess(snapshot: SetSnapshot) -> Assessment:
    """The set as it stands."""
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
        groups=group_states(snapshot.groups, DesiredGroups(target.key, target.size_of, update_revision)),
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
    """The position that the status remembers; None where there was no rollout, or nothing can be read."""
    stored = (lws.get("status") or {}).get("rollout")
    if not isinstance(stored, Mapping):
        return None
    # The API server may leave a zero out.
    revision, partition = stored.get("revision"), stored.get("partition", 0)
    if not isinstance(revision, str) or not revision or not (is_integer(partition) and partition >= 0):
        return None
    return Position(revision, partition)


def remember(lws: Object, position: Position) -> Merge:
    """The write that must be there before the StatefulSet is told."""
    why = f"groups from {position.partition} on may move to {position.revision}: remembered before they do"
    patch = {"status": {"rollout": position.stored}}
    return Merge(Reference.to(lws), patch, why=why, subresource="status")


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a leader StatefulSet that does not exist is made with.

    former: the revision that it must know first, None for the wanted one.
    """

    rollout: Rollout
    former: Recorded | None = None


def beginning(snapshot: SetSnapshot, choice: Choice, planned: Rollout) -> Beginning:
    """`planned` for a set that never had a StatefulSet, or lost it at rest.

    One that was lost in the middle of a rollout begins with the revision that the set came from: a
    StatefulSet knows two templates, and makes groups that are lost before their turn from the former of them.
    The next step tells it the wanted one. Until then it must not move any pod that was left behind, neither
    on nor back. Surge groups may have been left behind too; they are kept until somebody has counted who is
    ready. Where nothing shows what the set came from, no group moves before it is planned anew.
    """
    lws = snapshot.lws
    former_name = (lws.get("status") or {}).get("currentRevision")
    position = remembered_position(lws)
    groups = snapshot.spec.replicas + budget_of(snapshot.spec).surge
    if not former_name or former_name == choice.name:
        # On the way back to where the set came from there is one template to begin with, and pods of another.
        is_on_its_way = position is not None and position.partition > snapshot.spec.floor
        return Beginning(_standing(snapshot, groups, planned.why)) if is_on_its_way else Beginning(planned)
    former = next((each for each in snapshot.revisions if each.name == former_name and not each.broken), None)
    # Without memory nothing says that there ever was a StatefulSet, or that the API server took it.
    if position is None or former is None or former.key == choice.key:
        return Beginning(_standing(snapshot, planned.replicas, planned.why))
    partition = position.partition if position.revision == choice.name else groups
    why = (
        f"the leader StatefulSet was lost in a rollout: {counted(groups)} of revision {former.number} first, "
        f"then on from {partition}"
    )
    return Beginning(_standing(snapshot, groups, why), former)


def _standing(snapshot: SetSnapshot, groups: int, why: str) -> Rollout:
    """So many groups, none of which moves."""
    return Rollout(max(groups, snapshot.spec.floor), groups, why=why)
