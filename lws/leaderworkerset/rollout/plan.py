"""Decide the next step of a rollout: partition, replicas, leaders to replace, and why.

In: a `RolloutState`. Out: a `Rollout`.

Partition and replicas are upstream's, except that
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

from collections.abc import Container

from lws.leaderworkerset.rollout import reasons
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


def paused_position(moment: Moment) -> tuple[int, int]:
    """Partition and replicas of a paused rollout: no group moves to another revision, scaling goes on.

    The partition rises to the lowest group that is on the target revision already: a group below it that is
    lost comes back as it was. It never covers an outdated group. A surge stays as large as it is, because the
    groups it stands in for may be down.
    """
    partition = max(_paused_partition(moment), moment.state.floor)
    return partition, _paused_replicas(moment, partition)


def _paused_partition(moment: Moment) -> int:
    stored = moment.stored
    updated = [index for index, group in moment.groups.items() if not group.outdated]
    outdated = [index for index, group in moment.groups.items() if group.outdated]
    if stored.is_current and not outdated:
        return stored.partition
    lowest = min((index for index in updated if index < stored.replicas), default=stored.replicas)
    # After a change back it is the low groups that match: those above them must not be taken. Nor those that
    # were scaled away a moment ago, have not gone yet, and are wanted again.
    staying = max(stored.replicas, moment.wanted)
    return max([lowest, *(index + 1 for index in outdated if index < staying)])


def _paused_replicas(moment: Moment, partition: int) -> int:
    stored, wanted = moment.stored, moment.wanted
    if stored.replicas < wanted:
        return wanted
    surge = stored.replicas - (wanted if stored.last_replicas is None else stored.last_replicas)
    return moment.shrunk(min(wanted + max(0, surge), moment.ceiling), partition)


def leaders_to_replace(moment: Moment, partition: int, replicas: int) -> tuple[int, ...]:
    """Leaders to delete in the foreground before the StatefulSet is told `partition` and `replicas`.

    A StatefulSet controller deletes the highest outdated leader in the very sync that first sees a lower
    partition, in the background, so that old workers and a new leader share host names for a while. Therefore
    - leaders that it would take at once must be on their way out before it sees the partition: it passes over
      pods that are terminating;
    - all others of the window follow once it has reported on template and partition: before that it could
      bring them back on the old template. It would take them one by one, or none at all behind one that is
      stuck.
    Healthy ones go as far as the budget allows, broken ones always. Where the controller is not known to keep
    up, nothing is deleted. A leader that came back old all the same is simply found here again.
    """
    stored = moment.stored
    if not stored.observed:
        return ()
    replace: list[int] = []
    if stored.is_current:
        allowance = moment.allowance
        for index in _replaceable(moment, max(partition, stored.partition), replicas):
            costs = moment.is_ready(index)
            if allowance >= costs:
                replace.append(index)
                allowance -= costs
    if not stored.is_current or partition < stored.partition:
        replace += _taken_at_once(moment, partition, replicas, frozenset(replace))
    return tuple(replace)


def _replaceable(moment: Moment, start: int, end: int) -> list[int]:
    """Outdated leaders of a range that would come back updated, highest first; terminating ones go anyway."""
    found = (moment.groups[index] for index in reversed(range(start, end)) if moment.is_outdated(index))
    # As long as the new template is not even stored, what the StatefulSet calls its update revision is the
    # old one.
    return [
        group.index
        for group in found
        if not group.terminating and (group.replaceable or not moment.stored.is_current)
    ]


def _taken_at_once(moment: Moment, partition: int, replicas: int, gone: Container[int]) -> list[int]:
    """Leaders that the StatefulSet controller deletes as soon as it sees `partition` and `replicas`.

    gone: leaders that are deleted before it looks. (Kubernetes 1.37, podManagementPolicy Parallel. Earlier
    ones that know `maxUnavailable` take the same or fewer.)
    """
    candidates = [index for index in _replaceable(moment, partition, replicas) if index not in gone]
    down = [
        index
        for index in range(replicas)
        if index in gone or index not in moment.groups or not moment.groups[index].leader_ready
    ]
    if moment.stored.max_unavailable is not None:
        available = [index for index in candidates if index not in down]
        spared = available[max(0, moment.stored.max_unavailable - len(down)) :]
        return [index for index in candidates if index not in spared]
    # One at a time from the top: it stops at the first leader that is missing or starting.
    return [index for index in candidates[:1] if all(other <= index for other in down)]
