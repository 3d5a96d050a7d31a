"""Tests of a lost leader StatefulSet while the user keeps changing the set before its status is reported."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Any, cast

import pytest

from lws.kube.conditions import is_true
from lws.leaderworkerset.assessment.assessment import assess, initial_rollout
from lws.leaderworkerset.observe.observer import Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.rollout.simulation import simulate
from lws.runtime.client.connection import Cluster
from lws_api.leaderworkerset.v1 import API_VERSION, KIND
from test.unit.builders import make_pod_template
from test.unit.stories import promises
from test.unit.stories.fake_cluster import NAME, NAMESPACE
from test.unit.stories.truth import ready_groups
from test.unit.stories.world import World


@pytest.mark.parametrize("unavailable", [0, "25%"])
@pytest.mark.parametrize("times", [1, 2], ids=["lost once", "lost twice"])
def test_a_change_before_the_first_status_report_replaces_nothing(
    loop: asyncio.AbstractEventLoop, times: int, unavailable: int | str
) -> None:
    """The StatefulSet gets no other template until it reports the one that its groups run. Until then it
    takes none of them, although its partition is 0 and all of them are outdated. (World checks each pass
    against the floor.)
    """
    world = World.settled(loop, False, "A", 1)
    world.configure(maxUnavailable=unavailable, maxSurge=1)
    world.change("B")
    world.settle()
    for _ in range(times):
        world.lose_leaders(leaves_pods=True)
        while world.manager.late or world.manager.queue.keys:
            for kind in world.manager.late:
                world.manager.read(kind)
            world.manager.run_pass()
        world.nodes.sync_all()
    statefulset = world.cluster.find("StatefulSet", NAME)
    world.change("C")
    world.manager.read(KIND)
    world.manager.read("Pod")
    assert world.manager.late == ["StatefulSet", "ControllerRevision"], "its report has not been read"
    while world.manager.run_pass():
        pass
    assert world.cluster.find("StatefulSet", NAME) == statefulset, "its spec is unchanged"
    fewest = 1
    while world.go_on_fairly(1):
        fewest = min(fewest, len(ready_groups(world.cluster)))
    assert fewest == 1
    world.settle()


@pytest.mark.parametrize("has_feature", [False, True], ids=["feature off", "feature on"])
def test_orphaned_leaders_do_not_count_as_a_wave_of_starts(
    loop: asyncio.AbstractEventLoop, has_feature: bool
) -> None:
    """With the replicas of the first wave, the StatefulSet would adopt all leaders and delete the surplus."""
    world = World.settled(loop, has_feature, "A", 6)
    world.start_in_waves(seedGroups=1)
    world.settle()
    world.lose_leaders(leaves_pods=True)
    fewest = 6
    while world.go_on_fairly(1):
        fewest = min(fewest, len(ready_groups(world.cluster)))
    assert fewest == 6
    world.settle()


def claims(size: str) -> dict[str, Any]:
    """Return fields of leaderWorkerTemplate with a claim of this size."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}


def with_larger_claims(spec: dict[str, Any], revision: str) -> dict[str, Any]:
    """Return a new set of that revision with larger claims, otherwise with the same spec."""
    pods = {"workerTemplate": make_pod_template(revision), "size": promises.SIZES[revision]}
    template = {**spec["leaderWorkerTemplate"], **claims("5Gi"), **pods}
    wish = {"kind": KIND, "apiVersion": API_VERSION, "metadata": {"name": NAME}}
    return {**wish, "spec": {**spec, "leaderWorkerTemplate": template}}


