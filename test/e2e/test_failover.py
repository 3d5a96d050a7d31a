"""A second manager takes over when the active one is killed or stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from test.harness.following import Following
from test.harness.groups import images_of, settle
from test.harness.history import History, ready_groups
from test.harness.manifests import a_set, new_image, pod_template
from test.harness.product import QUICK_LEASE, Product, running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import ClusterAccess

LEASE = "b8b2488c.x-k8s.io"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE_SECONDS = 6.0


@pytest.fixture(scope="module")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(cluster, tmp_path_factory.mktemp("failover")) as product:
        yield product


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    name = "failover-" + request.node.originalname.rpartition("_")[2]
    with a_namespace(cluster, name) as world:
        yield world


@pytest.fixture
def pair(product: Product) -> list[ManagerProcess]:
    """Two managers: one is active, the other answers webhooks and waits."""
    product.deployment.stop()
    first = product.start()
    eventually(
        "the first manager is active", lambda: holder(product), lambda now: now and now in log_of(first)
    )
    return [first, product.deployment.start_manager(*QUICK_LEASE)]


def holder(product: Product) -> str:
    """Return the identity of the manager that holds the Lease, or ""."""
    kubectl = product.deployment.access.kubectl
    return kubectl("get", "lease", LEASE, "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}")


def log_of(manager: ManagerProcess) -> str:
    return manager.log_path.read_text()


def roll_over(
    world: World,
    product: Product,
    pair: list[ManagerProcess],
    end: Callable[[ManagerProcess], object],
) -> ManagerProcess:
    """End the active manager in the middle of a rollout, and return it when the set is settled."""
    slow = {"localcluster/ready-after": "2s"}
    world.create(a_set("mid", replicas=3, workers=pod_template(annotations=slow)))
    settle(world, "mid")
    history = History(world, "mid")
    world.patch(SET, "mid", new_image("server:2"))
    eventually(
        "the rollout has begun", lambda: images_of(world, "mid"), lambda now: {"server:2"} in now.values()
    )

    # On a busy machine, the holder may have changed since they were started.
    former = eventually("a manager holds the Lease", lambda: holder(product))
    leading, standby = sorted(pair, key=lambda manager: former not in log_of(manager))
    end(leading)
    eventually(
        "the other manager holds the Lease",
        lambda: holder(product),
        lambda now: now and now != former and now in log_of(standby),
    )
    settle(world, "mid")

    assert images_of(world, "mid") == {index: {"server:2"} for index in range(3)}
    assert min(len(ready_groups(frame)) for frame in history.pods()) >= 2
    # If a manager dies between deleting a leader and lowering the partition, the group is recreated with its
    # old revision.
    assert sum(len(leaders) - 2 for leaders in history.leaders().values()) <= 1
    return leading


def test_when_the_leading_manager_is_killed_the_other_takes_over(
    world: World, product: Product, pair: list[ManagerProcess]
) -> None:
    leases = Following(world.api, LEASES, "", world.ended)
    killed = log_of(roll_over(world, product, pair, ManagerProcess.kill))
    held = [frame[LEASE]["spec"] for _, frame in leases.moments() if LEASE in frame]
    changes = [(was, now) for was, now in pairwise(held) if now["acquireTime"] != was["acquireTime"]]
    # The Lease has to expire first, because a killed manager cannot release it.
    was, now = [change for change in changes if change[0]["holderIdentity"] in killed][-1]
    waited = datetime.fromisoformat(now["acquireTime"]) - datetime.fromisoformat(was["renewTime"])
    assert was["holderIdentity"] and waited >= timedelta(seconds=LEASE_SECONDS - 1)


def test_a_manager_that_is_stopped_hands_over_at_once(
    world: World, product: Product, pair: list[ManagerProcess]
) -> None:
    stopped = roll_over(world, product, pair, _stop)
    # A released Lease is acquired without waiting.
    assert "released" in log_of(stopped)


def _stop(manager: ManagerProcess) -> None:
    assert manager.stop() == 0
