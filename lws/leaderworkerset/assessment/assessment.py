"""Where does a set stand: whose is its leader StatefulSet, which revision does it want, how are its groups,
and from which state is the next step of its rollout decided?

In: a SetSnapshot. Out: an `Assessment`. The plan of the controller and the commands both begin with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lws.kube.ownership import Ownership
from lws.kube.statefulsets import update_revision_of
from lws.leaderworkerset.assessment.checkpoint import beginning, remembered_position
from lws.leaderworkerset.assessment.likeness import ownership_of_leaders
from lws.leaderworkerset.assessment.target_revision import Choice, choose_revision
from lws.leaderworkerset.rollout.groups import GroupState, Wanted, group_states, leader_statefulset
from lws.leaderworkerset.rollout.limits import budget_of
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.simulation import Begun
from lws.leaderworkerset.rollout.state import RolloutState
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
        groups=group_states(snapshot.groups, Wanted(target.key, target.size_of, update_revision)),
        statefulset=leader_statefulset(usable, target.key, snapshot.now) if usable is not None else None,
        paused=spec.paused,
        reached=position.partition if position is not None and position.revision == target.name else None,
        is_refused=snapshot.leaders_refused,
    )
    return Assessment(ownership, target, rollout)
