"""Tests that a planner that breaks one rule is caught by the promise that belongs to the rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lws.disaggregatedset.rollout import drain, planner
from lws.disaggregatedset.rollout.drain import Drain
from lws.disaggregatedset.rollout.state import Count, SliceState
from test.unit.stories.disaggregated.days import play

MOST_SEEDS = 4000


def oldest_first(self: Drain, planned: Mapping[str, int]) -> Drain:
    for role in self.state.roles:
        self.to_delete[role.name] = self.state.old_desired(role.name) - planned[role.name]
    for revision in reversed(self.state.old):
        self._lower(revision)
    return self


def trusting(self: Count) -> int:
    """Count every desired group as ready."""
    return self.desired


def refilled(self: Drain) -> dict[str, dict[str, int]]:
    """Create the missing roles of a partial revision again."""
    changes = drain_lowered(self)
    halves = {
        r: 1 for revision in self.state.old for r, c in revision.counts.items() if not c.desired and c.initial
    }
    return {**changes, **({self.state.old[0].key: halves} if halves else {})}


drain_lowered = Drain.lowered.fget  # type: ignore[attr-defined]


def to_nothing(slice_state: SliceState) -> dict[str, int]:
    roles = slice_state.roles
    return {role.name: 0 for role in roles if slice_state.new.of(role.name).desired > role.target}


next_old = planner.Proportions.next_old


def never(*_: Any) -> None:
    return None


MUTANTS = {
    "groups that terminate are no surge": (planner, "_has_room", lambda *_: True, "surge"),
    "old groups cost nothing": (Count, "cost", lambda *_: 0, "floor"),
    "every group counts as ready": (Count, "serving", property(trusting), "floor"),
    "there is no floor": (SliceState, "min_ready", lambda *_: -99, "floor"),
    "groups that start count as broken": (Count, "once_started", property(lambda self: self), "floor"),
    "groups that start do not hold up the last resort": (SliceState, "old_starting", lambda *_: 0, "floor"),
    "a lost child is recreated with its initial groups": (
        drain,
        "_count",
        lambda state, role, count, revision: count.initial or 0,
        "direction",
    ),
    "a role may be deleted alone": (Drain, "_has_siblings", lambda *_: False, "pairs"),
    "new roles are created one by one": (planner, "_would_be_partial", lambda *_: False, "pairs"),
    "all new groups are created at once": (
        planner.Proportions,
        "next_new",
        lambda self, _: tuple(role.target for role in self.roles),
        "ratio",
    ),
    "old groups are deleted as fast as the floor allows": (
        planner.Proportions,
        "next_old",
        lambda self, old: tuple(0 for _ in old),
        "ratio",
    ),
    "old groups are deleted two steps at a time": (
        planner.Proportions,
        "next_old",
        lambda self, old: next_old(self, next_old(self, old)),
        "ratio",
    ),
    "the oldest revision is deleted first": (Drain, "to", oldest_first, "direction"),
    "missing roles of old revisions are recreated": (Drain, "lowered", property(refilled), "direction"),
    "new counts fall too far": (planner, "_shrunk", to_nothing, "direction"),
    "new counts never shrink": (planner, "_shrunk", lambda *_: {}, "end"),
    "nothing makes room": (planner, "_exchange", never, "end"),
    "the last group of a role is never deleted": (planner, "_last_of_a_role", never, "end"),
    "broken groups block": (planner, "_past_broken_groups", never, "end"),
    "unready is done": (planner, "is_settled", lambda *_: True, "end"),
    "waiting says nothing": (planner, "still_waiting_for", lambda *_: "", "end"),
    "revisions are deleted early": (
        planner,
        "_existing",
        lambda revision: [count.desired for count in revision.counts.values()],
        "surge",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, replacement, promise = MUTANTS[name]
    monkeypatch.setattr(target, attribute, replacement)
    caught = set()
    for seed in range(MOST_SEEDS):
        try:
            play(seed)
        except AssertionError as error:
            caught.add(str(error).partition(":")[0])
            if promise in caught:
                return
    raise AssertionError(f"{name} broke only {caught or 'nothing'}")
