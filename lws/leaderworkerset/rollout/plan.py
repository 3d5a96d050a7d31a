"""How far may a set roll at this moment: which partition, how many replicas, whom to replace, and why?

In: a `RolloutState`. Out: a `Rollout`.

Partition and replicas are those of the original controller, except that
- with a surge one group always stays: maxUnavailable acts as at most replicas - 1;
- a budget of nothing at all acts as one unavailable group;
- no step of ours leaves fewer groups ready than replicas - maxUnavailable, counted over all groups. Below
  that, healthy groups go one at a time, and only where nothing but broken old groups has used the budget up;
- a group that is stuck does not hold up those below it while there is budget left;
- broken old groups go all at once, but no more than maxUnavailable are tried on a revision that none gets
  ready on;
- the only group of a set is given the new template and its turn at once;
- there is a surge only while outdated groups remain, it goes only while replicas - maxUnavailable groups stay
  ready, and a plain scale-down shrinks at once;
- a missing or garbled record of the replicas last asked for counts as if nothing was scaled.
"""

from __future__ import annotations

from lws.leaderworkerset.rollout import reasons
from lws.leaderworkerset.rollout.pause import paused_position
from lws.leaderworkerset.rollout.replacement import leaders_to_replace
from lws.leaderworkerset.rollout.state import Moment, Rollout, RolloutState

__all__ = ["Rollout", "RolloutState", "is_small_step", "plan_rollout"]


def plan_rollout(state: RolloutState) -> Rollout:
    """The next step of a rollout, of a scaling, or of both; repeated, it comes to rest from any state."""
    if state.statefulset is None:
        return Rollout(state.floor, state.replicas, why=f"{reasons.counted(state.replicas)} to be created")
    moment = Moment(state, state.statefulset)
    if state.paused:
        partition, replicas = paused_position(moment)
        return Rollout(
            partition=partition,
            replicas=replicas,
            why="; ".join(filter(None, ("the rollout is paused", reasons.why_replicas(moment, replicas)))),
            waiting_for="the rollout to be resumed" if any(group.outdated for group in state.groups) else "",
        )
    partition = _partition(moment)
    replicas = _replicas(moment, partition)
    if state.stays:
        partition, replicas = max(partition, moment.stored.partition), max(replicas, moment.stored.replicas)
    replace = leaders_to_replace(moment, partition, replicas)
    why = (
        reasons.why_partition(moment, partition),
        reasons.why_replicas(moment, replicas),
        reasons.why_replace(moment, replace),
    )
    return Rollout(
        partition=partition,
        replicas=replicas,
        replace=replace,
        why="; ".join(filter(None, why)),
        waiting_for=reasons.waiting_for(moment, replicas),
    )


def is_small_step(state: RolloutState, rollout: Rollout) -> bool:
    """Nothing but the partition changes, by less than two thirds of the budget, and others will follow.

    Each thing that a StatefulSet is told costs its controller a look at all pods, so that few groups can wait
    for more.
    """
    stored = state.statefulset
    if stored is None or not stored.is_current or rollout.replicas != stored.replicas:
        return False
    moving = stored.partition - rollout.partition
    budget = state.budget.unavailable + state.budget.surge
    return 0 < 3 * moving < 2 * budget and rollout.partition > state.floor


def _partition(moment: Moment) -> int:
    stored, wanted = moment.stored, moment.wanted
    safe, needed = moment.reach(moment.allowance)
    covered = stored.partition
    if not stored.is_current:
        # The new template counts from here on; wanted groups that exist are not touched before the next step.
        proposal = min(stored.replicas, wanted)
        covered = stored.replicas
        if moment.state.reached is not None and stored.observed:
            # The StatefulSet was lost in the middle of this very rollout.
            proposal = min(proposal, moment.state.reached)
        elif moment.is_sole_group_due:
            proposal = 0
    elif moment.is_at_rest or stored.replicas < wanted:
        proposal = stored.partition
    elif stored.last_replicas not in (None, wanted):
        proposal = min(stored.partition, moment.ceiling)
    else:
        proposal = min(stored.partition, _window(moment), needed)
    # A controller that is about to report would otherwise meet two partitions at once, and leaders that
    # nobody prepared for the second.
    lowest = covered if stored.awaited else min(covered, safe)
    return max(proposal, lowest, moment.state.floor)


def _window(moment: Moment) -> int:
    """The lower end of the original controller's window.

    As many groups below the finished tail as the budget has, less those that are not ready further down; then
    on, for free, over neighbours within the window that are not ready or updated already.
    """
    replicas = moment.stored.replicas
    step = moment.state.budget.unavailable + replicas - moment.wanted
    tail = replicas
    while tail > 0 and moment.is_settled(tail - 1):
        tail -= 1
    lowest = max(0, tail - step)
    candidate = lowest + moment.unready_below(lowest)
    for index in reversed(range(lowest, min(candidate + 1, replicas))):
        if moment.is_serving_outdated(index):
            break
        candidate = index
    return candidate


def _replicas(moment: Moment, partition: int) -> int:
    stored, wanted = moment.stored.replicas, moment.wanted
    if stored < wanted or moment.is_at_rest:
        return wanted
    return moment.shrunk(_surged(moment), partition)


def _surged(moment: Moment) -> int:
    """Groups wanted plus as much surge as outdated and unready ones among them still call for."""
    unsettled = moment.wanted
    if moment.stored.is_current:
        if not moment.is_any_outdated(moment.wanted):
            return moment.wanted
        unsettled = moment.unsettled_among(range(moment.wanted))
    if unsettled > moment.state.budget.surge:
        return moment.ceiling
    return moment.wanted + max(0, unsettled - moment.state.budget.unavailable)
