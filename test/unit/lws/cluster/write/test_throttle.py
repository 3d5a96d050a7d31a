"""What waits for more of its kind, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from lws.actions import Apply, Delete, Merge, Plan, Postponable, Reference, Status
from lws.cluster.write import throttle as module
from lws.cluster.write.throttle import Throttle

SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-set")
LEADERS = Reference("apps/v1", "StatefulSet", "ns", "demo", "u-leaders")
WRITTEN = {"kind": "LeaderWorkerSet", "metadata": {"uid": "u-set"}}
STEPPED = {"kind": "StatefulSet", "metadata": {"uid": "u-leaders"}}

REMEMBER = Merge(SET, {"status": {"rollout": {}}}, "the rollout goes on", subresource="status")
COVERED, NEXT = (
    Delete(Reference("v1", "Pod", "ns", f"demo-{index}", f"u-{index}"), "Foreground", "it moves")
    for index in (5, 4)
)
STEP = Apply({"kind": "StatefulSet"}, why="partition 4", uid="u-leaders")


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def throttle(now: list[float]) -> Throttle:
    return Throttle(lambda: now[0])


def _status(can_wait: bool = True) -> Plan:
    return Plan(statuses=(Status(SET, {"readyReplicas": 2}, can_wait=can_wait),))


def test_progress_is_told_every_few_seconds(throttle: Throttle, now: list[float]) -> None:
    throttle.note(WRITTEN)
    now[0] += 0.25
    assert throttle.due(_status()) == Plan(again_after=4.75)
    now[0] = 104.9999999
    assert throttle.due(_status()) == _status()


@pytest.mark.parametrize(("kind", "waits"), [("LeaderWorkerSet", 9.0), ("Another", None)])
def test_kinds_have_a_pace_of_their_own(now: list[float], kind: str, waits: float | None) -> None:
    throttle = Throttle(lambda: now[0], {kind: 15.0})
    throttle.note(WRITTEN)
    now[0] += 6.0
    assert throttle.due(_status()).again_after == waits


def test_what_cannot_wait_is_written_at_once(throttle: Throttle) -> None:
    throttle.note(WRITTEN)
    assert throttle.due(_status(can_wait=False)) == _status(can_wait=False)


def test_the_first_status_of_a_process_is_written_at_once(throttle: Throttle) -> None:
    assert throttle.due(_status()) == _status()


def test_what_others_remember_in_the_status_does_not_put_it_off_for_ever(
    throttle: Throttle, now: list[float]
) -> None:
    """Groups that restart one after the other, each with a write of its own."""
    throttle.note(WRITTEN)
    written = 0
    for _ in range(20):
        now[0] += 4.0
        if throttle.due(_status()).statuses:
            written += 1
            throttle.note(WRITTEN)
        throttle.note(WRITTEN)
    assert written == 10, "every 8 s: the first look after 5 s"


def test_a_status_that_was_written_waits_anew(throttle: Throttle, now: list[float]) -> None:
    throttle.note(WRITTEN)
    now[0] += 1.0
    assert throttle.due(_status()) == Plan(again_after=4.0)
    assert throttle.due(_status(can_wait=False)).statuses
    throttle.note(WRITTEN)
    now[0] += 1.0
    assert throttle.due(_status()) == Plan(again_after=4.0)


def test_a_pass_that_comes_sooner_anyway_stays_where_it_is(throttle: Throttle) -> None:
    throttle.note(WRITTEN)
    status = _status().statuses
    assert throttle.due(Plan(statuses=status, again_after=1.0)) == Plan(again_after=1.0)
    assert throttle.due(Plan(statuses=status, again_after=30.0)) == Plan(again_after=5.0)


def test_the_more_sets_move_the_less_each_of_them_tells(throttle: Throttle, now: list[float]) -> None:
    found = {}
    for moving in (1, 20, 60, 120, 200, 400):
        for other in range(1, moving):
            throttle.note({"kind": "LeaderWorkerSet", "metadata": {"uid": f"u-{other}"}})
        assert throttle.due(_status(can_wait=False)).statuses
        throttle.note(WRITTEN)
        now[0] += 1.0
        found[moving] = throttle.due(_status()).again_after
    assert found == {1: 4.0, 20: 4.0, 60: 14.0, 120: 29.0, 200: 49.0, 400: 59.0}
    assert throttle.due(_status(can_wait=False)).statuses, "nobody waits for what is true"


def test_sets_move_whose_status_was_written_in_the_last_minute(throttle: Throttle, now: list[float]) -> None:
    for seconds, uid in ((0.0, "u-set"), (10.0, "b"), (20.0, "u-set")):
        now[0] = 100.0 + seconds
        throttle.note({"kind": "LeaderWorkerSet", "metadata": {"uid": uid}})
        throttle.note(STEPPED)
    assert throttle._sets_moving() == 2, "each counts once, and its StatefulSets do not"
    now[0] = 170.5
    assert throttle._sets_moving() == 1
    now[0] = 180.5
    assert throttle._sets_moving() == 0


def test_only_the_latest_writes_are_remembered(throttle: Throttle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITTEN", 1)
    throttle.note(WRITTEN)
    assert throttle.due(_status()).statuses == ()
    throttle.note({"kind": "LeaderWorkerSet", "metadata": {"uid": "u-other"}})
    assert not throttle._waiting, "nor is that anything waits"
    assert throttle.due(_status()) == _status()


def _step(**more: Any) -> Plan:
    sequence = (REMEMBER, COVERED, NEXT, STEP)
    return Plan((sequence,), postponable=(Postponable(LEADERS, (REMEMBER, NEXT, STEP)),), **more)


def test_a_few_groups_wait_for_more(throttle: Throttle, now: list[float]) -> None:
    throttle.note(STEPPED)
    now[0] += 0.25
    due = throttle.due(_step())
    # What the partition covers already is replaced now.
    assert (due.sequences, due.again_after) == (((COVERED,),), 4.75)
    now[0] = 104.9999999
    assert throttle.due(_step()) == _step()


def test_a_step_is_taken_where_nobody_knows_when_the_last_one_was(throttle: Throttle) -> None:
    assert throttle.due(_step()) == _step()


def test_every_other_step_is_taken_at_once(throttle: Throttle) -> None:
    throttle.note(STEPPED)
    planned = Plan(((REMEMBER, NEXT, STEP),))
    assert throttle.due(planned) == planned


def test_a_step_that_is_taken_brings_the_status_along(throttle: Throttle, now: list[float]) -> None:
    """It writes the status anyway: what must be remembered is there."""
    (status,) = _status().statuses
    throttle.note(WRITTEN)
    now[0] += 1.0
    assert throttle.due(_step(statuses=(status,))).statuses == (status,)
    throttle.note(STEPPED)
    assert throttle.due(_step(statuses=(status,))).statuses == (), "one that waits does not"
