"""golden/status-watch.ansi, the source of the picture of `lws status --watch`, is what a terminal shows.

To rewrite it, run pytest with UPDATE_STILLS=1 in the environment, read the diff and run `make generate`.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lws.cli import screen
from lws.cli.commands.status import status_blocks
from lws.cli.states import report_on
from lws.leaderworkerset.revisions.history import record
from test.unit.builders import make_group, make_leader_statefulset, make_worker_pod
from test.unit.lws.cli.histories import revision_of, set_objects, sets, snapshot_of, with_status

GOLDEN = Path(__file__).parent / "golden" / "status-watch.ansi"
COMMAND = "$ lws status my-model --watch\n"
COLUMNS = "100"
A, B = sets("vllm:1", "vllm:2", name="my-model", replicas=4, size=4)
HISTORY = [revision_of(A, 1), revision_of(B, 2)]
ROLLING = {
    "type": "UpdateInProgress",
    "status": "True",
    "reason": "GroupsUpdating",
    "message": "Rolling Upgrade is in progress",
    "lastTransitionTime": "2026-03-01T11:58:00Z",
}
BORN = ("2026-02-26T12:00:00Z", "2026-02-26T12:00:00Z", "2026-03-01T11:59:20Z", "2026-03-01T11:58:10Z")
PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "vllm:2"'}}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _born(pod: Any, at: str) -> Any:
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": at}}


def _report() -> Any:
    """Group 3 is updated, a worker of group 2 cannot pull its image, and groups 0 and 1 are still old."""
    leader = make_leader_statefulset(B, key=record(B).key, partition=2)
    snapshot = snapshot_of(B, HISTORY, [A, A, B, B], leader=leader)
    stuck = make_group(B, 2, key=record(B).key, workers_ready=False)
    groups = [
        replace(group, leader=_born(group.leader, at))
        for group, at in zip(snapshot.groups, BORN, strict=True)
    ]
    groups[2] = replace(stuck, leader=groups[2].leader)
    workers = [
        make_worker_pod(dict(group.worker_statefulset or {}), index)
        for group in groups
        for index in (1, 2, 3)
    ]
    pods = {pod["metadata"]["name"]: pod for pod in workers}
    pulled = [{"name": "main", "ready": False, "state": PULLING}]
    pods["my-model-2-1"]["status"] = {"phase": "Pending", "containerStatuses": pulled}
    seen = with_status(
        replace(snapshot, groups=tuple(groups)), conditions=[ROLLING], lastProgressTime="2026-03-01T11:59:52Z"
    )
    return report_on(set_objects(seen, HISTORY, pods))


def _terminal_output(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the last picture that `--watch` leaves on a terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", COLUMNS)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    screen.show(status_blocks(_report()))
    return terminal.getvalue()


def test_the_golden_file_matches_the_terminal_output(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = COMMAND + _terminal_output(monkeypatch)
    if os.environ.get("UPDATE_STILLS"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(actual, encoding="utf-8")
    assert actual == GOLDEN.read_text(encoding="utf-8"), (
        "the docstring of this file describes how to update it"
    )
