"""What the debug log says of a pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lws.controller.leaderworkerset.naming import of_group, of_set
from lws.leaderworkerset.assessment.assessment import assess
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.builders import make_set
from test.unit.lws.cli.histories import revision_of, snapshot_of


def test_a_set_has_the_revision_that_its_groups_are_to_have() -> None:
    demo = make_set(namespace="team")
    snapshot = snapshot_of(demo, [revision_of(demo, 1)])
    key = assess(snapshot).target.key
    assert key
    assert of_set(snapshot) == {"set": "demo", "revision": key}


def test_a_group_has_the_revision_of_its_leader() -> None:
    metadata = {"name": "demo-12", "labels": {REVISION_LABEL: "abc"}}
    snapshot: Any = SimpleNamespace(lws=make_set(), leader={"metadata": metadata})
    assert of_group(snapshot) == {"set": "demo", "group": 12, "revision": "abc"}
    snapshot.leader = {"metadata": {"name": "demo-12"}}
    assert of_group(snapshot)["revision"] == ""
