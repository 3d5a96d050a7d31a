"""What happens to sets when the manager that acts goes away and another one stands by?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from test.integration.controllers.harness.groups import images_of, settle
from test.integration.controllers.harness.history import History, ready_groups
from test.integration.controllers.harness.manifests import a_set, new_image
from test.integration.controllers.harness.product import QUICK_LEASE, Product, running_product
from test.integration.controllers.harness.waiting import eventually
from test.integration.controllers.harness.world import SET, World, a_namespace
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import ClusterAccess

LEASE = "b8b2488c.x-k8s.io"
LEASE_SECONDS, RETRY_SECONDS = 6.0, 1.0
# For a machine that has other things to do.
SLACK_SECONDS = 4.0


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
def pair(product: Product) -> tuple[ManagerProcess, ManagerProcess]:
    """A manager that leads, and a second one that answers webhooks and waits."""
    product.ensure_running()
    leading = product.manager
    eventually("it leads", lambda: holder(product), lambda now: now and now in log_of(leading))
    return leading, product.deployment.start_manager(*QUICK_LEASE)


def holder(product: Product) -> str:
    """The identity of the manager that holds the Lease; empty if nobody does."""
    kubectl = product.deployment.access.kubectl
    return kubectl("get", "lease", LEASE, "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}")


def log_of(manager: ManagerProcess) -> str:
    return manager.log_path.read_text()


def took_over(product: Product, manager: ManagerProcess) -> float:
    """Seconds until the manager holds the Lease."""
    began = time.monotonic()
    eventually("it holds the Lease", lambda: holder(product), lambda now: now and now in log_of(manager))
    return time.monotonic() - began


def roll_over(
    world: World, product: Product, standby: ManagerProcess, end: Callable[[], object]
) -> tuple[float, int]:
    """End the leading manager in the middle of a rollout.

    Returns how long nobody led, and how many leaders were replaced more than once.
    """
    world.create(a_set("mid", replicas=3))
    settle(world, "mid")
    assert holder(product) not in log_of(standby)
    history = History(world, "mid")
    world.patch(SET, "mid", new_image("server:2"))
    eventually("it has begun", lambda: images_of(world, "mid"), lambda now: {"server:2"} in now.values())

    end()
    took = took_over(product, standby)
    settle(world, "mid")

    assert images_of(world, "mid") == {index: {"server:2"} for index in range(3)}
    assert min(len(ready_groups(frame)) for frame in history.pods()) == 2
    return took, sum(len(leaders) - 2 for leaders in history.leaders().values())


def test_when_the_leading_manager_is_killed_the_other_takes_over(
    world: World, product: Product, pair: tuple[ManagerProcess, ManagerProcess]
) -> None:
    leading, standby = pair
    took, twice = roll_over(world, product, standby, leading.kill)
    # Not before the Lease has run out: the dead cannot say that they are.
    assert LEASE_SECONDS - 2 * RETRY_SECONDS < took < LEASE_SECONDS + 2 * RETRY_SECONDS + SLACK_SECONDS
    # Who dies after deleting a leader and before lowering the partition leaves it to come back as it was.
    assert twice <= 1


def test_a_manager_that_is_stopped_hands_over_at_once(
    world: World, product: Product, pair: tuple[ManagerProcess, ManagerProcess]
) -> None:
    leading, standby = pair
    took, twice = roll_over(world, product, standby, lambda: _stop(leading))
    assert took < LEASE_SECONDS - 2 * RETRY_SECONDS
    assert twice == 0
    assert "released" in log_of(leading)


def _stop(manager: ManagerProcess) -> None:
    assert manager.stop() == 0
