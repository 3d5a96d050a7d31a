"""test.bench.audit: figures from an audit log."""

from __future__ import annotations

import json
from pathlib import Path

from test.bench.audit import STATEFULSET_CONTROLLER, AuditLog

US = "system:serviceaccount:lws-system:lws-controller-manager"


def _line(user: str, verb: str, resource: str, name: str = "", code: int = 200, at: float = 0.0) -> str:
    group, _, subresource = resource.partition("/")
    moment = f"2026-01-01T00:00:{at:09.6f}Z"
    entry = {
        "user": {"username": user},
        "verb": verb,
        "requestURI": "/version?x=1",
        "objectRef": {"resource": group, "subresource": subresource, "name": name} if resource else None,
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": moment,
        "stageTimestamp": moment,
    }
    return json.dumps(entry) + "\n"


def _log(tmp_path: Path, *lines: str) -> AuditLog:
    path = tmp_path / "audit.log"
    path.write_text("".join(lines))
    return AuditLog(path, US)


def test_requests_of_one_user_by_kind(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        _line(US, "create", "statefulsets", "a"),
        _line(US, "patch", "leaderworkersets/status"),
        _line(US, "create", "events"),
        _line(US, "update", "leases"),
        _line(US, "create", "tokenreviews"),
        _line(US, "list", "pods"),
        _line(US, "get", ""),
        _line(US, "delete", "pods", code=409),
        _line("somebody-else", "create", "pods"),
        '{"half": "a li',
    )
    requests = log.between(0)
    assert requests.requests == {
        "create events": 1,
        "create statefulsets": 1,
        "create tokenreviews": 1,
        "delete pods": 1,
        "get /version": 1,
        "list pods": 1,
        "patch leaderworkersets/status": 1,
        "update leases": 1,
    }
    assert (requests.writes, requests.events, requests.lists) == (3, 1, 1)
    assert requests.refused == {"delete pods 409": 1}


def test_a_dry_run_is_no_write(tmp_path: Path) -> None:
    line = _line(US, "patch", "statefulsets", "a")
    log = _log(tmp_path, line, line.replace("/version?x=1", "/apis/apps/v1/statefulsets/a?dryRun=All"))
    requests = log.between(0)
    assert requests.requests == {"patch statefulsets": 1, "rehearse patch statefulsets": 1}
    assert requests.writes == 1


def test_requests_between_two_offsets(tmp_path: Path) -> None:
    first, second = _line(US, "create", "pods"), _line(US, "delete", "pods")
    log = _log(tmp_path, first, second)
    assert log.between(len(first)).requests == {"delete pods": 1}
    assert log.between(0, len(first)).requests == {"create pods": 1}
    assert log.end == len(first) + len(second)


def test_delays_between_a_leader_and_its_workers(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        _line(STATEFULSET_CONTROLLER, "create", "pods", "demo-0", 201, at=1.0),
        _line(STATEFULSET_CONTROLLER, "create", "pods", "demo-1", 201, at=1.5),
        _line(STATEFULSET_CONTROLLER, "create", "pods", "demo-2", 409, at=1.5),
        _line(US, "create", "statefulsets", "demo-1", 201, at=1.75),
        _line(US, "create", "statefulsets", "demo-0", 201, at=2.0),
        _line(US, "create", "statefulsets", "demo-2", 201, at=3.0),
    )
    assert log.between(0).waits == [0.25, 1.0]
