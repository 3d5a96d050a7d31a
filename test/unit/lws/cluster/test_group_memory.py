"""A pod that was replaced between two looks is noticed by its UID."""

from __future__ import annotations

from lws.actions import Object
from lws.cluster.group_memory import GroupMemory


def pod(name: str, uid: str) -> Object:
    return {"kind": "Pod", "metadata": {"namespace": "default", "name": name, "uid": uid}}


LEADER = pod("a-0", "leader")


def test_nothing_is_replaced_while_uids_stay() -> None:
    memory = GroupMemory()
    for _ in range(3):
        assert memory.replaced(LEADER, [pod("a-0-1", "w1"), pod("a-0-2", "w2")]) == ()


def test_a_new_uid_is_a_replacement_until_the_leader_is_another_one() -> None:
    memory = GroupMemory()
    memory.replaced(LEADER, [pod("a-0-1", "w1")])
    assert memory.replaced(LEADER, [pod("a-0-1", "w2")]) == ("a-0-1",)
    assert memory.replaced(LEADER, [pod("a-0-1", "w2")]) == ("a-0-1",)
    assert memory.replaced(pod("a-0", "next leader"), [pod("a-0-1", "w3")]) == ()


def test_a_missing_pod_may_come_back() -> None:
    memory = GroupMemory()
    memory.replaced(LEADER, [pod("a-0-1", "w1")])
    assert memory.replaced(LEADER, []) == ()
    assert memory.replaced(LEADER, [pod("a-0-1", "w1")]) == ()
    memory.replaced(LEADER, [])
    assert memory.replaced(LEADER, [pod("a-0-1", "w2")]) == ("a-0-1",)


def test_what_is_accepted_has_no_consequence_and_the_next_one_has() -> None:
    memory = GroupMemory()
    memory.replaced(LEADER, [pod("a-0-1", "w1")])
    memory.replaced(LEADER, [pod("a-0-1", "w2")])
    memory.accept(LEADER)
    assert memory.replaced(LEADER, [pod("a-0-1", "w2")]) == ()
    assert memory.replaced(LEADER, [pod("a-0-1", "w3")]) == ("a-0-1",)


def test_a_group_that_is_gone_is_forgotten() -> None:
    memory = GroupMemory()
    memory.replaced(LEADER, [pod("a-0-1", "w1")])
    memory.forget("default", "a-0")
    assert memory.replaced(LEADER, [pod("a-0-1", "w2")]) == ()
