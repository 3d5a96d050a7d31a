"""Tests of which changes of a status may be delayed, and which never are."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.status.status import can_wait, has_shrunk, has_surged, is_first_status


def _condition(
    type_: str, status: str = "True", message: str = "1 of 4", reason: str = "Because"
) -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


WAITING = _condition("Available", "False")
STORED = {"readyReplicas": 1, "conditions": [_condition("Progressing"), WAITING]}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"readyReplicas": 2}, id="ready"),
        pytest.param({"replicas": 3, "updatedReplicas": 2}, id="counters"),
        pytest.param({"prewarm": {"ended": 3}}, id="nodes"),
        pytest.param(
            {"conditions": [_condition("Progressing", message="2 of 4"), WAITING]}, id="number-in-a-message"
        ),
        pytest.param(
            {"conditions": [_condition("Progressing"), _condition("Available", "False", reason="Other")]},
            id="why-something-does-not-hold",
        ),
    ],
)
def test_progress_can_wait(patch: dict[str, Any]) -> None:
    assert can_wait(STORED, patch)


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
        pytest.param({"prewarm": {"ended": 3, "completionTime": "2026-03-01T12:00:00Z"}}, id="nodes-done"),
        pytest.param({"anything": "else"}, id="unknown-field"),
    ],
)
def test_urgent_status_changes(patch: dict[str, Any]) -> None:
    assert not can_wait(STORED, patch)


PROGRESSING = _condition("Progressing")


@pytest.mark.parametrize(
    ("stored", "conditions", "expected"),
    [
        pytest.param({}, [PROGRESSING], True, id="groups are created"),
        pytest.param({}, [PROGRESSING, _condition("ReplicaFailure")], False, id="and something is wrong"),
        pytest.param(
            {}, [_condition("Progressing", "False"), _condition("Available")], False, id="all ready"
        ),
        pytest.param(
            {}, [_condition("UpdateInProgress"), PROGRESSING], False, id="in the middle of a rollout"
        ),
        pytest.param(STORED, [PROGRESSING], False, id="not the first"),
    ],
)
def test_first_status(stored: dict[str, Any], conditions: list[Any], expected: bool) -> None:
    assert is_first_status(stored, {"observedGeneration": 1, "conditions": conditions}) is expected


@pytest.mark.parametrize(
    ("before", "patch", "replicas", "expected"),
    [
        pytest.param(4, {"replicas": 2, "readyReplicas": 2}, 2, True, id="the last one too many is gone"),
        pytest.param(4, {"replicas": None}, 0, True, id="the last one of all"),
        pytest.param(4, {"replicas": 3}, 2, False, id="one more is deleted"),
        pytest.param(1, {"replicas": 2}, 2, False, id="has grown, which a condition reports"),
        pytest.param(2, {"readyReplicas": 2}, 2, False, id="as many as before"),
        pytest.param("4", {"replicas": 2}, 2, False, id="the former number is invalid"),
        pytest.param(None, {"replicas": 2}, 2, False, id="from nothing"),
    ],
)
def test_the_end_of_a_scale_down_is_detected(
    before: object, patch: dict[str, Any], replicas: int, expected: bool
) -> None:
    assert has_shrunk({"replicas": before}, patch, replicas) is expected


@pytest.mark.parametrize(
    ("before", "patch", "expected"),
    [
        pytest.param({"replicas": 4}, {"replicas": 6, "updatedReplicas": 2}, True, id="a surge"),
        pytest.param({"replicas": 5}, {"replicas": 6}, True, id="one more on top"),
        pytest.param({}, {"replicas": 5}, True, id="before the first status"),
        pytest.param({"replicas": 3}, {"replicas": 4}, False, id="as many as are desired"),
        pytest.param({"replicas": 6}, {"replicas": 5}, False, id="one surge group is deleted"),
        pytest.param({"replicas": 6}, {"replicas": None}, False, id="all go"),
        pytest.param({"replicas": 6}, {"readyReplicas": 5}, False, id="as many on top as before"),
        pytest.param({"replicas": 6, "updatedReplicas": 4}, {"updatedReplicas": 3}, True, id="needed again"),
        pytest.param({"replicas": 6, "updatedReplicas": 2}, {"updatedReplicas": 4}, False, id="not needed"),
        pytest.param({"replicas": 4, "updatedReplicas": 4}, {"updatedReplicas": 3}, False, id="no surge"),
        pytest.param({"replicas": "6"}, {"replicas": 5}, True, id="the former number is invalid"),
    ],
)
def test_a_surge_is_urgent(before: dict[str, Any], patch: dict[str, Any], expected: bool) -> None:
    assert has_surged(before, patch, 4) is expected
