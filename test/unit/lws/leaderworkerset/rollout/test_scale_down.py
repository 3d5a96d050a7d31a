"""Tests of lws.leaderworkerset.rollout.scale_down: which groups a scale-down deletes.

Some Ordinal groups stay although others would have been better to keep. A ReplicaSet has to delete certain
Hash groups first.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.rollout.scale_down import (
    DELETION_COST_ANNOTATION,
    Rank,
    RankedGroup,
    deletion_costs,
    leftovers,
)
from test.unit.builders import make_leader_pod


def states(letters: str) -> list[GroupState]:
    """Return group states by letter: R is ready, u is not."""
    return [GroupState(index, ready=letter == "R") for index, letter in enumerate(letters)]


@pytest.mark.parametrize(
    ("letters", "costs", "replicas", "expected"),
    [
        pytest.param("RRRR", {}, 2, {}, id="all are ready"),
        pytest.param("RRuu", {}, 2, {}, id="unready groups are deleted: ordinals allow it"),
        pytest.param("uRuu", {}, 2, {}, id="no ready group is deleted"),
        pytest.param("uRRR", {}, 2, {0: "not ready"}, id="an unready one stays"),
        pytest.param("uuRu", {}, 2, {0: "not ready", 1: "not ready"}, id="two stay"),
        pytest.param("RRRR", {3: "-5"}, 3, {}, id="the marked group is deleted"),
        pytest.param("RRRR", {1: "-5"}, 3, {1: "pod-deletion-cost -5"}, id="a marked one stays"),
        pytest.param(
            "RRRR",
            {3: "5"},
            3,
            {i: "pod-deletion-cost 0" for i in range(3)},
            id="the most expensive group is deleted",
        ),
        pytest.param("RRRR", {1: "cheap"}, 3, {}, id="what is no number counts as none"),
        pytest.param("uR", {}, 0, {}, id="to zero"),
    ],
)
def test_leftovers(letters: str, costs: dict[int, str], replicas: int, expected: dict[int, str]) -> None:
    leaders = {
        index: make_leader_pod(
            index=index,
            annotations={DELETION_COST_ANNOTATION: costs[index]} if index in costs else None,
        )
        for index in range(len(letters))
    }
    assert leftovers(states(letters), leaders, replicas) == expected


def test_a_terminating_group_is_not_left_over() -> None:
    leaders = {0: make_leader_pod(index=0, terminating=True), 1: make_leader_pod(index=1)}
    assert leftovers(states("uR"), leaders, 1) == {}


RANKS = {
    "s": Rank.SOUND,
    "n": Rank.UNREADY,
    "l": Rank.LOST,
    "x": Rank.EXHAUSTED,
    "w": Rank.UNSCHEDULED,
}
OURS = {letter: rank.cost for letter, rank in RANKS.items()}


def a_candidate(number: int, text: str, age: int) -> RankedGroup:
    """Return a candidate for deletion.

    text: its rank, upper case for a leader that is ready by itself. `<`: the leader is Pending; `>`: it has
    no node, either. `~`: the rollout replaces the group. `b`: its leader belongs to another ReplicaSet. A
    number is its deletion cost, `!` a cost of ours.
    """
    letter, marks = text[0], text[1:]
    rank = RANKS[letter.lower()]
    cost = OURS[letter.lower()] if "!" in marks else marks.strip("~!b<>") or None
    pod: dict[str, Any] = {
        "metadata": {
            "name": f"p{number}",
            "creationTimestamp": f"2026-01-01T00:00:{age:02}Z",
            "annotations": {DELETION_COST_ANNOTATION: cost} if cost is not None else {},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": "rs", "uid": "b" if "b" in marks else "a", "controller": True}
            ],
        },
        "spec": {} if ">" in marks else {"nodeName": "node"},
        "status": {
            "phase": "Pending" if "<" in marks or ">" in marks else "Running",
            "conditions": [{"type": "Ready", "status": "True" if letter.isupper() else "False"}],
        },
    }
    return RankedGroup(pod, rank, is_leaving="~" in marks)


@pytest.mark.parametrize(
    ("groups", "surplus", "expected"),
    [
        pytest.param("S S S", 0, {}, id="no surplus"),
        pytest.param("S S n", 1, {}, id="the ReplicaSet sees that one is not ready"),
        pytest.param("S S N", 1, {2: "n"}, id="only its leader is ready"),
        pytest.param("S X S", 1, {1: "x"}, id="one that is kept for diagnosis, ready again"),
        pytest.param("S N X", 1, {2: "x"}, id="the worst"),
        pytest.param("S N X", 2, {1: "n", 2: "x"}, id="the two worst"),
        pytest.param("S N X", 3, {}, id="all"),
        pytest.param("n n n", 1, {}, id="all alike: the ReplicaSet decides"),
        pytest.param("n w l x", 1, {1: "w"}, id="a worker without a node"),
        pytest.param("n w l x", 2, {1: "w", 3: "x"}, id="then one that is exhausted"),
        pytest.param("n w l x", 3, {1: "w", 2: "l", 3: "x"}, id="then one on a lost node"),
        pytest.param("n w> S x", 1, {}, id="a leader without a node is deleted anyway"),
        pytest.param("n w> S x", 2, {3: "x"}, id="and of the unready ones the worst"),
        pytest.param("n< x", 1, {}, id="a starting group is deleted first"),
        pytest.param("S S-5 S", 1, {}, id="users chose one"),
        pytest.param("N S-5 S", 1, {0: "n"}, id="a broken group is deleted before it"),
        pytest.param("N7 S S", 1, {}, id="users keep a broken one"),
        pytest.param("N-3 N S", 1, {}, id="of two broken ones that which users chose"),
        pytest.param("N-3 N S", 2, {1: "n"}, id="and the other"),
        pytest.param("S N! S", 1, {}, id="the cost is set already"),
        pytest.param("S S! S", 0, {1: None}, id="no surplus any more"),
        pytest.param("S S! N", 1, {1: None, 2: "n"}, id="another is worse now"),
        pytest.param("S~ N~ S~", 0, {1: "n"}, id="a rollout"),
        pytest.param("n~ x~ S~", 0, {1: "x"}, id="a rollout begins with the worst"),
        pytest.param("Sb Nb S~ X~", 0, {3: "x"}, id="the new revision of a rollout stays"),
        pytest.param("Sb Nb S X", 2, {1: "n", 3: "x"}, id="two ReplicaSets shrink by unknown numbers"),
    ],
)
def test_deletion_costs(groups: str, surplus: int, expected: dict[int, str | None]) -> None:
    candidates = [a_candidate(number, text, number) for number, text in enumerate(groups.split())]
    costs = {group.leader["metadata"]["name"]: cost for group, cost in deletion_costs(candidates, surplus)}
    assert costs == {f"p{number}": OURS[rank] if rank else None for number, rank in expected.items()}


def test_the_youngest_of_equal_groups_is_deleted() -> None:
    candidates = [
        a_candidate(number, text, age) for number, (text, age) in enumerate([("N", 1), ("N", 2), ("S", 3)])
    ]
    ((chosen, _),) = deletion_costs(candidates, 1)
    assert chosen is candidates[1]


def test_our_costs_are_ordered_and_lower_than_those_of_users() -> None:
    costs = [int(rank.cost) for rank in Rank]
    assert costs == sorted(costs) and costs[0] >= -(2**31) and costs[-1] < -2_000_000_000
