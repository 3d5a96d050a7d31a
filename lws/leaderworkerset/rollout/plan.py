"""Plan the next step of a rollout or scaling: partition, replicas, leaders to replace, and the reason.

Partition and replicas are the same as upstream, except that
- with a surge at least one group is kept: maxUnavailable acts as at most replicas - 1;
- a budget of 0 acts as one unavailable group;
- no step leaves fewer ready groups than replicas - maxUnavailable, counted over all groups. Below that,
  healthy groups are replaced one at a time, and only if broken outdated groups alone have used up the budget;
- a stuck group does not block the groups below it while there is budget left;
- broken outdated groups are replaced all at once, but at most maxUnavailable on a revision on which no group
  becomes ready;
- the only group of a set gets the new template and is replaced in the same step;
- a surge exists only while outdated groups remain. It is removed only while replicas - maxUnavailable groups
  stay ready. A plain scale-down takes effect at once;
- without a readable record of the last requested replicas, nothing counts as scaled.
"""

from __future__ import annotations

from collections.abc import Container

from lws.leaderworkerset.rollout.state import (
    Moment,
    Rollout,
    RolloutState,
    counted,
    waiting_for,
    why_partition,
    why_replace,
    why_replicas,
)

__all__ = ["Rollout", "RolloutState", "is_small_step", "plan_rollout"]


def plan_rollout(state: RolloutState) -> Rollout:
    """Return the next step of a rollout, a scaling, or both. Repeated, it converges from any state."""
    if state.statefulset is None:
        return Rollout(state.floor, state.replicas, why=f"{counted(state.replicas)} to be created")
    moment = Moment(state, state.statefulset)
    if state.paused:
        partition, replicas = paused_position(moment)
        return Rollout(
            partition=partition,
            replicas=replicas,
            why="; ".join(filter(None, ("the rollout is paused", why_replicas(moment, replicas)))),
            waiting_for="the rollout to be resumed" if any(group.outdated for group in state.groups) else "",
        )
    partition = _partition(moment)
    replicas = _replicas(moment, partition)
    if state.stays:
        partition, replicas = max(partition, moment.stored.partition), max(replicas, moment.stored.replicas)
    replace = leaders_to_replace(moment, partition, replicas)
    why = (
        why_partition(moment, partition),
        why_replicas(moment, replicas),
        why_replace(moment, replace),
    )
    return Rollout(
        partition=partition,
        replicas=replicas,
        replace=replace,
        why="; ".join(filter(None, why)),
        waiting_for=waiting_for(moment, replicas),
    )


def is_small_step(state: RolloutState, rollout: Rollout) -> bool:
    """Whether only the partition changes, by less than two thirds of the budget, and more steps will follow.

    After each update of a StatefulSet its controller checks all pods, so a few groups can wait for more.
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
        # The new template only applies to new groups; existing ones are not touched before the next step.
        proposal = min(stored.replicas, wanted)
        covered = stored.replicas
        if moment.state.reached is not None and stored.observed:
            # The StatefulSet was lost during this rollout.
            proposal = min(proposal, moment.state.reached)
        elif moment.is_sole_group_due:
            proposal = 0
    elif moment.is_at_rest or stored.replicas < wanted:
        proposal = stored.partition
    elif stored.last_replicas not in (None, wanted):
        proposal = min(stored.partition, moment.ceiling)
    else:
        proposal = min(stored.partition, _window(moment), needed)
    # A StatefulSet controller that has not reported yet would otherwise see two changes of the partition at
    # once, and could take leaders of the second that this controller has not deleted yet.
    lowest = covered if stored.awaited else min(covered, safe)
    return max(proposal, lowest, moment.state.floor)


def _window(moment: Moment) -> int:
    """The lower end of upstream's window.

    The window has as many groups below the finished tail as the budget allows, less groups further down that
    are not ready. It extends over adjacent groups that are not ready or already updated, at no cost.
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
    """Desired groups plus the surge that outdated and unready groups among them still require."""
    unsettled = moment.wanted
    if moment.stored.is_current:
        if not moment.is_any_outdated(moment.wanted):
            return moment.wanted
        unsettled = moment.unsettled_among(range(moment.wanted))
    if unsettled > moment.state.budget.surge:
        return moment.ceiling
    return moment.wanted + max(0, unsettled - moment.state.budget.unavailable)


def paused_position(moment: Moment) -> tuple[int, int]:
    """Partition and replicas of a paused rollout: no group changes its revision, scaling still works.

    The partition rises to the lowest group on the target revision, so that lost groups below it are recreated
    on their revision. No outdated group is at or above it. The surge keeps its size, because the groups that
    it replaces may not be ready.
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
    # After a rollback it is the low groups that match: the groups above must not be replaced. Nor must groups
    # that were scaled away a moment ago, still exist, and are desired again.
    staying = max(stored.replicas, moment.wanted)
    return max([lowest, *(index + 1 for index in outdated if index < staying)])


def _paused_replicas(moment: Moment, partition: int) -> int:
    stored, wanted = moment.stored, moment.wanted
    if stored.replicas < wanted:
        return wanted
    surge = stored.replicas - (wanted if stored.last_replicas is None else stored.last_replicas)
    return moment.shrunk(min(wanted + max(0, surge), moment.ceiling), partition)


def leaders_to_replace(moment: Moment, partition: int, replicas: int) -> tuple[int, ...]:
    """Leaders to delete in the foreground before `partition` and `replicas` are applied.

    As soon as a StatefulSet controller sees a lower partition, it deletes the highest outdated leader in the
    background, so that old workers and a new leader share host names for a while. Therefore
    - leaders that it would delete at once must be terminating before it sees the partition: it skips
      terminating pods;
    - all others of the window follow once it has observed template and partition: before that it could
      recreate them on the old template. It would delete them one by one, or none behind a stuck one.
    Healthy leaders are deleted as far as the budget allows, broken ones always. While the controller lags
    behind, nothing is deleted. A leader that was recreated on the old template is deleted again.
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
    """Outdated leaders of a range that would be recreated updated, highest first, except terminating ones."""
    outdated = (moment.groups[index] for index in reversed(range(start, end)) if moment.is_outdated(index))
    # Until the new template is stored, the update revision of the StatefulSet is the old one.
    return [
        group.index
        for group in outdated
        if not group.terminating and (group.replaceable or not moment.stored.is_current)
    ]


def _taken_at_once(moment: Moment, partition: int, replicas: int, deleted: Container[int]) -> list[int]:
    """Leaders that the StatefulSet controller deletes as soon as it sees `partition` and `replicas`.

    deleted: leaders that are deleted before. (Kubernetes 1.37, podManagementPolicy Parallel. Earlier releases
    with `maxUnavailable` delete the same or fewer.)
    """
    candidates = [index for index in _replaceable(moment, partition, replicas) if index not in deleted]
    down = [
        index
        for index in range(replicas)
        if index in deleted or index not in moment.groups or not moment.groups[index].leader_ready
    ]
    if moment.stored.max_unavailable is not None:
        available = [index for index in candidates if index not in down]
        spared = available[max(0, moment.stored.max_unavailable - len(down)) :]
        return [index for index in candidates if index not in spared]
    # One at a time from the top, up to the first leader that is missing or starting.
    return [index for index in candidates[:1] if all(other <= index for other in down)]
