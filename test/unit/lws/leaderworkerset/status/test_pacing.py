"""What waits for more of its kind, and what never does."""

from __future__ import annotations

from typing import Any

import pytest

from lws.actions import Reference, Status
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.state import Budget, Rollout, RolloutState
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.pacing import paced, status_delay
from test.unit.builders import NOW, make_set


def _condition(
    type_: str, status: str = "True", message: str = "1 of 4", reason: str = "Because"
) -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


WAITING = _condition("Available", "False")


def _delay(age: float | None, moving: int = 1, **patch: Any) -> float | None:
    lws = make_set()
    lws["status"] = {"readyReplicas": 1, "conditions": [_condition("Progressing"), WAITING]}
    snapshot = SetSnapshot(lws=lws, now=NOW, status_age=age, sets_moving=moving)
    return status_delay(snapshot, Status(Reference.to(lws), patch))


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"readyReplicas": 2}, id="ready"),
        pytest.param({"replicas": 3, "updatedReplicas": 2}, id="counters"),
        pytest.param(
            {"conditions": [_condition("Progressing", message="2 of 4"), WAITING]}, id="number-in-a-message"
        ),
        pytest.param(
            {"conditions": [_condition("Progressing"), _condition("Available", "False", reason="Other")]},
            id="why-something-does-not-hold",
        ),
    ],
)
def test_progress_is_told_every_few_seconds(patch: dict[str, Any]) -> None:
    assert _delay(0.25, **patch) == 4.75
    assert _delay(4.9999999, **patch) is None


def test_the_more_sets_move_the_less_each_of_them_tells() -> None:
    found = {moving: _delay(1.0, moving, readyReplicas=2) for moving in (1, 20, 60, 120, 200, 400)}
    assert found == {1: 4.0, 20: 4.0, 60: 14.0, 120: 29.0, 200: 49.0, 400: 59.0}
    assert _delay(1.0, 5000, conditions=[_condition("Available")]) is None, "nobody waits for what is true"


def test_the_first_status_of_a_process_is_written_at_once() -> None:
    assert _delay(None, readyReplicas=2) is None


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"conditions": [_condition("Available")]}, id="another-condition"),
        pytest.param({"conditions": [_condition("Progressing", "False")]}, id="condition-over"),
        pytest.param(
            {"conditions": [_condition("Progressing", reason="Other"), WAITING]}, id="why-something-holds"
        ),
        pytest.param({"readyReplicas": 4, "observedGeneration": 2}, id="generation"),
        pytest.param({"updateRevision": "demo-abc-2"}, id="revision"),
        pytest.param({"anything": "else"}, id="unknown-field"),
    ],
)
def test_what_somebody_waits_for_is_written_at_once(patch: dict[str, Any]) -> None:
    assert _delay(0.25, **patch) is None


def test_nothing_to_write_waits_for_nothing() -> None:
    assert _delay(0.25) is None


def _state(partition: int = 50, unavailable: int = 10, is_current: bool = True) -> RolloutState:
    stored = LeaderStatefulSet(replicas=100, partition=partition, is_current=is_current)
    return RolloutState(replicas=100, budget=Budget(unavailable, 0), statefulset=stored)


def test_a_few_groups_wait_for_more() -> None:
    rollout = Rollout(partition=47, replicas=100, replace=(52, 51, 49))
    step, delay = paced(_state(), rollout, 0.25)
    assert delay == 4.75
    # What the partition covers already is replaced now.
    assert step == Rollout(partition=47, replicas=100, replace=(52, 51))


@pytest.mark.parametrize(
    ("state", "rollout", "age"),
    [
        pytest.param(_state(), Rollout(43, 100), 0.25, id="most-of-the-budget"),
        pytest.param(_state(unavailable=1), Rollout(49, 100), 0.25, id="a-budget-of-one"),
        pytest.param(_state(), Rollout(47, 100), 4.9999999, id="some-time-has-passed"),
        pytest.param(_state(), Rollout(47, 100), None, id="nobody-knows-when"),
        pytest.param(_state(partition=3), Rollout(0, 100), 0.25, id="the-last-groups"),
        pytest.param(_state(), Rollout(47, 80), 0.25, id="scaled"),
        pytest.param(_state(is_current=False), Rollout(47, 100), 0.25, id="new-template"),
        pytest.param(_state(), Rollout(50, 100), 0.25, id="no-move"),
        pytest.param(_state(), Rollout(60, 100), 0.25, id="back-up"),
        pytest.param(RolloutState(100, Budget(10, 0)), Rollout(0, 100), 0.25, id="first"),
    ],
)
def test_every_other_step_is_taken_at_once(state: RolloutState, rollout: Rollout, age: float | None) -> None:
    assert paced(state, rollout, age) == (rollout, None)
