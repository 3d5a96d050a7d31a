"""The notation of groups in tables and stories: one letter per index, from index 0 on.

r ready, old      x not ready, old      t terminating, old      - missing
R ready, new      u not ready, new      T terminating, new
"""

from __future__ import annotations

from collections.abc import Iterable

from lws.leaderworkerset.rollout.groups import GroupState


def groups(letters: str) -> tuple[GroupState, ...]:
    """Return the group states of the letters. If a group is not ready, its leader is not."""
    return tuple(_group(index, letter) for index, letter in enumerate(letters) if letter != "-")


def letters_of(states: Iterable[GroupState], count: int) -> str:
    """Return the letters of groups 0 to `count` - 1."""
    by_index = {state.index: state for state in states}
    return "".join(_letter(by_index.get(index)) for index in range(count))


def _group(index: int, letter: str) -> GroupState:
    ready, old = letter in "rR", letter in "rxt"
    return GroupState(
        index=index,
        ready=ready,
        outdated=old,
        terminating=letter in "tT",
        leader_ready=ready,
        replaceable=old,
    )


def _letter(state: GroupState | None) -> str:
    if state is None:
        return "-"
    if state.terminating:
        return "t" if state.outdated else "T"
    ready, unready = ("r", "x") if state.outdated else ("R", "u")
    return ready if state.ready else unready
