"""Describe why a rollout step is taken and what the next one waits for, in one line for logs and plans."""

from __future__ import annotations

from collections.abc import Iterable

from lws.leaderworkerset.rollout.state import Moment


def why_partition(moment: Moment, partition: int) -> str:
    """Why the partition changes; empty if it does not."""
    stored = moment.stored
    if not stored.is_current:
        return "there is a new revision: groups move to it from the highest index down"
    if partition > stored.partition:
        return f"groups below {partition} keep their revision: the partition of the set was raised"
    if partition == stored.partition:
        return ""
    moving = [index for index in range(partition, stored.partition) if moment.is_outdated(index)]
    if not moving:
        return f"groups from {partition} on are on the new revision, or come back on it"
    stay = max(0, moment.must_stay)
    return f"{named(moving)} may move to the new revision: {moment.ready} groups are ready, {stay} must stay"


def why_replicas(moment: Moment, replicas: int) -> str:
    """Why the number of groups changes; empty if it does not."""
    stored, wanted = moment.stored, moment.wanted
    if replicas == stored.replicas:
        return ""
    if replicas > max(stored.replicas, wanted):
        return f"{counted(replicas - wanted)} on top of {wanted} while outdated ones are replaced"
    if replicas > stored.replicas or stored.last_replicas not in (None, wanted):
        return f"scaled from {counted(stored.replicas)} to {replicas}"
    return f"{named(range(replicas, stored.replicas))} on top of {wanted} no longer needed"


def why_replace(moment: Moment, replace: tuple[int, ...]) -> str:
    """Which leaders this controller deletes, and which of them were not ready; empty for none."""
    healthy = [index for index in replace if moment.is_ready(index)]
    broken = [index for index in replace if not moment.is_ready(index)]
    parts = [f"replacing {named(healthy)}"] if healthy else []
    return "; ".join(parts + ([f"replacing {named(broken)}, not ready anyway"] if broken else []))


def waiting_for(moment: Moment, replicas: int) -> str:
    """What must happen before the next step; empty for nothing."""
    if moment.state.outdated and not moment.stored.observed:
        return "the StatefulSet controller to report on the last change"
    ready = moment.state.ready
    unready = [index for index in range(replicas) if index not in ready]
    return f"{named(unready)} to be ready" if unready else ""


def named(indices: Iterable[int]) -> str:
    """Groups by index: "group 3", "groups 0 to 2, 5"; at most five ranges; empty for none."""
    texts = runs(indices, " to ")
    if not texts or (len(texts) == 1 and texts[0].isdigit()):
        return "".join(f"group {text}" for text in texts)
    return f"groups {', '.join([*texts[:5], *['…'] * (len(texts) > 5)])}"


def runs(indices: Iterable[int], joint: str) -> list[str]:
    """Indices in order, as ranges: "0-2", "5"."""
    ranges: list[list[int]] = []
    for index in sorted(indices):
        if ranges and ranges[-1][-1] == index - 1:
            ranges[-1][1:] = [index]
        else:
            ranges.append([index])
    return [joint.join(map(str, bounds)) for bounds in ranges]


def counted(groups: int) -> str:
    """A number with its noun: "1 group", "4 groups"."""
    return f"{groups} group{'' if groups == 1 else 's'}"
