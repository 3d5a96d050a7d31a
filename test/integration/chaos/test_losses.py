"""What if pods are deleted and fail at random, a node goes with all that ran on it, or webhooks are down?

Budgets are about what managers do: what others take away is gone. But each loss costs its own group only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL
from test.integration.bad_days.proxied import Stage
from test.integration.chaos.load import FAILURES, create_fleet, floors_of, roll_to_the_end, rolling_out
from test.integration.chaos.record import Record
from test.integration.chaos.verdict import assert_never_below_the_budget, judge, now
from test.integration.controllers.harness.groups import Object, labels_of, name_of
from test.integration.controllers.harness.waiting import eventually
from test.integration.controllers.harness.world import World
from tools.localcluster import LocalCluster
from tools.localcluster.ports import pick_ports

pytestmark = pytest.mark.local_only

LOSSES = 12
# The more often a group has to be recreated, the longer it may have to wait.
LOSSES_PER_GROUP = 2
WEBHOOKS_AWAY_SECONDS = 8.0


def test_pods_are_lost_at_random_and_a_node_with_all_that_ran_on_it(
    stage: Stage, world: World, cluster: LocalCluster, record: Record, dice: random.Random
) -> None:
    manager = stage.start()
    names = create_fleet(world)
    node = dice.choice(world.list("Pod"))["spec"]["nodeName"]
    kept = world.api.get(f"/api/v1/nodes/{node}")
    world.api.delete(f"/api/v1/nodes/{node}")
    stranded = {name_of(pod): pod["metadata"]["uid"] for pod in on_node(world, node)}
    assert stranded
    with rolling_out(world, names, dice, seconds=4.0):
        lose_pods(world, cluster, dice)
        # Kubernetes gives a node that is gone 40 s to come back.
        eventually("nothing is left of the node", lambda: not on_node(world, node), seconds=120)
    again = {"metadata": {"name": node, "labels": kept["metadata"]["labels"]}}
    again["status"] = {each: kept["status"][each] for each in ("capacity", "allocatable")}
    world.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **again})
    roll_to_the_end(world, names, "server:last", seconds=180)
    assert manager.is_running
    judge(record, world.namespace, names)


def test_webhooks_are_down_while_pods_are_created(
    stage: Stage, world: World, cluster: LocalCluster, record: Record, dice: random.Random
) -> None:
    """No pod comes up that was not prepared, and none of the others is touched for that."""
    manager = stage.start()
    names = create_fleet(world)
    began = now()
    with rolling_out(world, names, dice, seconds=0.5):
        time.sleep(dice.uniform(1, 2))
        stage.deployment.point_webhooks_at(*pick_ports(1))
        time.sleep(WEBHOOKS_AWAY_SECONDS)
        stage.deployment.point_webhooks(manager)
    roll_to_the_end(world, names, "server:last")
    played = judge(record, world.namespace, names)
    assert_never_below_the_budget(played, began, floors_of(names))
    refused = [each for each in record.entries() if each.resource == "pods" and each.verb == "create"]
    assert any(not each.is_done for each in refused), "no pod was asked for meanwhile"


def lose_pods(world: World, cluster: LocalCluster, dice: random.Random) -> None:
    """Delete some pods, have others fail as if they were evicted, or have a container restart."""
    spared: dict[str, int] = {}
    for victim in victims(world, dice):
        group = f"{labels_of(victim)[NAME_LABEL]} {labels_of(victim)[GROUP_INDEX_LABEL]}"
        spared[group] = spared.get(group, 0) + 1
        if spared[group] > LOSSES_PER_GROUP:
            continue
        try:
            befall(world, cluster, dice, name_of(victim))
        except (LookupError, *FAILURES) as error:
            # It is gone already, or not even started.
            print(f"spared {name_of(victim)}: {error}")
        time.sleep(dice.uniform(0, 2))


def victims(world: World, dice: random.Random) -> Iterator[Object]:
    for _ in range(LOSSES):
        yield dice.choice(world.list("Pod"))


def befall(world: World, cluster: LocalCluster, dice: random.Random, pod: str) -> None:
    match dice.randrange(3):
        case 0:
            world.delete("Pod", pod)
        case 1:
            cluster.pods.fail(world.namespace, pod)
        case _:
            cluster.pods.restart_container(world.namespace, pod, "server", exit_code=137)


def on_node(world: World, node: str) -> list[Object]:
    return [pod for pod in world.list("Pod") if pod["spec"].get("nodeName") == node]
