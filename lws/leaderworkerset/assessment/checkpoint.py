"""Where was the rollout when it was last moved, and how is a leader StatefulSet made anew that was lost?

In: the set with `status.rollout` and `status.currentRevision`, whatever is in them, and its history. Out:
that memory, decoded, the write that brings it up to date, and what a new StatefulSet begins with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.actions import Merge, Object, Reference
from lws.kube.quantities import is_integer
from lws.leaderworkerset.assessment.target_revision import Choice
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.rollout.limits import budget_of
from lws.leaderworkerset.rollout.reasons import counted
from lws.leaderworkerset.rollout.state import Rollout
from lws.leaderworkerset.snapshot import SetSnapshot


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
