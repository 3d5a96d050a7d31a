"""Tests of how the debug log names a pass."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.registration import of_group, of_set
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Problem
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.builders import make_set
from test.unit.lws.cli.histories import revision_of, snapshot_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_set_is_named_with_its_target_revision() -> None:
    demo = make_set(namespace="team")
    snapshot = snapshot_of(demo, [revision_of(demo, 1)])
    key = assess(snapshot).target.key
    assert key
    assert of_set(snapshot) == {"set": "demo", "revision": key}


def test_a_set_that_is_left_alone_or_terminating_is_named_without_a_revision() -> None:
    unreadable = {**make_set(), "spec": {"leaderWorkerTemplate": "none"}}
    problem = Problem("UnreadableSpec", "spec.leaderWorkerTemplate: not an object")
    for snapshot in (
        SetSnapshot(unreadable, NOW, left_alone=problem),
        SetSnapshot(make_set(terminating=True), NOW),
    ):
        assert of_set(snapshot) == {"set": "demo", "revision": ""}


def test_a_group_is_named_with_the_revision_of_its_leader() -> None:
    metadata = {"name": "demo-12", "labels": {REVISION_LABEL: "abc"}}
    snapshot: Any = SimpleNamespace(lws=make_set(), leader={"metadata": metadata})
    assert of_group(snapshot) == {"set": "demo", "group": "12", "revision": "abc"}
    snapshot.leader = {"metadata": {"name": "demo-12"}}
    assert of_group(snapshot)["revision"] == ""
