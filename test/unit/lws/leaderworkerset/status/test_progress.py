"""Tests of when the progress deadline of a set restarts, and of when it has expired."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.pods import NodeWait
from lws.leaderworkerset.status.problems import Pace, stalled_condition
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE
from test.unit.builders import NOW, make_set

JUST_NOW, BEFORE = "2026-03-01T12:00:00Z", "2026-03-01T11:55:00Z"
FAR_AHEAD = "9999-12-31T23:59:59Z"
PACE = Pace(deadline=600, now=NOW, is_progressing=True, is_paused=False, has_moved=False, settled=2)
PROGRESSING = [{"type": "Progressing", "status": "True"}]
STORED = {
    "lastProgressTime": BEFORE,
    "groups": {"counts": {"Ready": 2}},
    "conditions": PROGRESSING,
    "observedGeneration": 1,
}
AFTER_REST = {**STORED, "conditions": []}


def waited(since: float, until: float | None = None, gate: str = "") -> NodeWait:
    """Return the wait of a pod that was created, and got its node, this many seconds ago."""
    ago = [NOW - timedelta(seconds=seconds) if seconds is not None else None for seconds in (since, until)]
    assert ago[0] is not None
    return NodeWait(ago[0], ago[1], gate)


@pytest.mark.parametrize(
    ("pace", "stored", "last"),
    [
        pytest.param({}, STORED, BEFORE, id="no change"),
        pytest.param({"settled": 3}, STORED, JUST_NOW, id="one more group is settled"),
        pytest.param({"settled": 1}, STORED, BEFORE, id="one less is no progress"),
        pytest.param({"has_moved": True}, STORED, JUST_NOW, id="a step"),
        pytest.param({}, {**STORED, "observedGeneration": 0}, JUST_NOW, id="a new spec"),
        pytest.param({}, AFTER_REST, JUST_NOW, id="the first trouble after rest"),
        pytest.param({"is_progressing": False}, AFTER_REST, BEFORE, id="at rest"),
        pytest.param({"is_progressing": False, "settled": 3}, STORED, JUST_NOW, id="it has come to rest"),
        pytest.param({}, {}, JUST_NOW, id="status lost"),
        pytest.param({}, {**STORED, "lastProgressTime": None}, JUST_NOW, id="the time lost"),
        pytest.param({}, {**STORED, "lastProgressTime": FAR_AHEAD}, JUST_NOW, id="a time that cannot be"),
        pytest.param({}, {**STORED, "lastProgressTime": "3026-03-01T12:00:00Z"}, JUST_NOW, id="future"),
        pytest.param({}, {**STORED, "lastProgressTime": "yesterday"}, JUST_NOW, id="garbled"),
        pytest.param({"is_progressing": False, "settled": 0}, {}, None, id="no groups wanted"),
        pytest.param({"is_progressing": False}, {}, JUST_NOW, id="all ready by the first status"),
        pytest.param({"is_progressing": False}, {"readyReplicas": 2}, None, id="at rest, status not kept"),
        pytest.param({"settled": 1}, {**STORED, "groups": {}}, JUST_NOW, id="the first group"),
    ],
)
def test_last_progress(pace: dict[str, Any], stored: dict[str, Any], last: str | None) -> None:
    assert replace(PACE, **pace).last_progress(make_set(status=stored)) == last


@pytest.mark.parametrize(
    ("pace", "last", "due_in"),
    [
        pytest.param({}, BEFORE, 300, id="half of it is over"),
        pytest.param({"is_paused": True}, FAR_AHEAD, None, id="paused since a time that cannot be"),
        pytest.param({"deadline": 2**31 - 1}, "0001-01-01T00:00:00Z", None, id="a time before all"),
        pytest.param({"deadline": 300}, BEFORE, 0, id="it is over"),
        pytest.param({"deadline": 1}, BEFORE, 0, id="overdue for long"),
        pytest.param({"is_progressing": False}, BEFORE, None, id="at rest"),
        pytest.param({"is_paused": True}, BEFORE, None, id="paused"),
        pytest.param({"is_prewarming": True}, BEFORE, None, id="prewarming"),
        pytest.param({}, None, None, id="nothing known"),
        pytest.param({}, "yesterday", None, id="garbled"),
        pytest.param({}, "2026-03-01T13:55:00+02:00", 300, id="of another time zone"),
        pytest.param({"deadline": None}, BEFORE, None, id="no deadline"),
        pytest.param({"waits": (waited(400),)}, BEFORE, 600, id="a pod has no node"),
        pytest.param({"waits": (waited(400, 100),)}, BEFORE, 500, id="the pod has a node"),
        pytest.param({"waits": (waited(900, 100), waited(900, 200))}, BEFORE, 500, id="the last of two"),
        pytest.param(
            {"waits": (waited(900, 100), waited(900))}, BEFORE, 600, id="one of two pods has no node"
        ),
        pytest.param({"waits": (waited(900, 400),)}, BEFORE, 300, id="before the last progress"),
        pytest.param({"waits": (waited(160, 100),)}, BEFORE, 300, id="a tenth of the deadline is short"),
        pytest.param({"waits": (waited(60),)}, BEFORE, 300, id="no node for a short time"),
        pytest.param({"waits": (waited(61),)}, BEFORE, 600, id="no node for too long"),
        pytest.param({"waits": (waited(900),), "is_paused": True}, BEFORE, None, id="paused, without a node"),
        pytest.param({"waits": (waited(900, gate="example.com/quota"),)}, BEFORE, 600, id="gated"),
        pytest.param({"waits": (waited(900, gate=GROUP_REPLACEMENT_GATE),)}, BEFORE, 300, id="gated by us"),
    ],
)
def test_due_in(pace: dict[str, Any], last: str | None, due_in: float | None) -> None:
    assert replace(PACE, **pace).due_in(last) == due_in


def test_the_condition_contains_the_waiting_reason() -> None:
    condition = stalled_condition(PACE, 0, "group 3: workers are not ready")
    assert (condition.is_true, condition.reason) == (True, "ProgressDeadlineExceeded")
    assert condition.message == "No progress for 600 s; group 3: workers are not ready"


@pytest.mark.parametrize(
    ("pace", "due_in", "reason"),
    [
        ({}, 20.0, "Progressing"),
        ({"is_progressing": False}, None, "AtRest"),
        ({"is_paused": True}, None, "RolloutPaused"),
        ({"is_prewarming": True}, None, "NodesPrewarming"),
        ({"waits": (waited(900),)}, 600.0, "PodsUnscheduled"),
    ],
)
def test_a_false_condition_has_a_reason(pace: dict[str, Any], due_in: float | None, reason: str) -> None:
    condition = stalled_condition(replace(PACE, **pace), due_in, "group 3: workers are not ready")
    assert (condition.is_true, condition.reason) == (False, reason)
    assert "group 3" not in condition.message
