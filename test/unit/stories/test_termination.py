"""Stories of `podTerminationPolicy` on a cluster in memory.

They show when the workers of a leader deleted in the background are terminated, and that no next leader meets
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lws.kube.metadata import is_terminating
from lws.kube.pods import gate_of
from lws_api.leaderworkerset.v1 import KIND, POD_TERMINATION_POLICY_ANNOTATION
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.fake_manager import Crash
from test.unit.stories.test_restarts import AFTER_START, LEADER, NONE, ON_RESTART, WORKER, World, failing_at

Way = Callable[[World], None]
PARALLEL, DEFAULT = {"podTerminationPolicy": "Parallel"}, {"podTerminationPolicy": "Default"}


def delete_the_leader(world: World) -> None:
    """Delete the leader as an eviction does."""
    world.cluster.request_deletion(world.pod(LEADER))


def scale_down(world: World) -> None:
    world.set(spec={"replicas": 0})


def delete_the_set(world: World) -> None:
    world.cluster.end(world.cluster.objects[KIND, NAME])


def delete_the_leader_statefulset(world: World) -> None:
    world.cluster.end(world.cluster.objects["StatefulSet", NAME])


IN_THE_BACKGROUND = [delete_the_leader, scale_down, delete_the_set, delete_the_leader_statefulset]


def begin(world: World, go: Way) -> None:
    """Begin the deletion while the node of the leader takes long."""
    world.nodes.held.add(world.uids()[LEADER])
    go(world)
    world.settle()


def is_alive(world: World, name: str) -> bool:
    pod = world.cluster.find("Pod", name)
    return pod is not None and not is_terminating(pod)


def assert_ended(world: World, go: Way) -> None:
    """Let the nodes finish, and check that all is as it would be under the other policy."""
    world.nodes.held.clear()
    world.settle()
    world.wait()
    if go in (delete_the_leader, delete_the_leader_statefulset):
        assert len(world.uids()) == 4 and world.status["readyReplicas"] == 2
        assert all(is_alive(world, name) for name in world.uids())
        assert world.counted == {}, "no failure is counted"
    else:
        assert world.uids() == {} and not [*world.cluster.of_kind("StatefulSet")][go is scale_down :]


@pytest.mark.parametrize("go", IN_THE_BACKGROUND)
@pytest.mark.parametrize(("policy", "waits"), [({}, True), (DEFAULT, True), (PARALLEL, False)])
def test_workers_are_terminated_with_their_leader(
    loop: asyncio.AbstractEventLoop, go: Way, policy: dict[str, str], waits: bool
) -> None:
    world = World(loop, ON_RESTART, **policy)
    begin(world, go)
    assert (WORKER in world.uids(), is_alive(world, WORKER)) == (waits, waits)
    assert is_terminating(world.pod(LEADER))
    assert_ended(world, go)


def test_the_next_leader_gets_no_workers_before_the_former_workers_are_gone(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop, ON_RESTART, **PARALLEL)
    former = world.cluster.objects["StatefulSet", LEADER]["metadata"]["uid"]
    world.nodes.held.add(world.uids()[WORKER])
    begin(world, delete_the_leader)
    world.nodes.held.remove(world.uids()[LEADER])
    world.settle()
    world.cluster.pass_time(3600)
    world.wait()
    assert is_alive(world, LEADER) and not is_alive(world, WORKER)
    assert world.cluster.objects["StatefulSet", LEADER]["metadata"]["uid"] == former
    assert any("the StatefulSet of the former leader pod to be gone" in wait for wait in world.waits)
    assert_ended(world, delete_the_leader)
    assert (world.incarnations(LEADER), world.incarnations(WORKER)) == (2, 2)
    assert LEADER not in world.nodes.refused and WORKER not in world.nodes.refused


@pytest.mark.parametrize("go", [delete_the_leader, delete_the_set])
@pytest.mark.parametrize(
    ("then", "now"), [({}, PARALLEL), (PARALLEL, DEFAULT), (PARALLEL, {"podTerminationPolicy": None})]
)
def test_a_changed_policy_takes_effect_at_once_and_restarts_nothing(
    loop: asyncio.AbstractEventLoop, go: Way, then: dict[str, str], now: dict[str, str]
) -> None:
    world = World(loop, ON_RESTART, **then)
    before, writes = world.uids(), world.cluster.writes
    world.set(spec=now)
    world.settle()
    world.wait()
    notes = {
        statefulset["metadata"]["annotations"].get(POD_TERMINATION_POLICY_ANNOTATION)
        for statefulset in world.cluster.of_kind("StatefulSet")
        if statefulset["metadata"]["name"] != NAME
    }
    assert notes == {now["podTerminationPolicy"] or "Default"} and world.uids() == before
    # A note on each worker StatefulSet, and the status.
    assert world.cluster.writes <= writes + 3
    begin(world, go)
    assert is_alive(world, WORKER) == (now is not PARALLEL)
    assert_ended(world, go)


def test_a_set_without_the_policy_gets_no_annotation(loop: asyncio.AbstractEventLoop) -> None:
    world = World(loop, ON_RESTART)
    writes = world.cluster.writes
    world.set(spec=DEFAULT)
    world.settle()
    world.wait()
    stored = str(list(world.cluster.of_kind("StatefulSet")))
    assert POD_TERMINATION_POLICY_ANNOTATION not in stored and world.cluster.writes <= writes + 1


@pytest.mark.parametrize(("note", "is_ended"), [("Parallel", True), ("Default", False)])
def test_upstream_annotations_on_leaders_apply_after_the_set_is_gone(
    loop: asyncio.AbstractEventLoop, note: str, is_ended: bool
) -> None:
    world = World(loop, ON_RESTART)
    for name in (LEADER, f"{NAME}-1"):
        annotations = {**world.pod(name)["metadata"]["annotations"], POD_TERMINATION_POLICY_ANNOTATION: note}
        world.cluster.change(world.pod(name), {"annotations": annotations})
    world.set(spec={"podTerminationPolicy": note})
    writes = world.cluster.writes
    world.settle()
    world.wait()
    assert world.cluster.writes <= writes + 1, "only a status: the note is there"
    begin(world, delete_the_set)
    assert is_alive(world, WORKER) != is_ended
    assert_ended(world, delete_the_set)


@pytest.mark.parametrize("go", [delete_the_leader, delete_the_set, delete_the_leader_statefulset])
def test_a_late_manager_terminates_workers_too(loop: asyncio.AbstractEventLoop, go: Way) -> None:
    world = World(loop, ON_RESTART, **PARALLEL)
    world.nodes.held.add(world.uids()[LEADER])
    go(world)
    world.settle(with_manager=False)
    assert is_alive(world, WORKER)
    world.take_over()
    world.settle()
    world.manager.resync()
    world.settle()
    assert not is_alive(world, WORKER)
    assert_ended(world, go)


@pytest.mark.parametrize("go", IN_THE_BACKGROUND)
@pytest.mark.parametrize("number", range(4))
def test_a_failed_write_does_not_change_the_outcome(
    loop: asyncio.AbstractEventLoop, go: Way, number: int
) -> None:
    world = World(loop, ON_RESTART, **PARALLEL)
    world.cluster.before_write = failing_at(number, Crash())
    begin(world, go)
    world.manager.resync()
    world.settle()
    assert not is_alive(world, WORKER)
    assert_ended(world, go)


@pytest.mark.parametrize("policy", [ON_RESTART, AFTER_START, NONE])
def test_workers_of_a_leader_deleted_with_orphan_propagation_never_meet_the_next_one(
    loop: asyncio.AbstractEventLoop, policy: str
) -> None:
    world = World(loop, policy, **PARALLEL)
    before = world.uids()
    pod = world.cluster.change(world.pod(LEADER), {"finalizers": ["orphan"]})
    world.cluster.request_deletion(pod)
    world.settle()
    assert is_terminating(world.pod(LEADER)) and is_alive(world, WORKER)
    # The garbage collector removes the owner reference, then the finalizer.
    statefulset = world.cluster.objects["StatefulSet", LEADER]
    world.cluster.change(statefulset, {"ownerReferences": None})
    world.cluster.end(world.cluster.change(world.pod(LEADER), {"finalizers": None}))
    world.settle()
    world.wait()
    after = world.uids()
    assert {name for name, uid in after.items() if before[name] != uid} == {LEADER, WORKER}
    assert (world.incarnations(LEADER), world.incarnations(WORKER)) == (2, 2)
    assert not gate_of(world.pod(LEADER)) and world.status["readyReplicas"] == 2


@pytest.mark.parametrize("is_unowned", [False, True], ids=["owned by their StatefulSet", "without an owner"])
def test_left_workers_are_deleted_by_a_manager_that_has_not_seen_their_leader_go(
    loop: asyncio.AbstractEventLoop, is_unowned: bool
) -> None:
    world = World(loop, ON_RESTART)
    before, workers = world.uids(), world.cluster.objects["StatefulSet", LEADER]
    world.cluster.orphan(world.pod(LEADER))
    if is_unowned:
        world.cluster.orphan(workers)
    world.settle(with_manager=False)
    world.take_over()
    world.settle()
    world.wait()
    changed = {name for name, uid in world.uids().items() if before[name] != uid}
    assert changed == {LEADER, WORKER} and world.status["readyReplicas"] == 2


def test_a_set_deleted_without_its_dependents_is_created_again_without_a_restart(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop, ON_RESTART)
    before, lws = world.uids(), world.cluster.objects[KIND, NAME]
    world.cluster.orphan(lws)
    world.settle()
    world.cluster.add({**lws, "metadata": {"name": NAME}, "status": {}})
    world.settle()
    world.wait()
    assert world.uids() == before and world.status["readyReplicas"] == 2


def test_a_gated_leader_is_admitted_after_its_set_was_deleted_without_it(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Its StatefulSet goes on, and so does its group as soon as the set is created again."""
    world = World(loop, ON_RESTART)
    worker, lws = world.uids()[WORKER], world.cluster.objects[KIND, NAME]
    world.nodes.held.add(worker)
    world.cluster.request_deletion(world.pod(LEADER))
    world.settle()
    world.cluster.orphan(lws)
    world.settle()
    assert gate_of(world.pod(LEADER)), "a pod of its former group is left"
    world.nodes.held.clear()
    world.settle()
    leader = world.uids()[LEADER]
    assert not gate_of(world.pod(LEADER))
    world.cluster.add({**lws, "metadata": {"name": NAME}, "status": {}})
    world.settle()
    world.wait()
    assert world.uids()[LEADER] == leader and world.status["readyReplicas"] == 2
