"""Tests of status.groups: short, bounded, and unchanged as long as no state of a group changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.rollout.state import Budget, RolloutState
from lws.leaderworkerset.status.summary import MOST_NAMED, blocking_problem, group_standings, summarise
from test.unit.stories.letters import groups

BUDGET = Budget(unavailable=1, surge=0)


def summary_of(letters: str, replicas: int, floor: int = 0, paused: bool = False) -> tuple[object, list[str]]:
    summary = summarise(RolloutState(replicas, BUDGET, floor, groups(letters), paused=paused))
    return summary.counts, [f"{standing.state} {standing}" for standing in summary.unsettled]


@pytest.mark.parametrize(
    ("letters", "replicas", "counts", "named"),
    [
        pytest.param("", 0, {}, [], id="no groups"),
        pytest.param("RRRR", 4, {"Ready": 4}, [], id="at rest"),
        pytest.param("RRRRR", 4, {"Ready": 5}, [], id="surge counts too"),
        pytest.param("R-", 2, {"Ready": 1, "Missing": 1}, ["Missing group 1: no leader pod"], id="gone"),
        pytest.param(
            "rtxTu-",
            6,
            {"Outdated": 1, "Terminating": 2, "Broken": 1, "NotReady": 1, "Missing": 1},
            [
                "Broken group 2: leader pod is not ready",
                "NotReady group 4: leader pod is not ready",
                "Missing group 5: no leader pod",
                "Terminating group 1: leader pod is terminating",
                "Terminating group 3: leader pod is terminating",
                "Outdated group 0: waiting for its turn in the rollout",
            ],
            id="every state, the worst first",
        ),
    ],
)
def test_groups_are_counted_and_a_few_are_named(
    letters: str, replicas: int, counts: dict[str, int], named: list[str]
) -> None:
    assert summary_of(letters, replicas) == (counts, named)


def test_outdated_groups_below_the_partition_are_settled() -> None:
    assert summary_of("rrRR", 4, floor=2) == ({"Outdated": 2, "Ready": 2}, [])
    assert summary_of("xrRR", 4, floor=2)[1] == ["Broken group 0: leader pod is not ready"]


def test_a_paused_rollout_is_the_reason() -> None:
    assert summary_of("rR", 2, paused=True)[1] == ["Outdated group 0: the rollout is paused"]


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        pytest.param(GroupState(0, leader_ready=False, formed=False), "leader pod is not ready", id="leader"),
        pytest.param(GroupState(0, leader_ready=True, formed=False), "no worker StatefulSet", id="unformed"),
        pytest.param(
            GroupState(0, formed=False, gate="example.com/quota"),
            "waiting for scheduling gate example.com/quota",
            id="gated",
        ),
        pytest.param(GroupState(0, leader_ready=True), "workers are not ready", id="workers"),
        pytest.param(GroupState(0, barred="pod a must go"), "pod a must go", id="a worker's own node"),
    ],
)
def test_reason_of_an_unsettled_group(group: GroupState, reason: str) -> None:
    rollout = RolloutState(1, BUDGET, groups=(group,))
    assert [standing.reason for standing in summarise(rollout).unsettled] == [reason]
    outdated = replace(rollout, groups=(replace(group, outdated=True),))
    assert [standing.state for standing in summarise(outdated).unsettled] == ["Broken"]


def test_the_summary_of_a_large_set_is_bounded() -> None:
    stored = summarise(RolloutState(5000, BUDGET, groups=groups("u" * 5000))).stored("demo")
    assert stored["counts"] == {"NotReady": 5000}
    assert [entry["name"] for entry in stored["unsettled"]] == [
        f"demo-{index}" for index in range(MOST_NAMED)
    ]


def test_empty_fields_are_omitted() -> None:
    at_rest = RolloutState(1, BUDGET, groups=groups("R"))
    assert summarise(at_rest).stored("demo") == {"counts": {"Ready": 1}}
    assert summarise(RolloutState(0, BUDGET)).stored("demo") == {}


def test_a_rejected_step_is_the_reason_of_outdated_groups() -> None:
    held_up = blocking_problem("demo", "cannot create Service demo: no; cannot delete Pod demo-1: not now")
    assert held_up == "cannot delete Pod demo-1"
    reason = f"the rollout is blocked, the API server rejects the next step: {held_up}"
    rollout = RolloutState(2, BUDGET, groups=groups("rr"))
    assert [standing.reason for standing in summarise(rollout, held_up).unsettled] == [reason] * 2
    rollout = RolloutState(1, BUDGET, floor=1, groups=groups("rr"))
    reasons = ["keeps its revision: below partition 1", "surge group: deleted when the rollout completes"]
    assert [standing.reason for standing in group_standings(rollout, held_up)] == reasons


@pytest.mark.parametrize(
    ("problems", "held_up"),
    [
        ("", ""),
        ("cannot update StatefulSet demo: no", "cannot update StatefulSet demo"),
        ("cannot update Deployment demo: no", "cannot update Deployment demo"),
        ("cannot create ControllerRevision demo-5f-1: no", "cannot create ControllerRevision demo-5f-1"),
        ("cannot create StatefulSet demo-1: no", ""),
        ("cannot delete StatefulSet demo-1: no", ""),
        ("cannot delete Pod demo-1-1: no", ""),
        ("cannot delete Pod other-demo-1: no", ""),
        ("cannot update PodDisruptionBudget demo: no", ""),
        ("StatefulSet demo is short of pods: no", ""),
    ],
)
def test_problems_that_block_a_rollout(problems: str, held_up: str) -> None:
    assert blocking_problem("demo", problems) == held_up


@pytest.mark.parametrize(
    ("rollout", "reasons"),
    [
        pytest.param(RolloutState(2, BUDGET, groups=groups("RR")), ["", ""], id="nothing to wait for"),
        pytest.param(
            RolloutState(2, BUDGET, floor=1, groups=groups("rr")),
            ["keeps its revision: below partition 1", "waiting for its turn in the rollout"],
            id="behind a partition",
        ),
        pytest.param(
            RolloutState(1, BUDGET, groups=groups("rr")),
            ["waiting for its turn in the rollout", "surge group: deleted when the rollout completes"],
            id="on top",
        ),
        pytest.param(
            RolloutState(1, BUDGET, groups=groups("rr"), paused=True),
            ["the rollout is paused"] * 2,
            id="paused",
        ),
        pytest.param(
            RolloutState(1, BUDGET, groups=groups("t")), ["leader pod is terminating"], id="terminating"
        ),
    ],
)
def test_reasons_of_all_groups(rollout: RolloutState, reasons: list[str]) -> None:
    assert [standing.reason for standing in group_standings(rollout)] == reasons


@pytest.mark.parametrize("letters", ["R-", "rtxTu-", "rR", "xrRR"])
@pytest.mark.parametrize("paused", [False, True])
def test_the_status_has_the_same_reasons_as_commands(letters: str, paused: bool) -> None:
    """Commands show all groups: each group in the status has the same reason in both."""
    rollout = RolloutState(len(letters), BUDGET, groups=groups(letters), paused=paused)
    assert set(summarise(rollout).unsettled) <= set(group_standings(rollout))
