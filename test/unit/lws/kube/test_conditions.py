"""lws.kube.conditions: find, set and remove a condition, and when the transition time changes."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from lws.kube.conditions import (
    Condition,
    find,
    is_true,
    moment_of,
    timestamp,
    with_condition,
    without_condition,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, 999999, tzinfo=UTC)
BEFORE = "2026-02-01T00:00:00Z"
JUST_NOW = "2026-03-01T12:00:00Z"

READY: dict[str, Any] = {
    "type": "Ready",
    "status": "True",
    "reason": "Fine",
    "message": "all is well",
    "lastTransitionTime": BEFORE,
    "observedGeneration": 1,
}
OTHER: dict[str, Any] = {"type": "Other", "status": "Unknown", "note": "kept as it is"}


@pytest.mark.parametrize(
    ("condition", "generation", "expected"),
    [
        pytest.param(Condition("Ready", True, "Fine", "all is well"), 1, {}, id="equal"),
        pytest.param(
            Condition("Ready", True, "Better", "now more"),
            2,
            {"reason": "Better", "message": "now more", "observedGeneration": 2},
            id="same status: time is kept",
        ),
        pytest.param(
            Condition("Ready", False, "Down", "gone"),
            1,
            {"status": "False", "reason": "Down", "message": "gone", "lastTransitionTime": JUST_NOW},
            id="turned: time moves",
        ),
    ],
)
def test_an_existing_condition_is_updated_in_place(
    condition: Condition, generation: int, expected: dict[str, Any]
) -> None:
    stored = [READY, OTHER]
    untouched = copy.deepcopy(stored)
    assert with_condition(stored, condition, generation, NOW) == [{**READY, **expected}, OTHER]
    assert stored == untouched


def test_a_new_condition_comes_last() -> None:
    added = with_condition([OTHER], Condition("Ready", True, "Fine", "all is well"), 1, NOW)
    assert added == [OTHER, {**READY, "lastTransitionTime": JUST_NOW}]
    assert with_condition(None, Condition("Ready", True, "Fine", "all is well"), 1, NOW) == added[1:]


def test_a_missing_transition_time_is_filled_in() -> None:
    stored = {key: value for key, value in READY.items() if key != "lastTransitionTime"}
    (filled,) = with_condition([stored], Condition("Ready", True, "Fine", "all is well"), 1, NOW)
    assert filled["lastTransitionTime"] == JUST_NOW


def test_find_and_is_true() -> None:
    assert find([OTHER, READY], "Ready") is READY
    assert find(None, "Ready") is None
    assert is_true([READY], "Ready")
    assert not is_true([OTHER], "Other"), "Unknown is not true"
    assert not is_true([], "Ready")


def test_without_condition() -> None:
    assert without_condition([READY, OTHER], "Ready") == [OTHER]
    assert without_condition([OTHER], "Ready") == [OTHER]


def test_timestamp_is_utc_in_whole_seconds() -> None:
    assert timestamp(NOW) == JUST_NOW
    assert timestamp(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"
    assert timestamp(NOW.astimezone(timezone(timedelta(hours=2)))) == JUST_NOW


def test_a_timestamp_is_parsed_if_valid() -> None:
    assert moment_of(JUST_NOW) == NOW.replace(microsecond=0)
    assert moment_of(None) is moment_of("") is moment_of("soon") is None


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_timestamp_at_an_end_of_the_calendar_counts_as_invalid(time: str) -> None:
    """A sum with it could leave the calendar."""
    assert moment_of(time) is None
