"""test.bench.disaggregated.writes: classification of writes, and the delay before each step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.bench.audit import AuditLog
from test.bench.disaggregated.writes import Written, written
from test.harness.audit import MANAGER

NODES = "system:node"


def _line(action: str, name: str, at: float = 0.0, user: str = MANAGER) -> str:
    verb, _, resource = action.partition(" ")
    kind, _, part = resource.partition("/")
    moment = f"2026-01-01T00:00:{at:09.6f}Z"
    entry = {
        "user": {"username": user},
        "verb": verb,
        "requestURI": "/",
        "objectRef": {"resource": kind, "subresource": part, "name": name},
        "requestReceivedTimestamp": moment,
        "stageTimestamp": moment,
    }
    return json.dumps(entry, separators=(",", ":")) + "\n"


def _written(tmp_path: Path, *lines: str) -> Written:
    path = tmp_path / "audit.log"
    path.write_text("".join(lines))
    return written(AuditLog(path, MANAGER), 0, path.stat().st_size)


@pytest.mark.parametrize(
    ("action", "name", "is_ours"),
    [
        pytest.param("create leaderworkersets", "ds-7-0-0123abcd-decode", True, id="child"),
        pytest.param("patch leaderworkersets/status", "ds-7-0-0123abcd-decode", False, id="its-status"),
        pytest.param("patch disaggregatedsets/status", "ds-7", True, id="status"),
        pytest.param("get disaggregatedsets", "ds-7", False, id="read"),
        pytest.param("create services", "ds-7-0-0123abcd-decode-prv", True, id="service"),
        pytest.param("create services", "ds-7-0-0123abcd-decode", False, id="service-of-a-child"),
        pytest.param("create controllerrevisions", "ds-7-0123abcd-1", True, id="revision"),
        pytest.param(
            "create controllerrevisions", "ds-7-0-0123abcd-decode-5f6d7-1", False, id="revision-of-a-child"
        ),
        pytest.param("create events", "ds-7.18a1b2c3", True, id="event"),
        pytest.param("create events", "ds-7-0-0123abcd-decode.18a1b2c3", False, id="event-of-a-child"),
        pytest.param("create disaggregatedsetrolescalers", "ds-7-decode", True, id="scaler"),
        pytest.param("create statefulsets", "ds-7-0-0123abcd-decode", False, id="another-kind"),
        pytest.param("create leaderworkersets", "set-7", False, id="another-set"),
    ],
)
def test_writes_are_attributed_to_sets(action: str, name: str, is_ours: bool, tmp_path: Path) -> None:
    assert _written(tmp_path, _line(action, name)).by_set == ({"ds-7": {action: 1}} if is_ours else {})


def test_writes_of_other_users_are_ignored(tmp_path: Path) -> None:
    assert _written(tmp_path, _line("create leaderworkersets", "ds-7-a", user=NODES)).in_all == {}


def test_totals_and_maxima_of_writes(tmp_path: Path) -> None:
    names = ("ds-1-a", "ds-1-b", "ds-2-a")
    writes = _written(tmp_path, *(_line("create leaderworkersets", name) for name in names))
    assert writes.in_all == {"create leaderworkersets": 3}
    assert writes.most == {"create leaderworkersets": 2}


def test_the_delay_of_a_step_starts_with_the_last_pod_change_of_its_set(tmp_path: Path) -> None:
    writes = _written(
        tmp_path,
        _line("patch leaderworkersets", "ds-1-a", at=1.0),
        _line("patch pods/status", "ds-1-a-0", at=2.0, user=NODES),
        _line("patch pods/status", "ds-1-a-1", at=3.0, user=NODES),
        _line("patch pods/status", "ds-2-a-1", at=3.4, user=NODES),
        _line("patch leaderworkersets", "ds-1-a", at=3.5),
        _line("patch leaderworkersets", "ds-1-b", at=3.6),
        _line("delete pods", "ds-1-b-1", at=5.0, user=NODES),
        _line("patch leaderworkersets", "ds-1-a", at=5.25),
    )
    assert writes.waits == (0.25, 0.5)
