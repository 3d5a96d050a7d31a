"""Stories of groups that use up `maxGroupRestarts` of their template, on a cluster in memory.

The groups end, stay ended, and are recreated when a user requests it. Their pods never block the deletion of
other objects.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lws.kube.conditions import find, moment_of
from lws.kube.metadata import is_terminating, name_of
from lws.leaderworkerset.restart_counts import count_key, counts_in, is_exhausted, is_kept
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.runtime.actions import Action, Delete
from lws.runtime.errors import Conflict, Throttled
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_RESTART_COUNTS_ANNOTATION,
    KIND,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
)
from test.unit.builders import make_pod_template
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.fake_manager import Crash
from test.unit.stories.hash_cluster import HashCluster
from test.unit.stories.test_hash_sets import make_hash_set
from test.unit.stories.test_restarts import LEADER, ON_RESTART, WORKER, World, container_restart, failing_at

OF_GROUP = {LEADER, WORKER}
Object = dict[str, Any]


class Exhausted(World):
    """A world in which group 0 of two has failed once more than it may be recreated."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int = 1, **spec: Any) -> None:
        super().__init__(loop, ON_RESTART, **spec)
        self.limit(limit)
        for _ in range(limit + 1):
            container_restart(self)
            self.settle()
            self.wait()

    def limit(self, limit: int | None) -> None:
        template = self.cluster.objects[KIND, NAME]["spec"]["leaderWorkerTemplate"]
        self.set(spec={"leaderWorkerTemplate": {**template, "maxGroupRestarts": limit}})
        self.settle()

    def recover(self) -> None:
        pod = self.pod(LEADER)
        annotations = {**pod["metadata"]["annotations"], RECOVER_ANNOTATION: "true"}
        self.cluster.change(pod, {"annotations": annotations})

    @property
    def kept(self) -> set[str]:
        """Names of the pods that the finalizer keeps. All of them are being deleted and have ended."""
        kept_metadata = [
            pod["metadata"]
            for pod in self.cluster.of_kind("Pod")
            if RESTART_BUDGET_FINALIZER in pod["metadata"].get("finalizers", ())
        ]
        assert all(
            "deletionTimestamp" in metadata and not metadata["deletionGracePeriodSeconds"]
            for metadata in kept_metadata
        )
        return {metadata["name"] for metadata in kept_metadata}

    @property
    def counts(self) -> dict[str, int]:
        """The recorded restarts by group."""
        text = self.cluster.objects[KIND, NAME]["metadata"].get("annotations", {})
        counts = json.loads(text.get(GROUP_RESTART_COUNTS_ANNOTATION, "{}"))
        return {key.rpartition("/")[2]: count for key, count in counts.items()}

    @property
    def conditions(self) -> dict[str, str]:
        return {condition["type"]: condition["status"] for condition in self.status["conditions"]}


def test_a_group_ends_and_stays_ended(loop: asyncio.AbstractEventLoop) -> None:
    world = Exhausted(loop, limit=2)
    assert (world.incarnations(LEADER), world.kept, world.counts) == (3, OF_GROUP, {"0": 2})
    stopped = {"Degraded": "True", "Available": "False", "Progressing": "False", "UpdateInProgress": "False"}
    assert world.conditions.items() >= stopped.items() and world.status["readyReplicas"] == 1
    for limit in (9, None):
        world.limit(limit)
        world.cluster.pass_time(3600)
        world.take_over()
        world.settle()
        world.wait()
        assert (world.incarnations(LEADER), world.kept, world.counts) == (3, OF_GROUP, {"0": 2})


def test_a_limit_of_zero_ends_a_group_at_once_and_counts_nothing(loop: asyncio.AbstractEventLoop) -> None:
    world = Exhausted(loop, limit=0)
    assert (world.incarnations(LEADER), world.kept, world.counts) == (1, OF_GROUP, {})


