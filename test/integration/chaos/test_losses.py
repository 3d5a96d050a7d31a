"""Rollouts keep their guarantees while pods are deleted and fail, a node is lost, or webhooks are down.

A budget limits only what managers do, not other clients. But each loss affects its own group only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL
from test.harness.drains import without_node
from test.harness.groups import Object, labels_of, name_of, settle
from test.harness.manifests import a_set
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import World
from test.integration.chaos.load import (
    FAILURES,
    FOREIGN_SET,
    changing_images,
    create_fleet,
    create_foreign_set,
    create_pair,
    floors_of,
    roll_out_completely,
    rolling_out,
)
from test.integration.chaos.record import Record
from test.integration.chaos.replay import groups_of
from test.integration.chaos.verdict import assert_left_alone, assert_never_below_the_budget, judge, now
from tools.localcluster import LocalCluster
from tools.localcluster.ports import pick_ports

pytestmark = pytest.mark.local_only

STRANDED = "stranded"
LOSSES = 12
# The more often a group is recreated, the longer it may have to wait.
LOSSES_PER_GROUP = 2
WEBHOOKS_AWAY_SECONDS = 5.0


def test_random_pod_losses_and_a_node_loss(
    stage: Stage, world: World, cluster: LocalCluster, record: Record, dice: random.Random
) -> None:
    manager = stage.start()
    names, pair = create_fleet(world), create_pair(world)
    world.create(a_set(STRANDED, replicas=2, size=2))
    settle(world, STRANDED)
    create_foreign_set(world)
    worker = world.get("Pod", f"{STRANDED}-1-1")
    every = [*names, pair]
    with without_node(world, worker["spec"]["nodeName"]), changing_images(world, every, dice, seconds=4.0):
        lose_pods(world, cluster, dice)
        # Kubernetes waits 40 s for a lost node to return.
        world.gone_or_replaced("Pod", name_of(worker), worker["metadata"]["uid"], seconds=300)
        roll_out_completely(world, [STRANDED], "server:1")
    roll_out_completely(world, every, "server:last", seconds=300)
    assert manager.is_running
    assert_left_alone(record, FOREIGN_SET)
    played = judge(record, world.namespace, [*names, STRANDED], pair)
    leaders = dict(groups_of(played[STRANDED]))
    assert len(leaders[1]) == 2, "the group of the worker was recreated exactly once"


def test_webhook_outage_while_pods_are_created(
    stage: Stage, world: World, cluster: LocalCluster, record: Record, dice: random.Random
) -> None:
    """No pod becomes ready without having been reviewed, and no other pod is restarted for that."""
    manager = stage.start()
    names, pair = create_fleet(world), create_pair(world)
    began = now()
    with rolling_out(world, [*names, pair]):
        time.sleep(dice.uniform(1, 2))
        stage.deployment.point_webhooks_at(*pick_ports(1))
        eventually("a pod creation is rejected", lambda: pod_was_rejected(record), seconds=300)
        time.sleep(WEBHOOKS_AWAY_SECONDS)
        stage.deployment.point_webhooks(manager)
    roll_out_completely(world, [*names, pair], "server:last")
    played = judge(record, world.namespace, names, pair)
    assert_never_below_the_budget(played, began, floors_of(names))


def pod_was_rejected(record: Record) -> bool:
    creations = [entry for entry in record.entries() if entry.resource == "pods" and entry.verb == "create"]
    return any(not entry.is_done for entry in creations)


def lose_pods(world: World, cluster: LocalCluster, dice: random.Random) -> None:
    """Delete some pods, make others fail as if evicted, or restart a container."""
    spared: dict[str, int] = {}
    for victim in victims(world, dice):
        group = f"{labels_of(victim)[NAME_LABEL]} {labels_of(victim)[GROUP_INDEX_LABEL]}"
        spared[group] = spared.get(group, 0) + 1
        if spared[group] > LOSSES_PER_GROUP:
            continue
        try:
            delete_or_fail(world, cluster, dice, name_of(victim))
        except (LookupError, *FAILURES) as error:
            # The pod is gone already, or has not even started.
            print(f"spared {name_of(victim)}: {error}")
        time.sleep(dice.uniform(0, 2))


def victims(world: World, dice: random.Random) -> Iterator[Object]:
    for _ in range(LOSSES):
        yield dice.choice(world.list("Pod", f"{NAME_LABEL},{NAME_LABEL}!={STRANDED}"))


def delete_or_fail(world: World, cluster: LocalCluster, dice: random.Random, pod: str) -> None:
    match dice.randrange(3):
        case 0:
            world.delete("Pod", pod)
        case 1:
            cluster.pods.fail(world.namespace, pod)
        case _:
            cluster.pods.restart_container(world.namespace, pod, "server", exit_code=137)
