"""Stories of group restarts on a cluster in memory: one per incident whatever fails, and none without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lws.kube.pods import gate_of, is_pending
from lws.leaderworkerset.pod_identity import must_return_to
from lws.runtime.actions import Key, Plan
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE, KIND, NAME_LABEL
from test.unit.builders import make_set
from test.unit.stories import promises
from test.unit.stories.fake_cluster import NAME, FakeCluster
from test.unit.stories.fake_manager import Crash, FakeManager
from test.unit.stories.fake_nodes import FakeNodes

ON_RESTART, AFTER_START, NONE = "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"
_MOST_ROUNDS = 200
FORMER = "the pods of the former workers to be gone"
WORKER, LEADER = f"{NAME}-0-1", f"{NAME}-0"


class World:
    """A set of two groups of two ready pods."""

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: str = ON_RESTART, **spec: Any) -> None:
        self.cluster = FakeCluster(has_feature=False)
        self.nodes = FakeNodes(self.cluster)
        self.cluster.add(make_set(replicas=2, template={"restartPolicy": policy}, **spec))
        self._loop = loop
        self.waits: set[str] = set()
        """What passes have waited for so far."""
        self.take_over()
        self.settle()

    def take_over(self) -> None:
        """Replace the manager process."""
        self.cluster.before_write = lambda: None
        self.cluster.has_former = lambda pod: self.manager.has_former(pod)
        self.cluster.former_node = lambda pod: self.manager.former_node(pod)
        self.manager = FakeManager(self.cluster, self._loop, self.on_plan)

    def on_plan(self, key: Key, snapshot: Any, plan: Plan) -> None:
        """Record what a pass waits for."""
        self.waits.add(plan.waiting_for)

    def settle(self, with_manager: bool = True) -> None:
        """Play until nothing changes any more, without delayed passes."""
        for _ in range(_MOST_ROUNDS):
            if not self._round(with_manager):
                return
            self.cluster.pass_time(0.1)
        raise AssertionError("it never comes to rest")

    def _round(self, with_manager: bool) -> bool:
        did = False
        while self.cluster.collect():
            did = True
        moves = self.nodes.moves()
        for move in moves:
            move()
        did = self.nodes.sync_all() or bool(moves) or did
        while with_manager and (self.manager.late or self.manager.queue.keys):
            did = True
            for kind in self.manager.late:
                self.manager.read(kind)
            try:
                self.manager.run_pass()
            except Crash:
                self.take_over()
            promises.check_meetings(self.cluster.of_kind("Pod"), self.cluster.made_for)
        return did

    def wait(self) -> None:
        """Advance the clock until all delayed passes have had their turn."""
        for _ in range(3):
            self.manager.ring()
            self.settle()

    def set(self, **parts: Any) -> None:
        lws = self.cluster.objects[KIND, NAME]
        self.cluster.change(
            lws, **{part: {**(lws.get(part) or {}), **value} for part, value in parts.items()}
        )

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.objects["Pod", name]

    def uids(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.cluster.of_kind("Pod")}

    def replace_worker(self) -> None:
        """Replace a worker while no manager runs."""
        self.cluster.request_deletion(self.pod(WORKER))
        self.settle(with_manager=False)

    def incarnations(self, name: str) -> int:
        """Return how many pods have had this name."""
        return len(
            {pod["metadata"]["uid"] for _, pod in self.cluster.log["Pod"] if pod["metadata"]["name"] == name}
        )

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.objects[KIND, NAME]["status"]
        return status

    @property
    def counted(self) -> dict[str, str]:
        """Recorded restarts by group: on this revision, and in a row."""
        stored = self.status.get("restarts") or {}
        return {index: ".".join(text.split(".")[:2]) for index, text in stored.items()}


def failing_at(number: int, failure: Exception) -> Callable[[], None]:
    """Return a hook that fails the write of this number and no other."""
    remaining = number

    def before_write() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == -1:
            raise failure

    return before_write


def container_restart(world: World) -> None:
    world.nodes.crash(world.pod(WORKER))


def replacement(world: World) -> None:
    world.replace_worker()
    world.take_over()


def test_a_replaced_worker_restarts_its_group_under_every_policy_but_none(
    loop: asyncio.AbstractEventLoop,
) -> None:
    for policy, restarts in ((ON_RESTART, 1), (AFTER_START, 1), (NONE, 0)):
        world = World(loop, policy)
        replacement(world)
        world.settle()
        assert world.incarnations(LEADER) == 1 + restarts, policy


def test_another_manager_tells_restarts_after_the_start_from_those_of_the_start(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop, AFTER_START)

    def crash_while_no_manager_runs() -> None:
        world.nodes.crash(world.pod(LEADER))
        world.settle(with_manager=False)
        take_over()

    def take_over() -> None:
        world.take_over()
        world.settle()
        world.wait()

    world.nodes.crash(world.pod(WORKER))
    while world.incarnations(LEADER) < 2 or is_pending(world.pod(LEADER)):
        assert world._round(with_manager=True)
    assert WORKER not in world.uids() or is_pending(world.pod(WORKER))
    world.nodes.crash(world.pod(LEADER))
    world.settle()
    world.wait()
    assert (world.incarnations(LEADER), world.status["readyReplicas"]) == (2, 2), "it was starting"
    take_over()
    assert world.incarnations(LEADER) == 2, "the status records that it was"
    crash_while_no_manager_runs()
    assert (world.incarnations(LEADER), world.status["readyReplicas"]) == (3, 2)


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_worker_that_waits_for_a_cordoned_node_is_released_without_another_restart(
    loop: asyncio.AbstractEventLoop, is_broken: bool
) -> None:
    """is_broken: the stream of pods breaks after the release, and lists the successor."""
    world = World(loop, ON_RESTART, annotations={NODE_RETURN_ANNOTATION: "Required"})
    before = world.uids()
    world.cluster.request_deletion(world.pod(LEADER))
    while world.uids().get(WORKER) in (None, before[WORKER]):
        world._round(with_manager=True)
    world.cluster.cordoned.add(must_return_to(world.pod(WORKER)))
    world.settle()
    waiting = world.uids()
    while world.uids().get(WORKER) == waiting[WORKER]:
        assert world.manager.run_pass() or world.manager.ring(), "it is never released"
    world.nodes.sync_all()
    if is_broken:
        world.manager.relist("Pod")
    world.settle()
    world.wait()
    changed = {name for name, uid in world.uids().items() if waiting[name] != uid}
    assert changed == {WORKER} and world.pod(WORKER)["spec"]["nodeName"]
    assert (world.counted, world.status["readyReplicas"]) == ({}, 2)


def test_a_recreated_leader_gets_workers_once_the_former_workers_are_gone(
    loop: asyncio.AbstractEventLoop,
) -> None:
    for policy in (ON_RESTART, AFTER_START, NONE):
        world = World(loop, policy)
        before = world.uids()
        world.nodes.held.add(before[WORKER])
        world.cluster.request_deletion(world.pod(LEADER))
        world.settle()
        assert world.uids()[LEADER] != before[LEADER] and world.uids()[WORKER] == before[WORKER]
        assert ("StatefulSet", LEADER) not in world.cluster.objects, "its worker has a name still"
        world.nodes.held.clear()
        world.settle()
        assert not set(world.uids().values()) & {before[LEADER], before[WORKER]}, "no leader waits any longer"
        assert (world.nodes.refused, world.counted, world.status["readyReplicas"]) == (set(), {}, 2), policy
        waited_for = f"the pods of the previous group {LEADER[-1]} to be gone"
        assert any(wait.startswith(waited_for) for wait in world.waits)


def test_a_new_leader_never_meets_former_workers_that_terminate_slowly(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop)
    former = world.pod(WORKER)
    world.nodes.held.add(former["metadata"]["uid"])
    world.cluster.request_deletion(world.pod(LEADER))
    world.settle()
    world.wait()
    assert gate_of(world.pod(LEADER)) == GROUP_REPLACEMENT_GATE
    world.take_over()
    world.settle()
    assert gate_of(world.pod(LEADER)) == GROUP_REPLACEMENT_GATE, "another manager knows it too"
    labels = {NAME_LABEL: NAME}
    world.cluster.change(world.pod(WORKER), {"labels": labels})
    world.settle()
    world.wait()
    assert gate_of(world.pod(LEADER)) == GROUP_REPLACEMENT_GATE, "whatever is edited off them"
    world.nodes.held.clear()
    world.settle()
    assert (world.counted, world.status["readyReplicas"]) == ({}, 2)


def test_a_lost_or_garbled_record_restarts_nothing(loop: asyncio.AbstractEventLoop) -> None:
    for members in (None, {}, {"0": "garbled"}, {"0": "00000000-00000000"}):
        world = World(loop)
        world.set(status={"members": members})
        replacement(world)
        world.settle()
        assert world.incarnations(LEADER) == 1, members
        assert set(world.status["members"]) == {"0", "1"}, "the record begins again"
        world.replace_worker()
        world.take_over()
        world.settle()
        assert world.incarnations(LEADER) == 2, "and from then on it counts"


def test_a_worker_lost_under_a_former_policy_restarts_nothing(loop: asyncio.AbstractEventLoop) -> None:
    world = World(loop)
    template = world.cluster.objects[KIND, NAME]["spec"]["leaderWorkerTemplate"]
    world.set(spec={"leaderWorkerTemplate": {**template, "restartPolicy": NONE}})
    world.settle()
    replacement(world)
    world.set(spec={"leaderWorkerTemplate": {**template, "restartPolicy": ON_RESTART}})
    world.settle()
    assert (world.incarnations(LEADER), world.counted) == (1, {})
    replacement(world)
    world.settle()
    assert (world.incarnations(LEADER), world.counted) == (2, {"0": "1.1"})


def test_a_worker_lost_under_another_manager_restarts_nothing(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The former manager held the Lease, lost it and holds it again. Its streams continued meanwhile."""
    world = World(loop)
    former = world.manager
    world.take_over()
    template = world.cluster.objects[KIND, NAME]["spec"]["leaderWorkerTemplate"]
    world.set(spec={"leaderWorkerTemplate": {**template, "restartPolicy": NONE}})
    world.settle()
    replacement(world)
    world.set(spec={"leaderWorkerTemplate": {**template, "restartPolicy": ON_RESTART}})
    world.settle()
    world.manager = former
    former.begin_term()
    world.settle()
    assert (world.incarnations(LEADER), world.counted) == (1, {}), "a healthy group"
    replacement(world)
    world.settle()
    assert (world.incarnations(LEADER), world.counted) == (2, {"0": "1.1"})


