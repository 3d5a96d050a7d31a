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
    Rollout,
    RolloutFacts,
    RolloutState,
    first_groups,
    format_count,
    partition_reason,
    replacement_reason,
    replicas_reason,
    waiting_for,
)


def plan_rollout(state: RolloutState) -> Rollout:
    """Return the next step of a rollout, a scaling, or both. Repeated, it converges from any state."""
    if state.statefulset is None:
        first = first_groups(state.replicas, state.start_strategy, state.occupied_index_count)
        return Rollout(state.floor, first, why=f"{format_count(first)} to be created")
    facts = RolloutFacts(state, state.statefulset)
    if state.paused or state.prewarming:
        partition = max(_paused_partition(facts), state.floor)
        replicas = _paused_replicas(facts, partition)
        if not state.paused and facts.stored.is_current:
            # Groups that are already moving to the new revision need not turn back.
            partition = max(facts.stored.partition, state.floor)
        stopped = "the rollout is paused" if state.paused else "nodes get what the new revision needs"
        awaited = "the rollout to be resumed" if state.paused else state.prewarming
        return Rollout(
            partition=partition,
            replicas=replicas,
            why="; ".join(filter(None, (stopped, replicas_reason(facts, replicas)))),
            waiting_for=awaited if any(group.outdated for group in state.groups) else "",
        )
    starts = _starts_left(facts)
    partition = _partition(facts, starts)
    replicas = _replicas(facts, partition)
    if state.stays:
        partition, replicas = max(partition, facts.stored.partition), max(replicas, facts.stored.replicas)
    replace = leaders_to_replace(facts, partition, replicas, starts)
    why = (
        partition_reason(facts, partition),
        replicas_reason(facts, replicas),
        replacement_reason(facts, replace),
    )
    return Rollout(
        partition=partition,
        replicas=replicas,
        replace=replace,
        why="; ".join(filter(None, why)),
        waiting_for=waiting_for(facts, replicas),
    )


def is_small_step(state: RolloutState, rollout: Rollout) -> bool:
    """Return whether only the partition changes, by less than ⅔ of the budget, and more steps follow. The
    StatefulSet controller checks all pods after each update, so a few groups can wait for more.
    """
    stored = state.statefulset
    if stored is None or not stored.is_current or rollout.replicas != stored.replicas:
        return False
    moving = stored.partition - rollout.partition
    budget = state.budget.unavailable + state.budget.surge
    is_small = 0 < 3 * moving < 2 * budget and rollout.partition > state.floor
    return is_small and state.start_strategy is None


def _starts_left(facts: RolloutFacts) -> int:
    """Return how many groups may be replaced now by the start strategy, which counts added groups first."""
    if facts.state.start_strategy is None:
        return facts.starts
    added = facts.replicas_to_grow_to(max(facts.desired, _replicas_with_surge(facts))) - facts.stored.replicas
    return max(0, facts.starts - max(0, added))


def _partition(facts: RolloutFacts, starts: int) -> int:
    stored, desired = facts.stored, facts.desired
    safe, needed = facts.lowest_partitions(facts.allowance, starts)
    covered = stored.partition
    if not stored.is_current:
        # The new template only applies to new groups; existing groups are not touched before the next step.
        proposal = min(facts.kept, desired)
        covered = stored.replicas
        if facts.state.reached is not None and stored.observed:
            # The StatefulSet was lost during this rollout.
            proposal = min(proposal, facts.state.reached)
        elif facts.is_sole_group_due:
            proposal = 0
    elif facts.is_at_target or stored.replicas < desired:
        proposal = stored.partition
    elif stored.last_replicas not in (None, desired):
        proposal = min(stored.partition, facts.ceiling)
    else:
        proposal = min(stored.partition, _window(facts), needed)
    # A StatefulSet controller that has not reported yet would otherwise see two changes of the partition at
    # once. It could then delete leaders of the second change that this controller has not deleted yet.
    lowest = covered if stored.awaited else min(covered, safe)
    return max(proposal, lowest, facts.state.floor)


def _window(facts: RolloutFacts) -> int:
    """Return the lower end of upstream's window. The window has as many groups below the finished tail as the
    budget allows, less groups further down that are not ready. It extends over adjacent groups that are not
    ready or already updated, at no cost.
    """
    replicas = facts.stored.replicas
    step = facts.state.budget.unavailable + replicas - facts.desired
    tail = replicas
    while tail > 0 and facts.is_settled(tail - 1):
        tail -= 1
    lowest = max(0, tail - step)
    candidate = lowest + facts.unready_below(lowest)
    for index in reversed(range(lowest, min(candidate + 1, replicas))):
        if facts.is_serving_outdated(index):
            break
        candidate = index
    return candidate


