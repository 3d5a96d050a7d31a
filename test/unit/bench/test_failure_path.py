"""test.bench.failure_path: reaction times of the manager, read from an audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from test.bench.audit import STATEFULSET_CONTROLLER, AuditLog
from test.bench.failure_path import FAILED, MADE, waits_in

US = "system:serviceaccount:lws-system:lws-controller-manager"


def _line(user: str, verb: str, resource: str, name: str, received: float, done: float = 0.0) -> str:
    group, _, subresource = resource.partition("/")
    agent = {"echo": "null-controller", "kubelet": "localcluster"}.get(user, user)
    entry: dict[str, Any] = {
        "user": {"username": user},
        "userAgent": agent,
        "verb": verb,
        "requestURI": f"/api/v1/{resource}/{name}",
        "objectRef": {"resource": group, "name": name}
        | ({"subresource": subresource} if subresource else {}),
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{received:09.6f}Z",
        "stageTimestamp": f"2026-01-01T00:00:{done or received:09.6f}Z",
    }
    return json.dumps(entry) + "\n"


def test_delays_of_both_controllers_are_measured_for_each_failure(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(
        "".join(
            [
                _line("kubelet", "patch", "pods/status", "set-0-3-1", 1.0, 1.01),
                _line("echo", "get", "pods/status", "set-0-3", 1.012),
                # This time is the API server's: it stores the record that must come first.
                _line(US, "patch", "leaderworkersets/status", "set-0", 1.014, 1.024),
                _line(US, "delete", "pods", "set-0-3", 1.026),
                _line(STATEFULSET_CONTROLLER, "create", "pods", "set-0-3", 2.0, 2.01),
                _line("echo", "get", "pods", "set-0-3", 2.014),
                _line(US, "create", "statefulsets", "set-0-3", 2.018),
                # A gate held this leader until its former group was deleted.
                _line(STATEFULSET_CONTROLLER, "create", "pods", "set-0-5", 2.1, 2.11),
                _line("echo", "get", "pods", "set-0-5", 2.114),
                _line(US, "patch", "pods", "set-0-5", 2.5),
                _line(US, "create", "statefulsets", "set-0-5", 2.6),
                # The manager never reacts to this failure.
                _line("kubelet", "patch", "pods/status", "set-0-4-1", 3.0, 3.01),
            ]
        )
    )
    waits = waits_in(AuditLog(path, US), 0)
    assert [round(wait, 6) for wait in (*waits[FAILED].ours, *waits[FAILED].null)] == [0.006, 0.002]
    assert [round(wait, 6) for wait in (*waits[MADE].ours, *waits[MADE].null)] == [0.008, 0.004]
    figures = waits[FAILED].figures()
    assert {name: round(value, 3) for name, value in figures.items()} == {
        "events": 1,
        "ours p50": 6.0,
        "ours p99": 6.0,
        "null p50": 2.0,
        "null p99": 2.0,
        "own p50": 4.0,
        "own p99": 4.0,
        "ratio p50": 3.0,
        "ratio p99": 3.0,
    }