@pytest.mark.parametrize("change", ["image", "size"])
def test_a_rollout_restarts_nothing_if_the_manager_crashes(
    loop: asyncio.AbstractEventLoop, change: str
) -> None:
    changed = make_set(image="app:2") if change == "image" else make_set(size=3)
    for number in (0, 2, 5, 9):
        world = World(loop)
        world.cluster.before_write = failing_at(number, Crash())
        world.set(spec={"leaderWorkerTemplate": changed["spec"]["leaderWorkerTemplate"]})
        world.settle()
        world.wait()
        assert world.counted == {}, f"write {number} failed"
        assert FORMER not in world.waits, "leaders go after their workers"
        assert (world.incarnations(LEADER), world.incarnations(f"{NAME}-1")) == (2, 2), (
            f"write {number} failed"
        )
        assert world.status["readyReplicas"] == world.status["updatedReplicas"] == 2


def test_a_stuck_rollout_keeps_only_groups_that_serve(
    loop: asyncio.AbstractEventLoop,
) -> None:
    for is_ready_again in (True, False):
        world = World(loop)
        world.nodes.hopeless = frozenset({"app:2"})
        world.set(spec={"leaderWorkerTemplate": make_set(image="app:2")["spec"]["leaderWorkerTemplate"]})
        world.settle()
        world.wait()
        assert (
            world.incarnations(LEADER),
            world.incarnations(f"{NAME}-1"),
            world.status["readyReplicas"],
        ) == (1, 2, 1)

        if not is_ready_again:
            world.nodes.stuck.add(world.pod(WORKER)["metadata"]["uid"])
        container_restart(world)
        world.settle(with_manager=False)
        world.settle()
        world.wait()
        if is_ready_again:
            assert (world.incarnations(LEADER), world.counted) == (1, {}), "it is all that serves"
            world.cluster.pass_time(600)
            world.wait()
            assert (world.incarnations(LEADER), world.counted) == (2, {"0": "1.1"}), (
                "the longest back-off is over"
            )
        else:
            # The rollout may reach a group that serves no traffic before the restart does, or after.
            assert world.incarnations(LEADER) in (2, 3), "it costs nothing"
            assert world.counted == {"0": "1.1"}
        world.nodes.hopeless = frozenset()
        world.settle()
        world.wait()
        assert world.status["readyReplicas"] == world.status["updatedReplicas"] == 2


