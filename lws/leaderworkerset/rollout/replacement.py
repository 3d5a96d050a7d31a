"""Which leaders must be deleted now, by us, so that a rollout does what it was planned to do?

In: a moment of a rollout, and the partition and replicas that the leader StatefulSet is about to be told.
Out: indices of leaders, highest first.
"""

from __future__ import annotations

from collections.abc import Container

from lws.leaderworkerset.rollout.state import Moment


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
