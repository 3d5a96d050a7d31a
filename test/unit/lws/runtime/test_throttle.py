"""lws.runtime.throttle: which writes are postponed, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws import timing
from lws.runtime import costs
from lws.runtime import throttle as module
from lws.runtime.actions import Announce, Apply, Delete, Merge, Plan, Postponable, Reference, Status
from lws.runtime.throttle import ActiveSets, Throttle

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


def _spend(throttle: Throttle, obj: dict[str, Any]) -> None:
    """Use up the burst, so that everything afterwards is delayed."""
    for _ in range(3 + int(timing.STEP_BURST_SECONDS / costs.STEP.pace(0))):
        throttle.record_write(obj)


@pytest.mark.parametrize(("groups", "seconds"), [(1, 5.0), (2, 2.5), (40, 1.66), (100, 2.0), (1000, 5.0)])
def test_progress_is_reported_as_often_as_its_cost_allows(
    throttle: Throttle, now: list[float], groups: int, seconds: float
) -> None:
    throttle.record_write({**WRITTEN, "spec": {"replicas": groups}})
    now[0] += 0.25
    assert throttle.due(_status()) == Plan(again_after=pytest.approx(seconds - 0.25, abs=0.01))
    now[0] += seconds - 0.25
    assert throttle.due(_status()) == _status()


@pytest.mark.parametrize("replicas", [None, "40", {"a": 1}, True, -1])
def test_an_invalid_set_is_throttled(throttle: Throttle, replicas: Any) -> None:
    for _ in range(100):
        throttle.record_write({**WRITTEN, "spec": {"replicas": replicas}})
    assert throttle.due(_status()).again_after == pytest.approx(costs.status_pause(0))


@pytest.mark.parametrize("groups", [1, 40, 400, 5000])
def test_steps_of_larger_sets_wait_longer(throttle: Throttle, now: list[float], groups: int) -> None:
    for _ in range(100):
        throttle.record_write({**STEPPED, "spec": {"replicas": groups}})
    # However many came before it: steps that cannot wait delay the next one by no more than its own pace.
    assert throttle.due(_step()).again_after == pytest.approx(costs.STEP.pace(groups))


@pytest.mark.parametrize(("kind", "waits"), [("LeaderWorkerSet", 9.0), ("Another", None)])
def test_each_kind_has_its_own_delays(now: list[float], kind: str, waits: float | None) -> None:
    throttle = Throttle(lambda: now[0], {kind: 15.0})
    throttle.record_write(WRITTEN)
    now[0] += 6.0
    assert throttle.due(_status()).again_after == waits


def test_urgent_statuses_are_written_at_once(throttle: Throttle) -> None:
    throttle.record_write(WRITTEN)
    assert throttle.due(_status(can_wait=False)) == _status(can_wait=False)


def test_the_first_status_of_a_process_is_written_at_once(throttle: Throttle) -> None:
    assert throttle.due(_status()) == _status()


def _event(reason: str) -> Announce:
    return Announce(SET, reason, "Update", f"it is {reason}")


def _first(*announce: Announce) -> Plan:
    return Plan(statuses=(Status(SET, {"conditions": []}, announce, is_first=True),))


def test_the_first_status_of_a_set_waits_for_its_result(throttle: Throttle, now: list[float]) -> None:
    begun = _event("GroupsProgressing")
    assert throttle.due(_first(begun)) == Plan(announce=(begun,), again_after=2.0), (
        "Events are written at once"
    )
    now[0] += 0.5
    assert throttle.due(_first(begun)) == Plan(again_after=1.5), "and once"
    done = _event("AllGroupsReady")
    ready = Plan(statuses=(Status(SET, {"conditions": []}, (done,)),))
    assert throttle.due(ready) == ready, "ready groups are reported at once"
    throttle.record_write(WRITTEN)
    assert throttle.due(ready) == ready, "the decision about one status does not apply to the next"


def test_the_first_status_is_written_after_two_seconds_without_duplicate_events(
    throttle: Throttle, now: list[float]
) -> None:
    begun, other = _event("GroupsProgressing"), _event("SomethingElse")
    throttle.due(_first(begun))
    now[0] += 2.0
    assert throttle.due(_first(begun, other)) == _first(other)


def test_first_statuses_wait_longer_with_more_new_sets(throttle: Throttle) -> None:
    for number in range(19):
        target = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", f"u-{number}")
        throttle.due(Plan(statuses=(Status(target, {}, is_first=True),)))
    assert throttle.due(_first()).again_after == 5.0


def test_records_of_groups_do_not_delay_a_status_indefinitely(throttle: Throttle, now: list[float]) -> None:
    """Groups restart one after the other, each with a separate write."""
    throttle.record_write(WRITTEN)
    written = 0
    for _ in range(20):
        now[0] += 4.0
        if throttle.due(_status()).statuses:
            written += 1
            throttle.record_write(WRITTEN)
        throttle.record_write(WRITTEN)
    assert written == 10, "every 8 s: the first look after 5 s"


def test_the_delay_of_a_status_starts_again_after_a_write(throttle: Throttle, now: list[float]) -> None:
    throttle.record_write(WRITTEN)
    now[0] += 1.0
    assert throttle.due(_status()) == Plan(again_after=4.0)
    assert throttle.due(_status(can_wait=False)).statuses
    throttle.record_write(WRITTEN)
    now[0] += 1.0
    assert throttle.due(_status()) == Plan(again_after=4.0)


def test_an_earlier_requeue_is_not_changed(throttle: Throttle) -> None:
    throttle.record_write(WRITTEN)
    status = _status().statuses
    assert throttle.due(Plan(statuses=status, again_after=1.0)) == Plan(again_after=1.0)
    assert throttle.due(Plan(statuses=status, again_after=30.0)) == Plan(again_after=5.0)


def test_sets_write_fewer_statuses_with_more_active_sets(throttle: Throttle, now: list[float]) -> None:
    delays = {}
    for moving in (1, 20, 60, 120, 200, 400):
        for number in range(1, moving):
            throttle.record_write({"kind": "LeaderWorkerSet", "metadata": {"uid": f"u-{number}"}})
        assert throttle.due(_status(can_wait=False)).statuses
        throttle.record_write(WRITTEN)
        now[0] += 1.0
        delays[moving] = throttle.due(_status()).again_after
    assert delays == {1: 4.0, 20: 4.0, 60: 14.0, 120: 29.0, 200: 49.0, 400: 59.0}
    assert throttle.due(_status(can_wait=False)).statuses, "no client waits for the condition"


def test_a_set_is_active_for_a_minute_after_a_status_write(throttle: Throttle, now: list[float]) -> None:
    for seconds, uid in ((0.0, "u-set"), (10.0, "b"), (20.0, "u-set")):
        now[0] = 100.0 + seconds
        throttle.record_write({"kind": "LeaderWorkerSet", "metadata": {"uid": uid}})
        throttle.record_write(STEPPED)
    assert throttle._count_active() == 2, "each set counts once and its StatefulSets do not"
    now[0] = 170.5
    assert throttle._count_active() == 1
    now[0] = 180.5
    assert throttle._count_active() == 0


def test_only_the_latest_writes_are_remembered(throttle: Throttle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITTEN", 1)
    throttle.record_write(WRITTEN)
    assert throttle.due(_status()).statuses == ()
    throttle.record_write({"kind": "LeaderWorkerSet", "metadata": {"uid": "u-other"}})
    assert not throttle._waiting, "reasons for waiting are not delayed either"
    assert throttle.due(_status()) == _status()


def _step(**more: Any) -> Plan:
    sequence = (REMEMBER, COVERED, NEXT, STEP)
    return Plan((sequence,), postponable=(Postponable(LEADERS, (REMEMBER, NEXT, STEP)),), **more)


def test_small_steps_wait_for_more_groups(throttle: Throttle, now: list[float]) -> None:
    _spend(throttle, STEPPED)
    plan = throttle.due(_step())
    # Groups that the current partition covers already are replaced now.
    assert plan.sequences == ((COVERED,),)
    assert plan.again_after is not None
    now[0] += plan.again_after - 1e-7
    assert throttle.due(_step()) == _step()


def test_steps_of_a_set_of_forty_groups_are_not_delayed(throttle: Throttle, now: list[float]) -> None:
    """Four slots and groups that take 8 to 16 s: a step every three seconds, sometimes three at once."""
    stepped = {**STEPPED, "spec": {"replicas": 40}}
    for pause in (3.0, 0.1, 0.1, 5.0, 3.0, 2.0, 0.2, 3.0, 3.0) * 10:
        now[0] += pause
        assert throttle.due(_step()) == _step()
        throttle.record_write(stepped)


def test_a_step_is_not_delayed_if_the_last_one_is_unknown(throttle: Throttle) -> None:
    assert throttle.due(_step()) == _step()


def test_other_steps_are_not_delayed(throttle: Throttle) -> None:
    _spend(throttle, STEPPED)
    planned = Plan(((REMEMBER, NEXT, STEP),))
    assert throttle.due(planned) == planned


def test_a_step_writes_the_status_too(throttle: Throttle, now: list[float]) -> None:
    """The step has to write the status anyway, because the status holds its record."""
    (status,) = _status().statuses
    throttle.record_write(WRITTEN)
    assert throttle.due(_step(statuses=(status,))).statuses == (status,)
    _spend(throttle, STEPPED)
    assert throttle.due(_step(statuses=(status,))).statuses == (), "a delayed status does not count"


def test_a_status_that_another_client_overwrote_is_restored_at_once(now: list[float]) -> None:
    edited = {"replicas": 9}
    throttle = Throttle(lambda: now[0], is_edited=lambda status: status.before == edited)
    throttle.record_write(WRITTEN)
    status = Status(SET, {"replicas": 2}, can_wait=True)
    assert throttle.due(Plan(statuses=(replace(status, before={}),))).statuses == ()
    urgent = Plan(statuses=(replace(status, before=edited),))
    assert throttle.due(urgent) == urgent


def test_a_status_that_keeps_being_overwritten_is_restored_with_a_backoff(now: list[float]) -> None:
    edited = Plan(statuses=(Status(SET, {"conditions": []}, before={}),))
    throttle, answers = Throttle(lambda: now[0], is_edited=lambda status: True), 0
    for _ in range(60_000):
        now[0] += 0.02
        if throttle.due(edited).statuses:
            answers += 1
            throttle.record_write(WRITTEN)
    assert answers <= 90, "20 minutes"
    wait = throttle.due(edited).again_after
    assert wait is None or 0 < wait <= timing.STATUS_RESTORE.longest
    now[0] += timing.ACTIVE_SET_SECONDS + timing.STATUS_RESTORE.longest
    assert throttle.due(edited).statuses == throttle.due(edited).statuses != (), "a failed write is repeated"
    throttle.record_write(WRITTEN)
    assert 0 < (throttle.due(edited).again_after or 0) <= timing.STATUS_RESTORE.first
    throttle.forget(SET.uid)
    assert throttle.due(edited).statuses


def test_records_of_deleted_objects_are_dropped(throttle: Throttle, now: list[float]) -> None:
    throttle.record_write(WRITTEN)
    assert throttle.due(_status()).again_after is not None
    throttle.forget("u-set")
    throttle.forget("u-set")
    assert throttle.due(_status()) == _status()
    assert not throttle._waiting and not throttle._active


def test_active_sets_of_all_shards_are_counted(now: list[float]) -> None:
    active = ActiveSets()
    first, second = (Throttle(lambda: now[0], active=active) for _ in range(2))
    for number in range(400):
        second.record_write({**WRITTEN, "metadata": {"uid": f"u-{number}"}})
    first.record_write(WRITTEN)
    now[0] += 10.0
    assert first.due(_status()).again_after is not None