def test_manually_scaled_workers_are_restored_without_a_restart(loop: asyncio.AbstractEventLoop) -> None:
    world = World(loop)
    before = world.uids()
    for replicas in (3, 5, 3):
        statefulset = world.cluster.objects["StatefulSet", LEADER]
        world.cluster.change(statefulset, spec={**statefulset["spec"], "replicas": replicas})
        world.settle(with_manager=False)
        world.take_over()
        world.settle()
    assert (world.uids(), world.counted) == (before, {})


def test_a_repeatedly_failing_group_backs_off_and_is_finally_kept(
    loop: asyncio.AbstractEventLoop,
) -> None:
    world = World(loop, maxGroupRestarts=2)
    container_restart(world)
    world.settle()
    assert (world.incarnations(LEADER), world.counted) == (2, {"0": "1.1"})

    container_restart(world)
    world.settle()
    assert world.incarnations(LEADER) == 2, "the deletion waits"
    world.take_over()
    world.settle()
    assert world.incarnations(LEADER) == 2, "also after a takeover"
    world.wait()
    assert (world.incarnations(LEADER), world.counted) == (3, {"0": "2.2"})

    container_restart(world)
    world.settle()
    world.cluster.pass_time(3600)
    world.manager.resync()
    world.settle()
    assert world.incarnations(LEADER) == 3, "it is left as it is"
    conditions = {condition["type"]: condition["status"] for condition in world.status["conditions"]}
    assert conditions["Failed"] == "True"

    world.set(spec={"maxGroupRestarts": 3})
    world.settle()
    world.wait()
    conditions = {condition["type"]: condition["status"] for condition in world.status["conditions"]}
    assert (world.incarnations(LEADER), world.counted["0"], conditions["Failed"]) == (4, "3.1", "False")


