"""How do the groups of a set stand, and why is one not where it should be?

In: the state of every group that has a leader pod. Out: how each group stands, with the reason that both the
status and the commands give; and `status.groups`: counts, and a few of those that are not where they
should be. Only coarse states, so that no pod costs a write of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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

    state: one of the words that counts are kept by. reason: why it is not ready on the wanted revision, empty
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


def summarise(groups: Iterable[GroupState], replicas: int, floor: int, paused: bool) -> Summary:
    """What the status says. replicas: groups that the user wants. floor: groups below this index keep their
    revision, and are where they should be.
    """
    states: Counter[str] = Counter()
    unsettled: list[GroupStanding] = []
    for index, state, reason in _stands(groups, replicas, floor, paused):
        states[state] += 1
        if state != READY and not (state == OUTDATED and index < floor):
            unsettled.append(GroupStanding(index, state, reason))
    unsettled.sort(key=lambda each: (_WORST_FIRST.index(each.state), each.index))
    return Summary(dict(sorted(states.items())), tuple(unsettled[:MOST_NAMED]))


def group_standings(rollout: RolloutState) -> tuple[GroupStanding, ...]:
    """Every group that is wanted or there, by index."""
    found = _stands(rollout.groups, rollout.replicas, rollout.floor, rollout.paused)
    return tuple(GroupStanding(*each) for each in found)


def _stands(
    groups: Iterable[GroupState], replicas: int, floor: int, paused: bool
) -> Iterator[tuple[int, str, str]]:
    known = {group.index: group for group in groups}
    for index in sorted({*range(replicas), *known}):
        state, reason = _stand(known.get(index))
        if state == OUTDATED and index < min(floor, replicas):
            reason = f"it keeps its revision: the partition is {floor}"
        elif state == OUTDATED and paused:
            reason = "the rollout is paused"
        elif state == OUTDATED and index >= replicas:
            reason = "it goes when the rollout is done"
        yield index, state, reason


def _stand(group: GroupState | None) -> tuple[str, str]:
    if group is None:
        return _MISSING, "it has no leader pod"
    if group.settled:
        return READY, ""
    if group.terminating:
        return _TERMINATING, "its leader pod is being deleted"
    if group.serves_outdated:
        return OUTDATED, "it waits for its turn in the rollout"
    return _BROKEN if group.broken else _NOT_READY, next(_lacking(group))


def _lacking(group: GroupState) -> Iterator[str]:
    if not group.leader_ready:
        yield "its leader pod is not ready"
    if not group.formed:
        yield "it has no worker StatefulSet"
    yield "its workers are not ready"
