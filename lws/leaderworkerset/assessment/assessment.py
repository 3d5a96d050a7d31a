"""Assess a set: owner of its leader StatefulSet, target revision, state of its groups and rollout.

Both the controller's plan and the commands start from this assessment. The position of a rollout is recorded
in `status.rollout`, so that a leader StatefulSet deleted in the middle of a rollout is recreated correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from lws.history.revision import usable
from lws.kube.ownership import Ownership
from lws.kube.quantities import is_integer
from lws.kube.statefulsets import update_revision_of
from lws.leaderworkerset.assessment.ownership import ownership_of_leaders
from lws.leaderworkerset.assessment.prewarm import Prewarming, judge_prewarming
from lws.leaderworkerset.assessment.target_revision import TargetRevision, choose_revision, sizes
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.rollout.groups import (
    DesiredGroups,
    GroupState,
    LeaderDeployment,
    group_states,
    leader_deployment,
    leader_statefulset,
)
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import (
    Beginning,
    Rollout,
    RolloutState,
    first_groups,
    format_count,
    rollout_budget,
)
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import has_hash_groups
from lws.runtime.actions import Merge, Object, Reference


# No slots: `is_done` is cached.
@dataclass(frozen=True)
class Assessment:
    """State of a set as its planner sees it.
    ownership: ownership of the StatefulSet with the name of the set. target: the target revision, recorded or
    not. rollout: input of the next step. Its StatefulSet is ours or about to be adopted. prewarming: what the
    first step waits for on nodes; None for nothing.
    """

    ownership: Ownership
    target: TargetRevision
    rollout: RolloutState
    prewarming: Prewarming | None = None

    @property
    def groups(self) -> tuple[GroupState, ...]:
        """Groups that have a leader pod."""
        return self.rollout.groups

    @cached_property
    def is_done(self) -> bool:
        """Whether the leaders belong to the set, and every desired group is ready on the target revision."""
        return self.ownership == Ownership.OURS and self.rollout.is_done


def initial_rollout(snapshot: SetSnapshot, assessment: Assessment) -> Beginning | None:
    """Return how a missing leader StatefulSet is created; None if it exists, or for Hash groups."""
    if assessment.rollout.statefulset is not None or assessment.rollout.deployment is not None:
        return None
    return beginning(snapshot, assessment.target, plan_rollout(assessment.rollout))


def assess(snapshot: SetSnapshot) -> Assessment:
    """Assess the set of a snapshot: ownership, target revision, groups and rollout."""
    lws, spec = snapshot.lws, snapshot.spec
    ownership = ownership_of_leaders(snapshot)
    target = choose_revision(snapshot, ownership)
    update_revision = update_revision_of(snapshot.leaders) if snapshot.leaders is not None else ""
    leaders = snapshot.leaders if ownership in (Ownership.OURS, Ownership.ORPHAN) else None
    groups = group_states(snapshot.groups, DesiredGroups(target.key, sizes(target), update_revision))
    rollout = RolloutState(
        replicas=spec.replicas,
        budget=rollout_budget(spec),
        groups=groups,
        paused=spec.paused,
        start_strategy=spec.start_strategy,
    )
    if has_hash_groups(lws):
        deployment = leader_deployment(leaders, groups) if leaders is not None else LeaderDeployment()
        return Assessment(ownership, target, replace(rollout, deployment=deployment))
    position = recorded_position(lws)
    stored = leader_statefulset(leaders, target.key, snapshot.now) if leaders is not None else None
    prewarming = judge_prewarming(snapshot, target, groups, stored)
    rollout = replace(
        rollout,
        floor=spec.floor,
        statefulset=stored,
        reached=position.partition if position is not None and position.revision == target.name else None,
        occupied_index_count=snapshot.occupied_index_count,
        prewarming=prewarming.waiting_for if prewarming is not None else "",
    )
    return Assessment(ownership, target, rollout, prewarming)


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a rollout: groups from index `partition` on move to the ControllerRevision `revision`. The
    fields are those of `status.rollout`.
    """

    revision: str
    partition: int


def recorded_position(lws: Object) -> Position | None:
    """Return the position recorded in the status; None without a rollout or a readable record."""
    stored = (lws.get("status") or {}).get("rollout")
    if not isinstance(stored, Mapping):
        return None
    # The API server may omit zero.
    revision, partition = stored.get("revision"), stored.get("partition", 0)
    if not isinstance(revision, str) or not revision or not (is_integer(partition) and partition >= 0):
        return None
    return Position(revision, partition)


def record_position(lws: Object, position: Position) -> Merge:
    """Record the position. This write must precede the update of the StatefulSet."""
    why = f"groups from {position.partition} on may move to {position.revision}: recorded before they do"
    patch = {"status": {"rollout": asdict(position)}}
    return Merge(Reference.to(lws), patch, why=why, subresource="status")


def beginning(snapshot: SetSnapshot, choice: TargetRevision, planned: Rollout) -> Beginning:
    """Return `planned` if the set never had a StatefulSet, or lost it while no rollout was in progress.

    A StatefulSet that was lost during a rollout is created with the previous revision of the set. A
    StatefulSet has two templates, and recreates groups below the partition from the older one. The next step
    applies the target template. Until then no orphaned pod may be moved in either direction. Surge groups may
    be among the orphaned pods; they are kept until ready groups have been counted. The partition also covers
    groups that `spec.startStrategy` delays. If the previous revision is unknown, or has other claim
    templates, which the API server would not change later, the target template is the only one, and no group
    moves until the next pass.
    """
    lws = snapshot.lws
    former_name = (lws.get("status") or {}).get("currentRevision")
    position = recorded_position(lws)
    spec = snapshot.spec
    most = spec.replicas + rollout_budget(spec).surge
    groups = first_groups(most, spec.start_strategy, snapshot.occupied_index_count)
    if not former_name or former_name == choice.name:
        # After a rollback to the previous revision, or for a recreated set, there is only one template, but
        # pods of another revision.
        is_in_progress = position is not None and position.partition > spec.floor
        if is_in_progress or snapshot.left_keys - {choice.key}:
            return Beginning(_unmoved(snapshot, groups, planned.why))
        return Beginning(planned)
    former = recorded_former(snapshot, choice)
    # Without a recorded position, the StatefulSet may never have existed or may have been rejected.
    if position is None or former is None:
        return Beginning(_unmoved(snapshot, planned.replicas, planned.why))
    if former.record.claims != choice.content.record.claims:
        why = f"{planned.why}: a StatefulSet of revision {former.number} could not get the claim templates"
        return Beginning(_unmoved(snapshot, groups, why))
    partition = position.partition if position.revision == choice.name else most
    why = (
        f"the leader StatefulSet was lost in a rollout: {format_count(groups)} of revision {former.number} "
        f"first, then the rollout continues from partition {partition}"
    )
    return Beginning(Rollout(max(most, spec.floor), groups, why=why), former)


def recorded_former(snapshot: SetSnapshot, choice: TargetRevision) -> Recorded | None:
    """Return the revision that the set had before the target revision; None if unknown or the same."""
    name = (snapshot.lws.get("status") or {}).get("currentRevision")
    former = next((revision for revision in usable(snapshot.revisions) if revision.name == name), None)
    return former if former is not None and former.key != choice.key else None


def _unmoved(snapshot: SetSnapshot, groups: int, why: str) -> Rollout:
    """Return a rollout that keeps `groups` groups and moves none of them."""
    return Rollout(max(groups, snapshot.spec.floor), groups, why=why)
