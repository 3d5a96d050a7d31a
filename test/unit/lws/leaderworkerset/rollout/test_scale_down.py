"""lws.leaderworkerset.rollout.groups: groups that stay although others would better have stayed."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.rollout.groups import DELETION_COST_ANNOTATION, GroupState, Leftover, leftovers
from test.unit.builders import make_leader_pod


def states(letters: str) -> list[GroupState]:
    """R: ready, u: not."""
    return [GroupState(index, ready=letter == "R") for index, letter in enumerate(letters)]


@pytest.mark.parametrize(
    ("letters", "costs", "replicas", "expected"),
    [
        pytest.param("RRRR", {}, 2, [], id="all are ready"),
        pytest.param("RRuu", {}, 2, [], id="the unready ones go: ordinals allow it"),
        pytest.param("uRuu", {}, 2, [], id="none that is ready goes"),
        pytest.param("uRRR", {}, 2, [Leftover(0, "not ready")], id="an unready one stays"),
        pytest.param("uuRu", {}, 2, [Leftover(0, "not ready"), Leftover(1, "not ready")], id="two stay"),
        pytest.param("RRRR", {3: "-5"}, 3, [], id="the marked one goes"),
        pytest.param("RRRR", {1: "-5"}, 3, [Leftover(1, "pod-deletion-cost -5")], id="a marked one stays"),
        pytest.param(
            "RRRR", {3: "5"}, 3, [Leftover(i, "pod-deletion-cost 0") for i in range(3)], id="a dear one goes"
        ),
        pytest.param("RRRR", {1: "cheap"}, 3, [], id="what is no number counts as none"),
        pytest.param("uR", {}, 0, [], id="to zero"),
    ],
)
def test_leftovers(letters: str, costs: dict[int, str], replicas: int, expected: list[Leftover]) -> None:
    leaders = {
        index: make_leader_pod(
            index=index,
            annotations={DELETION_COST_ANNOTATION: costs[index]} if index in costs else None,
        )
        for index in range(len(letters))
    }
    assert leftovers(states(letters), leaders, replicas) == expected


def test_a_group_that_is_on_its_way_out_is_none() -> None:
    leaders = {0: make_leader_pod(index=0, terminating=True), 1: make_leader_pod(index=1)}
    assert leftovers(states("uR"), leaders, 1) == []
