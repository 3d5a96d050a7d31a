"""A manager that is killed between any two writes of a rollout causes no duplicates in its successor.

There is one set for each write, in its own namespace; all of them lose the same manager.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from test.harness.groups import images_of, revisions_of, settle, unsettled
from test.harness.history import History
from test.harness.manifests import a_set, new_image
from test.harness.product import Product
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from test.integration.revisions.last_words import LastWords
from tools.deployment import NAMESPACE
from tools.localcluster import ClusterAccess, LocalCluster

pytestmark = pytest.mark.local_only

NAME = "web"
# More than a rollout of two groups needs, so that the last sets complete theirs.
LEAST_WRITES, MOST_WRITES = 8, 28
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"


def numbers_of(world: World) -> list[int]:
    return [int(revision["revision"]) for revision in revisions_of(world, NAME)]


@pytest.fixture
def worlds(cluster: ClusterAccess, product: Product) -> Iterator[list[World]]:
    """MOST_WRITES namespaces, each with a settled set."""
    with ExitStack() as stack:
        names = [f"t-writes-{number}-{uuid.uuid4().hex[:6]}" for number in range(MOST_WRITES)]
        worlds = [stack.enter_context(a_namespace(cluster, name)) for name in names]
        for world in worlds:
            world.create(a_set(NAME))
        for world in worlds:
            settle(world, NAME)
            # The last write of a new set, which must not count for the rollout.
            eventually("the members of both groups are recorded", partial(members_recorded, world))
        yield worlds


def members_recorded(world: World) -> bool:
    return set((world.get(SET, NAME).get("status") or {}).get("members") or {}) == {"0", "1"}


def test_a_manager_killed_at_any_write_leaves_no_duplicates(
    worlds: list[World], product: Product, local_cluster: LocalCluster
) -> None:
    product.stop()
    stage = Stage(product.deployment, local_cluster)
    rule = LastWords({world.namespace: writes for writes, world in enumerate(worlds)})
    histories = [History(world, NAME) for world in worlds]
    with stage.proxy() as proxy:
        manager = stage.start(proxy=proxy)
        eventually("the manager is active", lambda: "held by this manager" in manager.log_path.read_text())
        proxy.rule = rule
        for world in worlds:
            world.patch(SET, NAME, new_image("server:2"))
        eventually(
            "no set is written any more", lambda: alive(worlds, rule), lambda names: not names, seconds=300
        )
        manager.kill()
    spent = [world.namespace in rule.spent for world in worlds]
    print(
        f"managers that died in a rollout did so at these writes: {[n for n, was in enumerate(spent) if was]}"
    )
    # Revision, leaders, worker StatefulSets, checkpoint and status, for each of two groups. The number of
    # further writes depends on how many status updates are combined.
    assert all(spent[:LEAST_WRITES]), "each of these was once the last write"
    # Recorded once, before any write depends on it.
    assert [len(numbers_of(world)) for world in worlds] == [1] + [2] * (MOST_WRITES - 1)

    give_up_lease(worlds[0])
    product.start()
    for writes, (world, history) in enumerate(zip(worlds, histories, strict=True)):
        settle(world, NAME)
        assert images_of(world, NAME) == {0: {"server:2"}, 1: {"server:2"}}
        assert numbers_of(world) == [1, 2], writes
        leaders = history.leaders()
        replaced = [len(leaders[index]) for index in (0, 1)]
        # A leader that was deleted just before the StatefulSet was updated is recreated with its old
        # revision, and again if the StatefulSet controller is faster than the next manager.
        assert min(replaced) >= 2 and max(replaced) <= 4, (writes, replaced)


def alive(worlds: list[World], rule: LastWords) -> list[str]:
    """Return the namespaces whose set may still write and is not settled."""
    return [
        world.namespace
        for world in worlds
        if world.namespace not in rule.spent and unsettled(world, NAME, None)
    ]


def give_up_lease(world: World) -> None:
    """Release the Lease for the killed manager, so that its successor does not wait."""
    world.api.merge(LEASE, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
