"""Tests of lws.leaderworkerset.rollout.replacement: waiting leaders, terminating groups, and lifted gates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.rollout.replacement import (
    Leader,
    Teardown,
    admit,
    deferral,
    leaders_of,
    leaders_to_admit,
    surplus_kept_groups,
    teardowns_of,
)
from lws.runtime.actions import Reference
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    LEADER_NAME_ANNOTATION,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import make_set

COST = "controller.kubernetes.io/pod-deletion-cost"
LWS = make_set()
GATE = {"name": GROUP_REPLACEMENT_GATE}
OTHER_GATE = {"name": "example.com/quota"}


def pod(
    name: str, group: str = "", index: str = "0", *, is_terminating: bool = False, **more: Any
) -> dict[str, Any]:
    labels = {WORKER_INDEX_LABEL: index, REVISION_LABEL: more.pop("revision", "b")}
    metadata = {"name": name, "labels": labels, "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z"}
    if group:
        labels[GROUP_INDEX_LABEL] = group
    if is_terminating:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    gates = more.pop("gates", None)
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, **more}}
    return {**obj, "spec": {"schedulingGates": gates}} if gates is not None else obj


def leaders(letters: str) -> tuple[Leader, ...]:
    """Return leaders by letter, oldest first.

    Upper case is admitted, lower case is gated. The letter a stands for a former revision.
    """
    return tuple(
        Leader(
            f"demo-{index}",
            f"2026-01-01T00:00:0{index}Z",
            letter.islower(),
            letter.lower() != "a",
            revision=letter.lower(),
        )
        for index, letter in enumerate(letters)
    )


def teardowns(letters: str) -> tuple[Teardown, ...]:
    return tuple(Teardown(str(index), letter != "a") for index, letter in enumerate(letters))


@pytest.mark.parametrize(
    ("live", "terminating", "replicas", "surge", "expected"),
    [
        pytest.param("bbb", "", 3, 0, "012", id="a new set"),
        pytest.param("BBb", "b", 3, 0, "", id="its former group exists"),
        pytest.param("BBb", "", 3, 0, "2", id="its former group is gone"),
        pytest.param("Bbb", "b", 3, 0, "1", id="one of two is gone"),
        pytest.param("BBb", "b", 3, 1, "", id="the surge is that of rollouts"),
        pytest.param("BBb", "bb", 3, 0, "", id="others that a scale-down removed"),
        pytest.param("BBBb", "", 3, 1, "3", id="a surge that is still there"),
        pytest.param("BBBbb", "", 3, 1, "3", id="at most the surge"),
        pytest.param("BBBb", "", 3, 0, "", id="one that a scale-down is about to remove"),
        pytest.param("Abb", "a", 2, 1, "1", id="surge group of a rollout"),
        pytest.param("BBbbA", "aa", 4, 2, "2", id="a place of the surge that is free"),
        pytest.param("BBbbA", "aaa", 4, 2, "", id="no free surge slot"),
        pytest.param("aBb", "b", 3, 0, "2", id="the current revision first"),
        pytest.param("aBB", "", 3, 0, "0", id="a former revision while nothing else waits"),
        pytest.param("", "a", 3, 0, "", id="no leader"),
    ],
)
def test_admitted_leaders(live: str, terminating: str, replicas: int, surge: int, expected: str) -> None:
    admitted = leaders_to_admit(leaders(live), teardowns(terminating), replicas, surge)
    assert [leader.name for leader in admitted] == [f"demo-{index}" for index in expected]


@pytest.mark.parametrize("is_immediate", [False, True])
@pytest.mark.parametrize(
    ("live", "starts", "expected"),
    [
        pytest.param("bbbb", {"b": 1}, "0", id="the first wave of a new set"),
        pytest.param("BBbb", {"b": 0}, "", id="the next wave waits"),
        pytest.param("AABba", {"a": 1, "b": 0}, "4", id="a lost group of a former revision"),
        pytest.param("AABba", {"a": 1, "b": 1}, "34", id="each revision has its own waves"),
        pytest.param("AAaa", {"a": 1, "b": 9}, "2", id="waves of a former revision"),
        pytest.param("Bb", {"b": -1}, "", id="more have started than may"),
    ],
)
def test_each_revision_starts_in_waves_of_its_own(
    live: str, starts: dict[str, int], expected: str, is_immediate: bool
) -> None:
    admitted = leaders_to_admit(leaders(live), (), len(live), 0, is_immediate, starts)
    assert [leader.name for leader in admitted] == [f"demo-{index}" for index in expected]


def test_leaders_that_wait_for_their_wave_take_no_place_of_a_former_revision() -> None:
    """After a scale-down in a rollout, there are more leaders than places."""
    admitted = leaders_to_admit(leaders("ABbba"), (), 3, 0, starts={"a": 1, "b": 0})
    assert [leader.name for leader in admitted] == ["demo-4"]


def test_the_successor_of_a_leader_that_has_ended_is_no_surge() -> None:
    first, *others = leaders("BBBb")
    assert leaders_to_admit((replace(first, has_ended=True), *others), (), 3, 1) == ()


@pytest.mark.parametrize("is_immediate", [False, True])
@pytest.mark.parametrize(
    ("live", "expected"),
    [("BbAa", ["demo-3"]), ("AaBb", ["demo-3"]), ("Bba", ["demo-2"]), ("Aab", ["demo-2"])],
)
def test_a_leader_that_has_ended_holds_back_a_leader_of_its_own_revision(
    live: str, expected: list[str], is_immediate: bool
) -> None:
    """It may be kept, because its group has used up its restarts."""
    first, *others = leaders(live)
    admitted = leaders_to_admit((replace(first, has_ended=True), *others), (), len(live), 0, is_immediate)
    assert [leader.name for leader in admitted] == expected


def test_immediate_replacement_does_not_wait() -> None:
    assert len(leaders_to_admit(leaders("bab"), teardowns("aaaa"), 3, 0, is_immediate=True)) == 3


def test_immediate_replacement_waits_for_kept_groups() -> None:
    admitted = leaders_to_admit(
        leaders("bbB"), (Teardown("k", True, True), Teardown("l", True)), 3, 0, is_immediate=True
    )
    assert [leader.name for leader in admitted] == ["demo-0"]


@pytest.mark.parametrize(
    ("live", "replicas", "expected"),
    [
        pytest.param("BBbb", 4, "", id="each holds one back"),
        pytest.param("BBb", 3, "1", id="one group less: the oldest stays"),
        pytest.param("BBBB", 4, "01", id="as many run as are wanted"),
        pytest.param("BBbbb", 4, "1", id="one more is to be admitted"),
        pytest.param("AAbb", 4, "", id="groups of a former revision do not count"),
    ],
)
def test_a_scale_down_releases_surplus_kept_groups(live: str, replicas: int, expected: str) -> None:
    """Two groups are kept."""
    kept_groups = [Leader(str(index), f"2026-01-01T00:00:0{index}Z", False, True) for index in (1, 0)]
    assert (
        "".join(leader.name for leader in surplus_kept_groups(kept_groups, leaders(live), replicas))
        == expected
    )


def test_a_kept_group_holds_back_a_leader_of_its_own_revision_beside_a_surge() -> None:
    kept_teardowns = (Teardown("k", True, True), Teardown("l", False, True))
    admitted = leaders_to_admit(leaders("aabb"), kept_teardowns, 9, 9)
    assert [leader.name for leader in admitted] == ["demo-2", "demo-0"]


def test_leaders_are_admitted_by_revision_age_and_name() -> None:
    shuffled = (
        Leader("d", "2026-01-01T00:00:01Z", True, False),
        Leader("c", "2026-01-01T00:00:02Z", True, True),
        Leader("b", "2026-01-01T00:00:03Z", True, True),
        Leader("a", "2026-01-01T00:00:03Z", True, True),
    )
    assert [leader.name for leader in leaders_to_admit(shuffled, (), 4, 0)] == ["c", "a", "b", "d"]


def test_leaders_are_read_from_pods() -> None:
    pods = [
        pod("x", "k", gates=[OTHER_GATE, GATE]),
        pod("yy", "l", revision="a", gates=[OTHER_GATE]),
        pod("zzz", "m", is_terminating=True),
        pod("x-1", "k", "1"),
    ]
    assert leaders_of(pods, "b") == (
        Leader("x", "2026-01-01T00:00:01Z", True, True, revision="b"),
        Leader("yy", "2026-01-01T00:00:02Z", False, False, revision="a"),
    )


STATEFULSET = [{"kind": "StatefulSet", "name": "demo-1a2b3c4d", "controller": True}]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod("x", "k"), pod("w", "k", "1")], [], id="live"),
        pytest.param(
            [pod("x", "k"), pod("w", "k", "1", is_terminating=True)], [], id="a worker is terminating"
        ),
        pytest.param(
            [pod("x", "k", is_terminating=True), pod("w", "k", "1")],
            [("k", True)],
            id="the leader is terminating",
        ),
        pytest.param([pod("w", "k", "1"), pod("v", "k", "2")], [("k", True)], id="only workers are left"),
        pytest.param(
            [pod("w", "k", "1", revision="a"), pod("v", "k", "2")], [("k", False)], id="former revision"
        ),
        pytest.param([pod("x", "k", is_terminating=True, gates=[GATE])], [], id="never scheduled"),
        pytest.param(
            [pod("x", "k"), pod("w", "", "1", annotations={LEADER_NAME_ANNOTATION: "x"})],
            [],
            id="a worker without its label has the group of its leader",
        ),
        pytest.param(
            [pod("w", "", "1", ownerReferences=STATEFULSET), pod("v", "", "2", ownerReferences=STATEFULSET)],
            [("demo-1a2b3c4d", True)],
            id="or of its owner",
        ),
        pytest.param([pod("x", is_terminating=True)], [("x", True)], id="a leader without its label"),
    ],
)
def test_teardowns_are_read_from_pods(pods: list[dict[str, Any]], expected: list[tuple[str, bool]]) -> None:
    assert teardowns_of(pods, "b") == tuple(Teardown(*fields) for fields in expected)


def test_the_group_of_a_lost_leader_is_terminating() -> None:
    pods = [pod("x", "k"), pod("w", "k", "1"), pod("y", "l")]
    assert teardowns_of(pods, "b", lost=["x"]) == (Teardown("k", True),)


@pytest.mark.parametrize(
    ("annotations", "cost"),
    [
        pytest.param({COST: "-100"}, {"annotations": {COST: None}}, id="ours"),
        pytest.param({COST: "-5"}, None, id="of others"),
        pytest.param({}, None, id="none"),
    ],
)
def test_removing_the_gate_keeps_other_annotations(annotations: Any, cost: Any) -> None:
    lift = admit(LWS, pod("x", "k", annotations=annotations, gates=[OTHER_GATE, GATE]))
    gate = {"$patch": "delete", "name": GATE["name"]}
    expected = {"spec": {"schedulingGates": [gate]}} | ({"metadata": cost} if cost else {})
    assert lift.is_strategic and lift.patch == expected


def test_both_events_match_upstream() -> None:
    leader = pod("demo-6d5f7c9b8-x2x4z", "k", gates=[GATE])
    waiting, (done,) = deferral(LWS, leader, 2), admit(LWS, leader).announce
    assert waiting.regarding == done.regarding == Reference.to(LWS)
    assert waiting.related == done.related == Reference.to(leader)
    assert waiting.action == done.action == "Update"
    assert (waiting.reason, waiting.note) == (
        "GroupReplacementDeferred",
        "Leader pod demo-6d5f7c9b8-x2x4z waits for 2 terminating group(s) to be removed before scheduling",
    )
    assert (done.reason, done.note) == (
        "GroupReplacementAdmitted",
        "Leader pod demo-6d5f7c9b8-x2x4z admitted for scheduling",
    )
    assert (waiting.type, done.type) == ("Normal", "Normal")
