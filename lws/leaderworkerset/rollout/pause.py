"""Where does a rollout stay while it is paused?

In: a moment of a rollout. Out: the partition and the number of groups to hold it at.
"""

from __future__ import annotations

from lws.leaderworkerset.rollout.state import Moment


def paused_position(moment: Moment) -> tuple[int, int]:
    """Partition and replicas of a paused rollout: no group moves to another revision, scaling goes on.

    The partition rises to the lowest group that is on the target revision already: a group below it that is
    lost comes back as it was. It never covers an outdated group. A surge stays as large as it is, because the
    groups it stands in for may be down.
    """
    partition = max(_partition(moment), moment.state.floor)
    return partition, _replicas(moment, partition)


def _partition(moment: Moment) -> int:
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


def _replicas(moment: Moment, partition: int) -> int:
    stored, wanted = moment.stored, moment.wanted
    if stored.replicas < wanted:
        return wanted
    surge = stored.replicas - (wanted if stored.last_replicas is None else stored.last_replicas)
    return moment.shrunk(min(wanted + max(0, surge), moment.ceiling), partition)