@pytest.mark.parametrize("is_another", [False, True], ids=["same manager", "another manager"])
def test_an_ended_group_is_recreated_on_request(loop: asyncio.AbstractEventLoop, is_another: bool) -> None:
    world = Exhausted(loop)
    world.recover()
    if is_another:
        world.take_over()
    world.settle()
    assert (world.incarnations(LEADER), world.kept, world.counts) == (3, set(), {})
    assert world.conditions["Degraded"] == "False" and world.conditions["Available"] == "True"
    container_restart(world)
    world.settle()
    world.wait()
    assert (world.incarnations(LEADER), world.counts) == (4, {"0": 1}), "with a budget of its own"


def scale_down(world: Exhausted) -> None:
    world.set(spec={"replicas": 0})


def roll_out(world: Exhausted) -> None:
    template = world.cluster.objects[KIND, NAME]["spec"]["leaderWorkerTemplate"]
    pod = {**template["workerTemplate"], "spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    world.set(spec={"leaderWorkerTemplate": {**template, "workerTemplate": pod}})


def delete_in_the_background(world: Exhausted) -> None:
    world.cluster.request_deletion(world.cluster.objects[KIND, NAME])


def delete_in_the_foreground(world: Exhausted) -> None:
    world.cluster.request_deletion(world.cluster.objects[KIND, NAME], foreground=True)


def delete_the_statefulset(world: Exhausted) -> None:
    world.cluster.request_deletion(world.cluster.objects["StatefulSet", NAME])


GOES = [scale_down, roll_out, delete_in_the_background, delete_in_the_foreground, delete_the_statefulset]


@pytest.mark.parametrize("is_away", [False, True], ids=["at once", "while no manager runs"])
@pytest.mark.parametrize("go", GOES)
def test_ended_groups_block_no_deletion(
    loop: asyncio.AbstractEventLoop, go: Callable[[Exhausted], None], is_away: bool
) -> None:
    world = Exhausted(loop)
    go(world)
    if is_away:
        world.settle(with_manager=False)
        world.take_over()
        world.manager.resync()
    world.settle()
    world.wait()
    assert world.kept == set()
    if go is scale_down:
        assert world.counts == {} and world.uids() == {}
    elif go in (roll_out, delete_the_statefulset):
        assert world.conditions["Available"] == "True" and world.conditions["Degraded"] == "False"
    else:
        assert world.uids() == {} and (KIND, NAME) not in world.cluster.objects


def test_the_worker_of_a_manually_released_leader_is_released(loop: asyncio.AbstractEventLoop) -> None:
    world = Exhausted(loop)
    leader = world.cluster.change(world.pod(LEADER), {"finalizers": None})
    world.cluster.end(leader)
    world.settle()
    assert world.kept == set() and world.incarnations(LEADER) == 3


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("is_recovered", [False, True], ids=["ended", "recovered"])
def test_a_failed_write_does_not_change_the_outcome(
    loop: asyncio.AbstractEventLoop, number: int, is_recovered: bool
) -> None:
    world = Exhausted(loop, limit=0)
    if not is_recovered:
        world.recover()
        world.settle()
    world.cluster.before_write = failing_at(number, Crash())
    if is_recovered:
        world.recover()
    else:
        container_restart(world)
    world.settle()
    world.wait()
    world.manager.resync()
    world.settle()
    assert (world.incarnations(LEADER), world.kept) == (2, set() if is_recovered else OF_GROUP)


def _outcome(world: Exhausted) -> tuple[int, set[str], dict[str, int], dict[str, str]]:
    return world.incarnations(LEADER), world.kept, world.counts, world.counted


def _fail_until_ended(
    loop: asyncio.AbstractEventLoop, limit: int, cut: Callable[[Exhausted], None]
) -> tuple[Exhausted, list[Any]]:
    """Let group 0 fail once more than the limit allows. Return the world and the outcome of each failure."""
    world, outcomes = Exhausted(loop, limit=0), []
    world.recover()
    world.settle()
    world.limit(limit)
    cut(world)
    for _ in range(limit + 1):
        if not world.kept:
            container_restart(world)
        world.settle()
        world.wait()
        world.manager.resync()
        world.settle()
        outcomes.append(_outcome(world))
    return world, outcomes


_CUTS: dict[str, Exception] = {
    "the process ends": Crash(),
    "refused": Throttled(429, "TooManyRequests", "later", 1.0),
    "overtaken": Conflict(409, "Conflict", "the object has been modified"),
}


@pytest.mark.parametrize(
    ("limit", "how"), [*itertools.product((0, 1, 2), ("the process ends", "refused")), (1, "overtaken")]
)
def test_a_cut_before_or_after_any_write_changes_no_count(
    loop: asyncio.AbstractEventLoop, limit: int, how: str
) -> None:
    """A cut before a write is a cut after the write before it."""
    world, expected = _fail_until_ended(loop, limit, lambda world: None)
    assert expected[-1][1:3] == (OF_GROUP, {"0": limit} if limit else {})
    number = 0
    while True:
        begun: list[int] = []

        def cut(world: Exhausted, number: int = number, begun: list[int] = begun) -> None:
            begun.append(world.cluster.writes)
            world.cluster.before_write = failing_at(number, _CUTS[how])

        world, outcomes = _fail_until_ended(loop, limit, cut)
        assert outcomes == expected, f"write {number}: {how}"
        if world.cluster.writes - begun[0] <= number:
            break
        number += 1
    assert number >= 4 + 4 * limit, (
        "each restart counts, records and deletes; the end marks, keeps and deletes"
    )


def test_groups_that_fail_at_the_same_time_are_all_counted(loop: asyncio.AbstractEventLoop) -> None:
    world = Exhausted(loop, limit=0)
    world.recover()
    world.limit(5)
    for name in (WORKER, f"{NAME}-1-1"):
        world.nodes.crash(world.pod(name))
    world.settle()
    world.wait()
    assert world.counts == {"0": 1, "1": 1}


def test_counts_do_not_grow_with_rollouts_that_a_partition_holds(loop: asyncio.AbstractEventLoop) -> None:
    """All annotations of an object may have 256 KiB. No rollout is ever done here."""
    world = World(loop, rolloutStrategy={"rollingUpdateConfiguration": {"partition": 1}})
    template = world.cluster.objects[KIND, NAME]["spec"]["leaderWorkerTemplate"]
    most = 0
    for number in range(6):
        pod = make_pod_template(image=f"app:{number + 2}")
        world.set(spec={"leaderWorkerTemplate": {**template, "maxGroupRestarts": 9, "workerTemplate": pod}})
        world.settle()
        world.wait()
        for name in (WORKER, f"{NAME}-1-1"):
            world.nodes.crash(world.pod(name))
            world.settle()
            world.wait()
        annotations = world.cluster.objects[KIND, NAME]["metadata"]["annotations"]
        counts = json.loads(annotations[GROUP_RESTART_COUNTS_ANNOTATION])
        most = max(most, len(counts))
        assert sum(counts.values()) == number + 2, "group 0 stays on the first revision, and keeps its count"
    assert most == 2


# --- Hash groups: a replacement has another key than the group before it ------------------------------------


POLICIES = pytest.mark.parametrize("policy", ["PostTermination", "Immediate"])


class HashGroups(HashCluster):
    """A cluster with two Hash groups of two pods, whose workers can be made to fail."""

    def __init__(self, limit: int | None = 1, size: int = 2, **how: Any) -> None:
        template = {**how.pop("template", {}), **({"maxGroupRestarts": limit} if limit is not None else {})}
        super().__init__(make_hash_set(**{"size": size, "template": template, **how}))
        self.restarted: list[str] = []

    def _do(self, action: Action) -> None:
        if any(announce.reason == "RecreateGroup" for announce in action.announce):
            assert isinstance(action, Delete)
            self.restarted.append(action.target.name)
        super()._do(action)

    async def fail(self, leader: Object | None = None) -> Object:
        """Fail a worker of this group, by default of the group with most restarts. Return the leader."""
        leader = leader or max(self.leaders(live=True), key=lambda pod: (self.count(pod), name_of(pod)))
        self.delete(self.objects["Pod", f"{leader['spec']['hostname']}-1"])
        await self.settle(seconds=700.0)
        return leader

    def limit(self, limit: int | None) -> None:
        self.edit(leaderWorkerTemplate={"maxGroupRestarts": limit})

    def mark(self, leader: Object, **annotations: str | None) -> None:
        self.change("Pod", name_of(leader), {"metadata": {"annotations": annotations}})

    def recover(self, value: str = "true") -> None:
        for pod in self.exhausted:
            self.mark(pod, **{RECOVER_ANNOTATION: value})

    def count(self, leader: Object) -> int:
        return self.counts.get(count_key(leader), 0)

    @property
    def counts(self) -> dict[str, int]:
        return counts_in(self.lws)

    @property
    def exhausted(self) -> list[Object]:
        return [pod for pod in self.leaders() if is_exhausted(pod)]

    @property
    def kept(self) -> list[str]:
        return [name_of(pod) for (kind, _), pod in self.objects.items() if kind == "Pod" and is_kept(pod)]

    def condition(self, name: str) -> dict[str, Any]:
        return dict(find(self.lws["status"]["conditions"], name) or {})

    def image(self, image: str) -> None:
        self.edit(leaderWorkerTemplate={"workerTemplate": make_pod_template(image)})


async def hash_groups(limit: int | None = 1, is_exhausted: bool = True, **how: Any) -> HashGroups:
    """Return a cluster in which one of two groups has failed once more than it may."""
    world = HashGroups(limit, **how)
    await world.settle()
    for _ in range((limit or 0) + 1 if is_exhausted else 0):
        await world.fail()
    return world


@POLICIES
async def test_a_lineage_of_hash_groups_ends_and_stays_ended(policy: str) -> None:
    world = await hash_groups(limit=2, size=3, groupReplacementPolicy=policy)
    (leader,), (waiting,) = world.exhausted, world.gated()
    assert world.counts == {count_key(leader): 2} and len(world.restarted) == 2
    assert sorted(world.kept) == sorted([name_of(leader), f"{leader['spec']['hostname']}-2"])
    assert (world.condition("Degraded")["status"], world.condition("Available")["status"]) == (
        "True",
        "False",
    )
    assert world.lws["status"]["readyReplicas"] == 1
    for limit in (9, None, 0):
        world.limit(limit)
        await world.settle(seconds=3600.0)
        assert (world.exhausted, world.gated()) == ([leader], [waiting]) and len(world.restarted) == 2


@POLICIES
async def test_a_limit_of_zero_ends_a_hash_group_at_once_and_counts_nothing(policy: str) -> None:
    world = await hash_groups(limit=0, groupReplacementPolicy=policy)
    assert (len(world.exhausted), len(world.gated()), world.counts, world.restarted) == (1, 1, {}, [])


@POLICIES
async def test_an_ended_hash_group_is_recreated_on_request(policy: str) -> None:
    world = await hash_groups(groupReplacementPolicy=policy)
    for value in ("True", "yes", ""):
        world.recover(value)
        await world.settle()
        assert len(world.exhausted) == 1
    world.recover()
    await world.settle()
    assert (world.kept, world.gated(), world.counts) == ([], [], {}) and len(world.leaders()) == 2
    assert world.condition("Degraded")["status"] == "False"
    await world.fail()
    assert list(world.counts.values()) == [1], "with a budget of its own"
    await world.fail()
    assert len(world.exhausted) == 1


async def test_hash_groups_that_fail_at_the_same_time_pass_on_their_own_counts() -> None:
    world = HashGroups(limit=5)
    world.crashing.add("app:1")
    for _ in range(60):
        await world.turn(700.0)
    assert len(world.exhausted) == 2 and sorted(world.counts.values()) == [5, 5]
    assert len(world.restarted) == 10


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_scale_down_removes_restart_counts(replicas: int) -> None:
    world = await hash_groups(limit=3, is_exhausted=False)
    await world.fail()
    assert list(world.counts.values()) == [1]
    failed = next(pod for pod in world.leaders() if world.count(pod))
    world.mark(failed, **{DELETION_COST_ANNOTATION: "-5"})
    world.edit(replicas=replicas)
    await world.settle()
    assert world.counts == {} and ("Pod", name_of(failed)) not in world.objects
    world.edit(replicas=2)
    await world.settle()
    assert world.counts == {} and len(world.leaders()) == 2


async def scale_hash_down(world: HashGroups) -> None:
    world.edit(replicas=1)


async def scale_hash_to_nothing(world: HashGroups) -> None:
    world.edit(replicas=0)


async def roll_hash_out(world: HashGroups) -> None:
    world.image("app:2")


async def delete_set(world: HashGroups) -> None:
    world.delete(world.lws)


async def delete_set_in_the_foreground(world: HashGroups) -> None:
    world.delete(world.lws, is_foreground=True)


async def delete_deployment(world: HashGroups) -> None:
    world.delete(world.objects["Deployment", "demo"])


async def release_leader_by_hand(world: HashGroups) -> None:
    (leader,) = world.exhausted
    world.change("Pod", name_of(leader), {"metadata": {"finalizers": None}})
    world.drop(world.objects["Pod", name_of(leader)])


HASH_GOES = [
    scale_hash_down,
    scale_hash_to_nothing,
    roll_hash_out,
    delete_set,
    delete_set_in_the_foreground,
    delete_deployment,
    release_leader_by_hand,
]


@POLICIES
@pytest.mark.parametrize("is_away", [False, True], ids=["at once", "while no manager runs"])
@pytest.mark.parametrize("go", HASH_GOES)
async def test_ended_hash_groups_block_no_deletion(
    go: Callable[[HashGroups], Awaitable[None]], is_away: bool, policy: str
) -> None:
    world = await hash_groups(groupReplacementPolicy=policy)
    await go(world)
    if is_away:
        await world.settle(with_manager=False)
    await world.settle()
    assert world.kept == [] and world.exhausted == []
    if go in (delete_set, delete_set_in_the_foreground):
        assert not world.objects.keys() & {("LeaderWorkerSet", "demo"), ("Deployment", "demo")}
        assert world.leaders() == []
        return
    replicas = world.lws["spec"]["replicas"]
    ready = world.lws["status"].get("readyReplicas", 0)
    assert len(world.leaders()) == ready == replicas and not world.gated()
    assert world.condition("Degraded")["status"] == "False"
    if go in (scale_hash_down, scale_hash_to_nothing, roll_hash_out):
        assert world.counts == {}
    else:
        assert list(world.counts.values()) == [1], "its lineage continues"


@POLICIES
async def test_ended_hash_groups_do_not_block_the_deletion_of_their_namespace(policy: str) -> None:
    """The pods are deleted first, and the set when none is left: so the set exists all the time."""
    world = await hash_groups(groupReplacementPolicy=policy)
    (leader,) = world.exhausted
    world.is_namespace_ending = True
    await world.turn(30.0)
    assert world.kept == [] and ("LeaderWorkerSet", "demo") in world.objects
    await world.turn()
    assert ("Pod", name_of(leader)) not in world.objects


async def test_ended_groups_of_an_orphaned_deployment_stay_ended() -> None:
    world = await hash_groups()
    (leader,) = world.exhausted
    world.orphan(world.objects["Deployment", "demo"])
    await world.settle()
    assert [name_of(pod) for pod in world.exhausted] == [name_of(leader)] and len(world.gated()) == 1


@POLICIES
@pytest.mark.parametrize("surge", [0, 1])
async def test_the_limit_applies_to_a_crashing_revision_with_a_surge(policy: str, surge: int) -> None:
    world = await hash_groups(
        limit=1, is_exhausted=False, replicas=3, max_surge=surge, groupReplacementPolicy=policy
    )
    world.crashing.add("app:bad")
    world.image("app:bad")
    for _ in range(60):
        await world.turn(700.0)
    ended = len(world.exhausted)
    assert 0 < ended <= 3 and len(world.restarted) == ended
    world.image("app:3")
    await world.settle()
    assert len(world.leaders()) == 3 and world.kept == [] and world.counts == {} and not world.gated()
    assert world.lws["status"]["updatedReplicas"] == 3


@POLICIES
@pytest.mark.parametrize("limit", [0, 2])
async def test_old_groups_get_no_more_restarts_while_a_rollout_is_stuck(policy: str, limit: int) -> None:
    """The pods of such groups are released at once, as the rollout is to replace the groups."""
    world = await hash_groups(limit=limit, is_exhausted=False, replicas=3, groupReplacementPolicy=policy)
    world.failing.add("app:bad")
    world.image("app:bad")
    await world.settle()
    before = len(world.restarted)
    world.crashing.add("app:1")
    for _ in range(60):
        await world.turn(700.0)
    assert (
        len(world.restarted) - before <= 2 * limit and world.events.count("ReplicaRestartBudgetExceeded") <= 2
    )
    world.image("app:3")
    await world.settle()
    assert len(world.leaders()) == 3 and world.kept == [] and world.counts == {} and not world.gated()


async def test_a_paused_set_keeps_its_ended_groups_and_recovers_them() -> None:
    world = await hash_groups()
    (leader,) = world.exhausted
    world.edit(rolloutStrategy={"paused": True})
    world.image("app:2")
    await world.settle()
    assert [name_of(pod) for pod in world.exhausted] == [name_of(leader)] and len(world.gated()) == 1
    world.recover()
    await world.settle()
    assert world.exhausted == [] and not world.gated() and len(world.leaders()) == 2
    for _ in range(2):
        await world.fail()
    assert len(world.exhausted) == 1
    world.edit(replicas=1)
    await world.settle()
    assert world.exhausted == [] and len(world.leaders()) == 1
    world.edit(rolloutStrategy={"paused": False})
    await world.settle()
    assert world.counts == {} and len(world.leaders()) == 1


async def test_a_changed_limit_applies_to_the_recorded_counts() -> None:
    world = await hash_groups(limit=5, is_exhausted=False)
    await world.fail()
    await world.fail()
    world.limit(None)
    await world.fail()
    assert sorted(world.counts.values()) == [2], "without a limit nothing is counted, and nothing forgotten"
    world.limit(3)
    await world.fail()
    assert sorted(world.counts.values()) == [3] and world.exhausted == []
    world.limit(1)
    await world.settle()
    assert world.exhausted == [], "a group that is well stays"
    await world.fail()
    assert len(world.exhausted) == 1


async def test_unreadable_counts_block_no_healthy_group() -> None:
    world = await hash_groups(is_exhausted=False)
    world.change(
        "LeaderWorkerSet", "demo", {"metadata": {"annotations": {GROUP_RESTART_COUNTS_ANNOTATION: "{"}}}
    )
    world.image("app:2")
    world.edit(replicas=3)
    await world.settle()
    assert len(world.leaders()) == 3 and not world.gated()
    assert world.condition("ReplicaFailure")["reason"] == "InvalidRestartCounts"
    leader = await world.fail(world.leaders()[0])
    assert name_of(leader) in {name_of(pod) for pod in world.leaders()}
    world.delete(world.lws)
    await world.settle()
    assert world.leaders() == []


async def test_a_group_that_is_marked_and_not_yet_deleted_is_not_released() -> None:
    """The pass over the set runs between the two writes."""
    world = await hash_groups(limit=0, is_exhausted=False)
    world.is_lost = lambda action: isinstance(action, Delete)
    leader = await world.fail(world.leaders()[0])
    assert [name_of(pod) for pod in world.exhausted] == [name_of(leader)]
    assert not is_terminating(world.exhausted[0])
    world.is_lost = lambda action: False
    await world.settle()
    assert [name_of(pod) for pod in world.exhausted] == [name_of(leader)]
    assert is_terminating(world.exhausted[0]) and world.events.count("ReplicaRestartBudgetExceeded") == 1


@pytest.mark.parametrize("number", range(16))
@pytest.mark.parametrize(
    ("limit", "policy"), [(0, "PostTermination"), (2, "PostTermination"), (2, "Immediate")]
)
async def test_a_lost_write_gives_a_lineage_no_extra_restart(policy: str, number: int, limit: int) -> None:
    world = await hash_groups(limit=limit, is_exhausted=False, groupReplacementPolicy=policy)
    writes = itertools.count()
    world.is_lost = lambda action: next(writes) == number
    for _ in range(limit + 1):
        if not world.exhausted:
            await world.fail()
    await world.settle(seconds=700.0)
    assert len(world.restarted) == limit and len(world.exhausted) == len(world.gated()) == 1
    world.recover()
    for _ in range(2):
        # If a write is lost, the pass is repeated although nothing else has changed.
        await world.settle()
    assert (world.kept, world.counts, world.gated()) == ([], {}, []) and len(world.leaders()) == 2


@POLICIES
async def test_the_back_off_of_the_template_doubles_along_a_lineage(policy: str) -> None:
    """10, 20, 40, 60, 60 seconds from the creation of each leader."""
    backoff = {"baseSeconds": 10, "capSeconds": 60}
    world = HashGroups(None, replicas=1, template={"restartBackoff": backoff}, groupReplacementPolicy=policy)
    world.crashing.add("app:1")
    created, waits = "", []
    for _ in range(300):
        await world.turn(1.0)
        live = world.leaders(live=True)
        if live and created and created != (now := live[0]["metadata"]["creationTimestamp"]):
            waits.append((moment_of(now) - moment_of(created)).total_seconds())  # type: ignore[operator]
        created = live[0]["metadata"]["creationTimestamp"] if live else created
    assert len(waits) >= 5
    for waited, least in zip(waits, [10, 20, 40, 60, 60], strict=False):
        assert least <= waited <= least + 15, waits
    assert list(world.counts.values()) == [len(world.restarted)]


async def test_a_group_keeps_its_count_when_its_labels_are_edited() -> None:
    world = await hash_groups(limit=3, is_exhausted=False)
    await world.fail()
    leader = next(pod for pod in world.leaders() if world.count(pod))
    before = world.counts
    labels = {GROUP_INDEX_LABEL: "7", GROUP_KEY_LABEL: "7", REVISION_LABEL: "x"}
    world.change("Pod", name_of(leader), {"metadata": {"labels": labels}})
    await world.settle()
    assert world.counts == before and world.count(world.objects["Pod", name_of(leader)]) == 1


@pytest.mark.parametrize("text", ['{"x":1,"r/7":2,"/":3}', "{}", '{"":0}'])
async def test_counts_of_missing_groups_are_removed(text: str) -> None:
    world = await hash_groups(is_exhausted=False)
    annotations = {GROUP_RESTART_COUNTS_ANNOTATION: text}
    world.change("LeaderWorkerSet", "demo", {"metadata": {"annotations": annotations}})
    await world.settle()
    assert world.counts == {} and len(world.leaders()) == 2
    for _ in range(2):
        await world.fail()
    assert len(world.exhausted) == 1 and len(world.restarted) == 1