@pytest.mark.parametrize("is_seen", [False, True], ids=["before the new set", "after it"])
def test_a_set_gets_larger_claims_without_losing_more_groups_than_its_rollout_may(
    loop: asyncio.AbstractEventLoop, is_seen: bool
) -> None:
    """The set and its StatefulSet are deleted without their dependents. is_seen: whether the StatefulSet is
    only deleted after the manager has seen the new set.
    """
    world = World.new(loop, False, "A", 3)
    template = world.lws["spec"]["leaderWorkerTemplate"]
    world.cluster.change(
        world.lws, spec={**world.lws["spec"], "leaderWorkerTemplate": {**template, **claims("1Gi")}}
    )
    world.settle()
    world.floor.claim()
    former, spec = world.cluster.find("StatefulSet", NAME), world.lws["spec"]
    assert former is not None
    world.cluster.orphan(world.lws)
    if not is_seen:
        world.cluster.orphan(former)
    world.cluster.add(with_larger_claims(spec, "B"))
    if is_seen:
        world.go_on_fairly(3)
        world.cluster.orphan(world.cluster.objects["StatefulSet", NAME])
    fewest = 3
    for _ in range(60):
        if not world.go_on_fairly(1) and not world.manager.ring():
            break
        fewest = min(fewest, len(ready_groups(world.cluster)))
    assert fewest == 2, "maxUnavailable is 1"
    world.settle()
    for statefulset in world.cluster.of_kind("StatefulSet"):
        (claim,) = statefulset["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["resources"]["requests"] == {"storage": "5Gi"}, statefulset["metadata"]["name"]
    assert is_true(world.lws["status"]["conditions"], "Available")


@pytest.mark.parametrize("has_feature", [False, True])
def test_a_recreated_statefulset_moves_no_group_before_its_first_report(
    loop: asyncio.AbstractEventLoop, has_feature: bool
) -> None:
    """Until it has adopted the groups, all of them look lost. Two of six are broken."""
    world = World.new(loop, has_feature, "C", 6)
    template = world.lws["spec"]["leaderWorkerTemplate"]
    world.cluster.change(
        world.lws, spec={**world.lws["spec"], "leaderWorkerTemplate": {**template, **claims("1Gi")}}
    )
    world.configure(maxUnavailable=2)
    world.settle()
    world.floor.give_up()
    for name in (f"{NAME}-0-1", f"{NAME}-1-1"):
        worker = world.cluster.find("Pod", name)
        assert worker is not None
        world.nodes.hang(worker)
    world.go_on_fairly(3)
    former, spec = world.cluster.find("StatefulSet", NAME), world.lws["spec"]
    assert former is not None
    world.cluster.orphan(world.lws)
    world.cluster.orphan(former)
    world.cluster.add(with_larger_claims(spec, "F"))
    for _ in range(8):
        world.go_on_fairly(1)
        assert len(ready_groups(world.cluster)) >= 3


@pytest.mark.parametrize("steps", [0, 2, 4])
@pytest.mark.parametrize("rolling", [{}, {"maxSurge": 1, "maxUnavailable": 0}, {"maxUnavailable": 2}])
def test_the_recreation_of_a_lost_statefulset_is_predicted(
    loop: asyncio.AbstractEventLoop, steps: int, rolling: dict[str, int]
) -> None:
    """`plan --steps` predicts it: created with the former revision, then continued at the former position."""
    world = World.settled(loop, False, "A", 4)
    world.configure(**rolling)
    world.settle()
    if steps:
        world.change("B")
    while len(_positions(world)) <= steps and world.go_on_fairly(1):
        pass
    world.lose_leaders(leaves_pods=False)
    world.cluster.collect()
    began = len(world.cluster.log["StatefulSet"])
    for kind in world.manager.kinds:
        world.manager.read(kind)
    observer = Observer(cast(Cluster, world.cluster), world.manager._store, SetWrites(world.manager._store))
    snapshot = loop.run_until_complete(observer.observe_set(NAMESPACE, NAME, world.cluster.now))
    assert snapshot is not None and snapshot.leaders is None
    assessment = assess(snapshot)
    simulation = simulate(assessment.rollout, initial_rollout(snapshot, assessment))
    _play(world)
    predicted = [(step.rollout.partition, step.rollout.replicas) for step in simulation.steps]
    assert [position for position, _ in groupby(predicted)] == _positions(world, began)


def _play(world: World) -> None:
    """Play in the time of the model: controllers act until they are done, then every pod makes one move."""
    while True:
        version = world.cluster.version
        while world.manager.late or world.manager.queue.keys:
            for kind in world.manager.late:
                world.manager.read(kind)
            world.manager.run_pass()
        world.nodes.sync_all()
        if world.cluster.version != version:
            continue
        moves = world.nodes.moves()
        for move in moves:
            move()
        world.cluster.collect()
        if not moves and not world.manager.ring():
            return


def _positions(world: World, began: int = 0) -> list[tuple[int, int]]:
    """Return partition and replicas of the leader StatefulSet, each time they changed."""
    positions: list[tuple[int, int]] = []
    for is_deleted, obj in world.cluster.log["StatefulSet"][began:]:
        if is_deleted or obj["metadata"]["name"] != NAME:
            continue
        rolling = obj["spec"]["updateStrategy"]["rollingUpdate"]
        now = (rolling.get("partition", 0), obj["spec"]["replicas"])
        if not positions or positions[-1] != now:
            positions.append(now)
    return positions
