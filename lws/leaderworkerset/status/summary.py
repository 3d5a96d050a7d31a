"""Describe the state of each group, and why it is not ready on the target revision.

Status and commands give the same reasons. `status.groups` has counts, and a few of the groups that are not
where they should be; only coarse states, so that no pod costs a write of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.rollout.state import RolloutState

MOST_NAMED = 10
"""Groups that are named; of a set of thousands, nobody reads more."""

READY, OUTDATED = "Ready", "Outdated"
_BROKEN, _NOT_READY, _MISSING, _TERMINATING = "Broken", "NotReady", "Missing", "Terminating"
_WORST_FIRST = (_BROKEN, _NOT_READY, _MISSING, _TERMINATING, OUTDATED)
STATES = (READY, *_WORST_FIRST)
"""How a group may stand."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """How one group stands.

    state: one of the words that counts are kept by. reason: why it is not ready on the target revision, empty
    if it is.
    """

    index: int
    state: str
    reason: str

    @property
    def lacks_pods(self) -> bool:
        """Pods that it has, or should have, keep it from being ready."""
        return self.state in (_BROKEN, _NOT_READY)

    def __str__(self) -> str:
        return f"group {self.index}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Summary:
    """counts: groups in each state that any is in. unsettled: the worst first, at most MOST_NAMED."""

    counts: dict[str, int]
    unsettled: tuple[GroupStanding, ...]

    def stored(self, name: str) -> dict[str, Any]:
        """As `status.groups` has it; name: of the set."""
        named = [
            {"name": f"{name}-{each.index}", "state": each.state, "reason": each.reason}
            for each in self.unsettled
        ]
        made: dict[str, Any] = {"counts": self.counts, "unsettled": named}
        return {field: value for field, value in made.items() if value}


def what_holds_up(name: str, problems: str) -> str:
    """What of the problems of a set keeps its rollout from going on: its beginning, without the words of the
    API server; empty for nothing. name: of the set.
    """
    objects = rf"Pod {re.escape(name)}-\d+|StatefulSet {re.escape(name)}|ControllerRevision \S+"
    found = re.search(rf"cannot (create|update|delete) ({objects})(?=: )", problems)
    return found.group() if found is not None else ""


def summarise(
    groups: Iterable[GroupState], replicas: int, floor: int, paused: bool, held_up: str = ""
) -> Summary:
    """What the status says. replicas: groups that the user wants. floor: groups below this index keep their
    revision, and are where they should be. held_up: see `what_holds_up`.
    """
    standing = tuple(_stands(groups, replicas, floor, paused, held_up))
    states = Counter([state for _, state, _ in standing])
    unsettled = [
        (_WORST_FIRST.index(state), index, state, reason)
        for index, state, reason in standing
        if state != READY and not (state == OUTDATED and index < floor)
    ]
    named = (each[1:] for each in nsmallest(MOST_NAMED, unsettled))
    return Summary(dict(sorted(states.items())), tuple(GroupStanding(*each) for each in named))


def group_standings(rollout: RolloutState, held_up: str = "") -> tuple[GroupStanding, ...]:
    """Every group that is wanted or there, by index. held_up: see `what_holds_up`."""
    found = _stands(rollout.groups, rollout.replicas, rollout.floor, rollout.paused, held_up)
    return tuple(GroupStanding(*each) for each in found)


def _stands(
    groups: Iterable[GroupState], replicas: int, floor: int, paused: bool, held_up: str
) -> Iterator[tuple[int, str, str]]:
    known = {group.index: group for group in groups}
    for index in sorted({*range(replicas), *known}):
        group = known.get(index)
        if group is not None and group.settled:
            yield index, READY, ""
            continue
        state, reason = _stand(group)
        if state == OUTDATED and index < min(floor, replicas):
            reason = f"it keeps its revision: the partition is {floor}"
        elif state == OUTDATED and paused:
            reason = "the rollout is paused"
        elif state == OUTDATED and index >= replicas:
            reason = "it goes when the rollout is done"
        elif state == OUTDATED and held_up:
            reason = f"the rollout is held up, the API server refuses what is next: {held_up}"
        yield index, state, reason


def _stand(group: GroupState | None) -> tuple[str, str]:
    if group is None:
        return _MISSING, "it has no leader pod"
    if group.terminating:
        return _TERMINATING, "its leader pod is being deleted"
    if group.serves_outdated:
        return OUTDATED, "it waits for its turn in the rollout"
    return _BROKEN if group.broken else _NOT_READY, next(_lacking(group))


def _lacking(group: GroupState) -> Iterator[str]:
    if group.gate:
        yield f"waiting for scheduling gate {group.gate}"
    if not group.leader_ready:
        yield "its leader pod is not ready"
    if not group.formed:
        yield "it has no worker StatefulSet"
    yield "its workers are not ready"