def evict(world: World) -> None:
    """Mark and delete a worker, as the eviction API, a preemption or a drain does."""
    reason = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    pod = world.pod(WORKER)
    conditions = [*pod["status"]["conditions"], reason]
    world.cluster.request_deletion(
        world.cluster.change(pod, status={**pod["status"], "conditions": conditions})
    )


@pytest.mark.parametrize("is_late", [False, True], ids=["seen terminating", "seen after its replacement"])
@pytest.mark.parametrize("limit", [{}, {"maxGroupRestarts": 1}], ids=["unlimited", "one restart"])
def test_a_repeatedly_evicted_group_is_recreated_at_once_and_not_counted(
    loop: asyncio.AbstractEventLoop, limit: dict[str, Any], is_late: bool
) -> None:
    world = World(loop, **limit)
    for time in range(1, 6):
        evict(world)
        world.settle(with_manager=not is_late)
        world.settle()
        assert (world.incarnations(LEADER), world.counted) == (1 + time, {}), (
            "once for each, neither missed nor more"
        )
    container_restart(world)
    world.settle()
    assert (world.incarnations(LEADER), world.counted) == (7, {"0": "1.1"}), "a failure still is one"


def test_an_eviction_is_counted_at_most_once_even_if_a_write_fails(loop: asyncio.AbstractEventLoop) -> None:
    for number in range(4):
        world = World(loop)
        world.cluster.before_write = failing_at(number, Crash())
        evict(world)
        world.settle()
        world.wait()
        assert world.incarnations(LEADER) == 2
        assert world.counted in ({}, {"0": "1.1"})
