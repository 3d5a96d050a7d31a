"""Tests of what is recorded about the members of a group, and for how long."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from lws.kube.pods import ContainerEnd
from lws.leaderworkerset.group_records import DELETING, Members, current_members, recorded_members
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws_api.leaderworkerset.v1 import RESTART_EXEMPT_CONTAINERS_ANNOTATION, SIZE_ANNOTATION
from test.unit.builders import NOW, make_group, make_leader_pod, make_set, make_worker_statefulset


def group(leader: str = "l", *workers: str) -> GroupFacts:
    """Return a group of three pods."""
    pod = make_leader_pod(make_set(size=3), 0, uid=leader)
    return GroupFacts(0, pod, make_worker_statefulset(pod), worker_uids=workers or ("a", "b"))


def a_set(members: Any = None, policy: str = "RecreateGroupOnPodRestart") -> dict[str, Any]:
    return make_set(size=3, template={"restartPolicy": policy}, status={"members": members})


FIRST, OTHER = Members.of("l", ("a", "b")), Members.of("l", ("a", "c"))


def test_members_are_identified_by_uid() -> None:
    assert Members.of("l", ("b", "a")) == FIRST
    assert {Members.of("l", ("a", "c")), Members.of("m", ("a", "b")), Members.of("l", ()), FIRST} == {
        Members.of("l", ("c", "a")),
        Members.of("m", ("a", "b")),
        Members.of("l", ()),
        FIRST,
    }
    assert len({str(members) for members in (FIRST, OTHER, Members.of("m", ("a", "b")))}) == 3


def test_members_round_trip() -> None:
    assert len(str(FIRST)) == 17
    lws = a_set({"0": str(FIRST), "12": str(OTHER), "3": "garbled"})
    assert [recorded_members(lws, index) for index in (0, 12, 3, 4)] == [FIRST, OTHER, None, None]


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "x",
        [],
        {},
        {"0": None},
        {"0": 7},
        {"0": ""},
        {"0": "deadbeef"},
        {"0": "deadbeef-deadbee"},
        {"0": "DEADBEEF-deadbeef"},
        {"0": "deadbeef-deadbeef-x"},
        {"x": str(FIRST)},
        {"-1": str(FIRST)},
        {"01": str(FIRST)},
        {"٣": str(FIRST)},
        {"9" * 30: str(FIRST)},
    ],
    ids=str,
)
def test_invalid_records_are_ignored(stored: Any) -> None:
    assert [recorded_members(a_set(stored), index) for index in (0, 1, 3)] == [None] * 3
    assert recorded_members({"spec": {}}, 0) is None


def test_an_invalid_entry_does_not_affect_others() -> None:
    stored = a_set({"0": "garbled", "1": str(FIRST)})
    assert [recorded_members(stored, index) for index in (0, 1)] == [None, FIRST]


@pytest.mark.parametrize(
    ("stored", "now", "ready", "policy", "expected"),
    [
        pytest.param(None, group(), True, "", {0: FIRST}, id="complete for the first time"),
        pytest.param(None, group("l", "a"), True, "", {}, id="a worker is not seen yet"),
        pytest.param(None, group(), False, "", {}, id="not ready yet"),
        pytest.param(FIRST, group(), True, "", {0: FIRST}, id="the same"),
        pytest.param(FIRST, group(), False, "", {0: FIRST}, id="the same, not ready"),
        pytest.param(FIRST, group("l", "a"), False, "", {0: FIRST}, id="a worker is missing"),
        pytest.param(FIRST, group("l", "a", "c"), True, "", {0: FIRST}, id="a worker was replaced"),
        pytest.param(FIRST, group(), True, "None", {}, id="no restart policy, replaced"),
        pytest.param(None, group(), True, "None", {}, id="no restart policy, recorded"),
        pytest.param(FIRST, group("l", "a", "c"), False, "None", {}, id="no restart policy, not ready"),
        pytest.param(FIRST, group("m"), True, "", {0: Members.of("m", ("a", "b"))}, id="a new leader"),
        pytest.param(FIRST, group("m"), False, "", {}, id="a new leader, not ready"),
    ],
)
def test_members_are_recorded_when_the_group_is_first_complete(
    stored: Members | None, now: GroupFacts, ready: bool, policy: str, expected: dict[int, Members]
) -> None:
    members = {"0": str(stored)} if stored is not None else None
    lws = a_set(members, policy) if policy else a_set(members)
    assert current_members(SetSnapshot(lws, NOW, groups=(now,)), {0} if ready else set()) == expected


AFTER_START = "RecreateGroupAfterStart"
ENDS = (ContainerEnd("engine", 1, restarts=2), ContainerEnd("proxy", 1, restarts=5))


@pytest.mark.parametrize(
    ("stored", "ready", "expected"),
    [
        pytest.param(None, True, "-2", id="complete for the first time"),
        pytest.param(FIRST, True, "-2", id="recorded by an earlier release or under another policy"),
        pytest.param(FIRST, False, "", id="the same, not ready"),
        pytest.param(Members.of("l", ("a", "b"), 0), True, "-0", id="restarted since"),
        pytest.param(Members.sealed("l", DELETING), True, "", id="to be deleted"),
    ],
)
def test_restarts_of_the_start_are_recorded_if_the_policy_spares_them(
    stored: Members | None, ready: bool, expected: str
) -> None:
    lws = a_set({"0": str(stored)} if stored is not None else None, AFTER_START)
    lws["metadata"]["annotations"] = {RESTART_EXEMPT_CONTAINERS_ANNOTATION: "proxy"}
    snapshot = SetSnapshot(lws, NOW, groups=(replace(group(), restarted=ENDS),))
    (members,) = current_members(snapshot, {0} if ready else set()).values()
    workers = stored.workers if stored is not None else FIRST.workers
    assert str(members)[9:] == f"{workers}{expected}" and members.belongs_to("l")
    assert recorded_members(a_set({"0": str(members)}), 0) == members


def test_edited_restarts_make_a_record_invalid() -> None:
    members = Members.of("l", ("a", "b"), 3)
    edited = recorded_members(a_set({"0": f"{str(members)[:-1]}2"}), 0)
    assert edited is not None and edited.restarts == 2 and not edited.belongs_to("l")
    removed = recorded_members(a_set({"0": str(members)[:-2]}), 0)
    assert removed is not None and not removed.belongs_to("l")


def test_records_of_earlier_releases_are_kept_as_they_are() -> None:
    """Otherwise, an upgrade would write every status."""
    stored = f"{hashlib.sha256(b'l').hexdigest()[:8]}-{FIRST.workers}"
    for now in (group(), group("l", "a", "c")):
        current = current_members(SetSnapshot(a_set({"0": stored}), NOW, groups=(now,)), {0})
        assert {index: str(members) for index, members in current.items()} == {0: stored}


def test_an_edited_record_is_written_again() -> None:
    for edited in (f"{FIRST.leader}-{OTHER.workers}", f"{OTHER.leader}-{FIRST.workers}"):
        lws = a_set({"0": edited})
        assert current_members(SetSnapshot(lws, NOW, groups=(group(),)), {0}) == {0: FIRST}
        assert current_members(SetSnapshot(lws, NOW, groups=(group(),)), ()) == {}


def test_members_of_deleted_groups_are_removed() -> None:
    lws = a_set({"0": str(FIRST), "5": str(OTHER)})
    assert current_members(SetSnapshot(lws, NOW, groups=(group(),)), {0}) == {0: FIRST}


@pytest.mark.parametrize("workers", [("a",), ("a", "b", "c")])
def test_a_group_that_was_scaled_by_hand_is_not_complete(workers: tuple[str, ...]) -> None:
    facts = group()
    scaled = make_worker_statefulset(dict(facts.leader), replicas=len(workers))
    assert facts.is_complete
    assert not GroupFacts(0, facts.leader, scaled, worker_uids=workers).is_complete


def test_a_group_of_one_is_complete_by_itself() -> None:
    alone = make_group(make_set(size=1))
    assert alone.is_complete
    members = current_members(SetSnapshot(make_set(size=1), NOW, groups=(alone,)), {0})
    assert members == {0: Members.of("uid-of-pod-demo-0", ())}


@pytest.mark.parametrize(
    ("size", "complete"), [("3", True), ("4", False), ("0", False), ("many", True), ("03", True)]
)
def test_size_of_a_group_comes_from_its_leader(size: str, complete: bool) -> None:
    facts = group()
    annotations = {**facts.leader["metadata"]["annotations"], SIZE_ANNOTATION: size}
    leader = {**facts.leader, "metadata": {**facts.leader["metadata"], "annotations": annotations}}
    assert GroupFacts(0, leader, facts.worker_statefulset, worker_uids=("a", "b")).is_complete is complete
