"""Where does a set stand in its rollout, and from which state is the next step decided?

In: the snapshot that the controller would have. Out: the wanted revision, the state of every group, and what
`plan_rollout` and `simulate` are asked with.
"""

from __future__ import annotations

from dataclasses import dataclass

from lws.actions import Object
from lws.kube.ownership import Standing
from lws.kube.statefulsets import update_revision_of
from lws.leaderworkerset import spec
from lws.leaderworkerset.children.likeness import standing_of_leaders
from lws.leaderworkerset.revisions.target_revision import choose_revision
from lws.leaderworkerset.rollout.groups import GroupState, Wanted, group_states, leader_statefulset
from lws.leaderworkerset.rollout.limits import budget_of, floor_of
from lws.leaderworkerset.rollout.state import RolloutState
from lws.leaderworkerset.snapshot import SetSnapshot


@dataclass(frozen=True)
class Prospect:
    """A set as the planner sees it.

    key: of the revision that it asks for, recorded or not. standing: of the StatefulSet that has its name.
    floor: groups below this index keep their revision. state: what a rollout is decided from.
    """

    lws: Object
    key: str
    standing: Standing
    state: RolloutState

    @property
    def replicas(self) -> int:
        """Groups that the user wants."""
        return self.state.replicas

    @property
    def groups(self) -> tuple[GroupState, ...]:
        """Groups that have a leader pod."""
        return self.state.groups

    @property
    def is_paused(self) -> bool:
        """The user has stopped the rollout."""
        return self.state.paused

    @property
    def outdated(self) -> tuple[int, ...]:
        """Groups that a rollout will replace, in time."""
        return tuple(
            group.index
            for group in self.groups
            if group.outdated and self.state.floor <= group.index < self.replicas
        )

    @property
    def held(self) -> tuple[int, ...]:
        """Outdated groups that keep their revision: the partition of the set is above them."""
        return tuple(
            group.index
            for group in self.groups
            if group.outdated and group.index < min(self.state.floor, self.replicas)
        )


def prospect_of(snapshot: SetSnapshot) -> Prospect:
    """The set as it stands."""
    lws, leader = snapshot.lws, snapshot.leader
    standing = standing_of_leaders(snapshot)
    choice = choose_revision(snapshot, standing)
    is_ours = standing in (Standing.OURS, Standing.ORPHAN)
    position = (
        leader_statefulset(leader, choice.key, snapshot.now) if leader is not None and is_ours else None
    )
    update = update_revision_of(leader) if leader is not None else ""
    state = RolloutState(
        replicas=spec.replicas_of(lws),
        budget=budget_of(lws),
        floor=floor_of(lws),
        groups=group_states(snapshot.groups, Wanted(choice.key, choice.size_of, update)),
        statefulset=position,
        paused=spec.is_paused(lws),
    )
    return Prospect(lws, choice.key, standing, state)
