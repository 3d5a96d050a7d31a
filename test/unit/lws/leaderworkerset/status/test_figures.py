"""Tests of the metrics of a set."""

from __future__ import annotations

from dataclasses import replace

from lws.leaderworkerset.status.status import figures_of, starts_of
from lws.runtime.actions import Figures
from test.unit.builders import make_group, make_set

ROLLING_SINCE = "2026-03-01T12:00:00Z"
STATUS = {
    "readyReplicas": 3,
    "updatedReplicas": 1,
    "updateRevision": "demo-abc-2",
    "groups": {"counts": {"Ready": 1, "Outdated": 2, "NotReady": 1}},
    "conditions": [
        {"type": "UpdateInProgress", "status": "True", "lastTransitionTime": ROLLING_SINCE},
        {"type": "Stalled", "status": "True"},
    ],
}


def test_figures_of_a_set() -> None:
    assert figures_of(make_set(), STATUS, replicas=4, failed=1) == Figures(
        kind="LeaderWorkerSet",
        name="demo",
        numbers={
            ("desired", ""): 4,
            ("ready", ""): 3,
            ("updated", ""): 1,
            ("failed", ""): 1,
            ("stalled", ""): 1,
            ("rolling", ""): 1,
            ("by state", "Ready"): 1,
            ("by state", "Outdated"): 2,
            ("by state", "NotReady"): 1,
        },
        revision="demo-abc-2",
        rolling_since=ROLLING_SINCE,
    )


def test_a_finished_rollout_has_no_start_time() -> None:
    over = {"type": "UpdateInProgress", "status": "False", "lastTransitionTime": ROLLING_SINCE}
    figures = figures_of(make_set(), {"conditions": [over]}, replicas=2, failed=0)
    assert (figures.numbers["rolling", ""], figures.rolling_since, figures.revision) == (False, "", "")
    assert figures.numbers["ready", ""] == 0


def test_creation_times_of_ready_groups() -> None:
    lws = make_set(replicas=2)
    first, second = make_group(lws, 0), make_group(lws, 1)
    created = {**second.leader["metadata"], "creationTimestamp": ROLLING_SINCE}
    second = replace(second, leader={**second.leader, "metadata": created})
    uids = [group.leader["metadata"]["uid"] for group in (first, second)]
    assert starts_of((first, second), {1}) == dict(zip(uids, ("", ROLLING_SINCE), strict=True))
