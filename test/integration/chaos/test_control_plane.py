"""Rollouts keep their guarantees while the API server and etcd are killed again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from test.harness.control_plane import restart_controllers
from test.harness.proxied import Stage
from test.harness.repeating import repeated
from test.harness.world import World
from test.integration.chaos.load import create_fleet, create_pair, floors_of, roll_out_completely, rolling_out
from test.integration.chaos.record import Record
from test.integration.chaos.verdict import assert_never_below_the_budget, judge, now
from tools.deployment import ManagerProcess
from tools.localcluster import LocalCluster

pytestmark = pytest.mark.local_only

API_SERVER, STORE = "kube-apiserver", "etcd"
DEATHS = ((API_SERVER,), (STORE,), (API_SERVER, STORE), (STORE,), (API_SERVER,))


def test_api_server_and_etcd_die_in_the_middle_of_rollouts(
    stage: Stage, world: World, cluster: LocalCluster, record: Record, dice: random.Random
) -> None:
    manager = stage.start()
    names = create_fleet(world)
    pair = create_pair(world)
    began = now()
    deaths: list[datetime] = []
    with kept_running(manager):
        with rolling_out(world, [*names, pair]):
            for victims in DEATHS:
                time.sleep(dice.uniform(1, 3))
                for name in victims:
                    cluster.kill_component(name)
                    if name == API_SERVER:
                        deaths.append(now())
                time.sleep(dice.uniform(0, 3))
                resumed = record.position()
                for name in reversed(victims):
                    cluster.component(name).start()
                for name in victims:
                    cluster.component(name).wait_healthy(240)
                # The last writes may not have been logged, and the manager may be faster.
                record.snapshot(resumed)
                restart_controllers(cluster)
        roll_out_completely(world, [*names, pair], "server:last")
    played = judge(record, world.namespace, names, pair)
    assert_never_below_the_budget(played, began, floors_of(names), deaths)


@contextmanager
def kept_running(manager: ManagerProcess) -> Iterator[None]:
    """Restart the manager as a Deployment does: it may exit if its stream of sets cannot continue."""

    def keep() -> None:
        if not manager.is_running:
            print("the manager has ended:", manager.last_words(3))
            manager.start()

    with repeated(keep, 0.5):
        yield