def _replicas(facts: RolloutFacts, partition: int) -> int:
    stored, desired = facts.stored.replicas, facts.desired
    if stored < desired or facts.is_at_target:
        return facts.replicas_to_grow_to(desired)
    return facts.replicas_to_grow_to(facts.replicas_to_shrink_to(_replicas_with_surge(facts), partition))


def _replicas_with_surge(facts: RolloutFacts) -> int:
    """Return the desired groups plus the surge that outdated and unready groups among them still require."""
    unsettled = facts.desired
    if facts.stored.is_current:
        if not facts.is_any_outdated(facts.desired):
            return facts.desired
        unsettled = facts.unsettled_among(range(facts.desired))
    if unsettled > facts.state.budget.surge:
        return facts.ceiling
    return facts.desired + max(0, unsettled - facts.state.budget.unavailable)


def _paused_partition(facts: RolloutFacts) -> int:
    """Return the partition at which no group changes its revision. It is that of the lowest group on the
    target revision, so that lost groups below it are recreated on their own revision. No outdated group is at
    or above it.
    """
    stored = facts.stored
    updated = [index for index, group in facts.groups.items() if not group.outdated]
    outdated = [index for index, group in facts.groups.items() if group.outdated]
    if stored.is_current and not outdated:
        return stored.partition
    lowest = min((index for index in updated if index < stored.replicas), default=facts.kept)
    # After a rollback the low groups match the target: the groups above must not be replaced. Neither must
    # groups that have just been scaled away, still exist, and are desired again.
    staying = max(stored.replicas, facts.desired)
    return max([lowest, *(index + 1 for index in outdated if index < staying)])


def _paused_replicas(facts: RolloutFacts, partition: int) -> int:
    """Return the replicas of a paused rollout: scaling still works. The surge keeps its size, because the
    groups that it replaces may not be ready.
    """
    stored, desired = facts.stored, facts.desired
    if stored.replicas < desired:
        return facts.replicas_to_grow_to(desired)
    surge = stored.replicas - (desired if stored.last_replicas is None else stored.last_replicas)
    replicas = min(desired + max(0, surge), facts.ceiling)
    return facts.replicas_to_grow_to(facts.replicas_to_shrink_to(replicas, partition))


def leaders_to_replace(facts: RolloutFacts, partition: int, replicas: int, starts: int) -> tuple[int, ...]:
    """Return the leaders that the step to `partition` and `replicas` deletes, with their workers.

    These are
    - leaders that the StatefulSet controller deletes itself as soon as it sees the lower partition;
    - all other leaders of the window, once the controller has observed template and partition: before that it
      could recreate them on the old template. It would delete them one by one, or none behind a stuck one.
    Healthy leaders are deleted as far as the budget allows, broken ones always, at most `starts` in all.
    While the StatefulSet controller lags behind, nothing is deleted. A leader that was recreated on the old
    template is deleted again.
    """
    stored = facts.stored
    if not stored.observed:
        return ()
    replace: list[int] = []
    if stored.is_current:
        allowance = facts.allowance
        for index in _replaceable(facts, max(partition, stored.partition), replicas)[:starts]:
            costs = facts.is_ready(index)
            if allowance >= costs:
                replace.append(index)
                allowance -= costs
    if not stored.is_current or partition < stored.partition:
        replace += _deleted_by_controller(facts, partition, replicas, frozenset(replace))
    return tuple(replace)


def _replaceable(facts: RolloutFacts, start: int, end: int) -> list[int]:
    """Return outdated leaders of a range that would be recreated on the new revision, highest first.
    Terminating leaders are left out.
    """
    outdated = (facts.groups[index] for index in reversed(range(start, end)) if facts.is_outdated(index))
    # Until the new template is stored, the update revision of the StatefulSet is the old one.
    return [
        group.index
        for group in outdated
        if not group.terminating and (group.replaceable or not facts.stored.is_current)
    ]


def _deleted_by_controller(
    facts: RolloutFacts, partition: int, replicas: int, deleted: Container[int]
) -> list[int]:
    """Return leaders that the StatefulSet controller deletes once it sees `partition` and `replicas`.
    deleted: leaders that this step has deleted before. (Kubernetes 1.37, podManagementPolicy Parallel.
    Earlier releases with `maxUnavailable` delete the same leaders or fewer.)
    """
    candidates = [index for index in _replaceable(facts, partition, replicas) if index not in deleted]
    down = [
        index
        for index in range(replicas)
        if index in deleted or index not in facts.groups or not facts.groups[index].leader_ready
    ]
    if facts.stored.max_unavailable is not None:
        available = [index for index in candidates if index not in down]
        spared = available[max(0, facts.stored.max_unavailable - len(down)) :]
        return [index for index in candidates if index not in spared]
    # Without `maxUnavailable`, one at a time from the top, up to the first missing or starting leader.
    return [index for index in candidates[:1] if all(other <= index for other in down)]
