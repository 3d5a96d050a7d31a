"""Tests of the record of restarts: what is stored and read back, and how long the next restart waits."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lws import timing
from lws.leaderworkerset.group_records import (
    DELETING,
    KEPT,
    Members,
    Restarts,
    failed,
    inherited_restarts,
    is_used_up,
    mark_of,
    out_of_restarts,
    record_patch,
    restarts_of,
)
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from test.unit.builders import KEY, NOW, make_group, make_leader_pod, make_set

THEN = int(NOW.timestamp())


def a_set(status: Any = None, **spec: Any) -> dict[str, Any]:
    return {**make_set(**spec), "status": status}


def read(text: Any, key: str = KEY, now: datetime = NOW) -> Restarts:
    return restarts_of(a_set({"restarts": {"3": text}}), 3, make_leader_pod(key=key), now)


def test_record_round_trip() -> None:
    counted = Restarts(key=KEY).incremented(NOW)
    assert str(counted) == f"1.1.{THEN}.{KEY}"
    assert read(str(counted)) == counted
    again = counted.incremented(NOW + timedelta(seconds=10))
    assert again == Restarts(2, 2, THEN + 10, KEY)
    assert read(str(replace(again, key="k.e.y")), "k.e.y") == replace(again, key="k.e.y")


NUMBERS = f"1.1.{THEN}"
UNREADABLE: list[Any] = [
    None,
    7,
    ["1"],
    {},
    "",
    "1",
    "1.1",
    NUMBERS,
    f"-{NUMBERS}.{KEY}",
    f"1.x.{THEN}.{KEY}",
]


@pytest.mark.parametrize(
    "text", [*UNREADABLE, f"{'9' * 20}.{NUMBERS}", f"{NUMBERS}.{KEY} ", f"{NUMBERS}.other"]
)
def test_invalid_records_and_those_of_other_revisions_are_ignored(text: Any) -> None:
    restarts = read(text)
    assert restarts == Restarts(key=KEY)
    assert restarts.due <= NOW


@pytest.mark.parametrize(
    "status", [None, {}, {"restarts": None}, {"restarts": ["x"]}, {"restarts": {"4": "x"}}]
)
def test_no_restarts_without_a_status(status: Any) -> None:
    assert restarts_of(a_set(status), 3, make_leader_pod(), NOW) == Restarts(key=KEY)


def test_backoff_doubles_up_to_ten_minutes() -> None:
    restarts, waits = Restarts(key=KEY), []
    for _ in range(12):
        waits.append(max(0, int(restarts.due.timestamp()) - THEN))
        restarts = restarts.incremented(NOW)
    assert waits == [0, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600]


def test_the_stable_period_exceeds_the_longest_backoff() -> None:
    assert timing.RESTART_DELAY.longest < timing.STABLE_SECONDS, "else the longest wait would end the series"


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(timing.STABLE_SECONDS - 1, Restarts(5, 4, THEN, KEY), id="not yet stable"),
        pytest.param(timing.STABLE_SECONDS, Restarts(5, 0, 0, KEY), id="stable for exactly the period"),
        pytest.param(-30, Restarts(5, 4, THEN, KEY), id="slightly in the future"),
        pytest.param(-3600, Restarts(5, 0, 0, KEY), id="far in the future"),
    ],
)
def test_reset_of_the_backoff(later: int, expected: Restarts) -> None:
    restarts = read(f"5.4.{THEN}.{KEY}", now=NOW + timedelta(seconds=later))
    assert restarts == expected
    if not expected.consecutive:
        assert restarts.due == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_limit() -> None:
    for limit, count, expected in (
        (None, 99, False),
        (3, 2, False),
        (3, 3, True),
        (3, 4, True),
        (0, 0, True),
    ):
        lws = make_set(maxGroupRestarts=limit) if limit is not None else make_set()
        assert is_used_up(SetSpec.of(lws).max_group_restarts, Restarts(count)) is expected


def test_the_limit_of_the_template_is_upstreams() -> None:
    spec = SetSpec.of(make_set(template={"maxGroupRestarts": 0}))
    assert not is_used_up(spec.max_group_restarts, Restarts(9)) and spec.restart_budget == 0


@pytest.mark.parametrize(("own", "upstreams", "expected"), [(0, 5, True), (5, 0, False)])
def test_our_limit_takes_precedence_over_upstreams(own: int, upstreams: int, expected: bool) -> None:
    """Admission rejects one in addition to the other. A set that was stored without admission runs all the
    same.
    """
    lws = make_set(maxGroupRestarts=own, template={"maxGroupRestarts": upstreams})
    assert is_used_up(SetSpec.of(lws).max_group_restarts, Restarts(1)) is expected
    assert SetSpec.of(lws).restart_budget is None


def test_a_decision_applies_to_one_leader_only() -> None:
    leader, successor = make_leader_pod(index=3), make_leader_pod(index=3, uid="u-new")
    for mark in (DELETING, KEPT):
        lws = a_set(record_patch(3, leader, Restarts(1, 1, THEN, KEY), mark))
        assert lws["status"]["restarts"] == {"3": f"1.1.{THEN}.{KEY}"}
        assert (mark_of(lws, 3, leader), mark_of(lws, 3, successor), mark_of(lws, 2, leader)) == (
            mark,
            "",
            "",
        )
    lws = a_set({"members": {"3": str(Members.of(leader["metadata"]["uid"], ["w"]))}})
    assert mark_of(lws, 3, leader) == ""


def exhausted(count: int = 2, mark: str = KEPT, key: str = KEY) -> dict[str, Any]:
    return record_patch(1, make_leader_pod(index=1), Restarts(count, 1, THEN, key), mark)


@pytest.mark.parametrize(
    ("lws", "leader", "expected"),
    [
        pytest.param(a_set(exhausted(), maxGroupRestarts=2), {}, [1], id="exhausted"),
        pytest.param(a_set(exhausted(), maxGroupRestarts=3), {}, [], id="the limit was raised"),
        pytest.param(a_set(exhausted()), {}, [], id="the limit was lifted"),
        pytest.param(
            a_set(exhausted(), maxGroupRestarts=2), {"uid": "u-new"}, [], id="the leader was deleted"
        ),
        pytest.param(
            a_set(exhausted(), maxGroupRestarts=2), {"terminating": True}, [], id="it is being deleted"
        ),
        pytest.param(a_set(exhausted(key="old"), maxGroupRestarts=2), {}, [], id="another revision"),
        pytest.param(a_set(exhausted(mark=DELETING), maxGroupRestarts=2), {}, [], id="it is being restarted"),
        pytest.param(
            a_set(exhausted(), maxGroupRestarts=2, template={"restartPolicy": "None"}),
            {},
            [],
            id="no restarts",
        ),
        pytest.param(a_set(None, maxGroupRestarts=0), {}, [], id="nothing has failed"),
    ],
)
def test_exhausted_groups(lws: dict[str, Any], leader: dict[str, Any], expected: list[int]) -> None:
    groups = (make_group(index=0), make_group(index=1, **leader))
    assert list(out_of_restarts(SetSnapshot(lws, NOW, groups=groups))) == expected


FALSE = {"type": "Failed", "status": "False"}


@pytest.mark.parametrize(
    ("stored", "ids", "expected"),
    [
        pytest.param([], (), None, id="never"),
        pytest.param([FALSE], (), (False, "No group has used up its restarts"), id="no longer"),
        pytest.param([], ("3",), (True, "Group 3 has exceeded maxGroupRestarts"), id="one"),
        pytest.param([FALSE], ("3", "5"), (True, "Groups 3, 5 have exceeded"), id="two"),
        pytest.param(
            [],
            tuple(map(str, range(12))),
            (True, "Groups 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … have exceeded"),
            id="many",
        ),
    ],
)
def test_the_condition(
    stored: list[dict[str, Any]], ids: tuple[str, ...], expected: tuple[bool, str] | None
) -> None:
    conditions = [(condition.is_true, condition.message) for condition in failed(stored, ids)]
    assert len(conditions) == (expected is not None)
    if expected is not None:
        assert conditions[0][0] is expected[0] and conditions[0][1].startswith(expected[1])


def test_new_groups_inherit_the_records_with_the_most_restarts_of_their_revision() -> None:
    records = {"1": f"1.0.0.{KEY}", "2": f"3.0.0.{KEY}", "3": f"2.0.0.{KEY}", "4": "9.0.0.other", "5": "?"}
    lws = a_set({"restarts": records})
    patch = inherited_restarts(lws, [1], [(number, KEY) for number in (10, 11, 12)])
    assert patch == {"2": None, "10": records["2"], "3": None, "11": records["3"]}


def test_records_of_many_groups_are_inherited_in_linear_time() -> None:
    records = {str(number): f"{number % 5}.1.1.{KEY}" for number in range(4000)}
    begun = time.process_time()
    patch = inherited_restarts(a_set({"restarts": records}), [], [(10**6 + i, KEY) for i in range(4000)])
    assert len(patch) == 8000
    assert time.process_time() - begun < 0.5, "sorting the records for each group takes several times as long"
