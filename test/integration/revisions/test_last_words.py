"""A manager is killed between any two of the writes of a rollout; what does its successor make of it?

One set for each write, each in a namespace of its own; all of them lose the same manager.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from test.integration.controllers.harness.groups import images_of, revisions_of, settle, unsettled
from test.integration.controllers.harness.history import History
from test.integration.controllers.harness.manifests import a_set, new_image
from test.integration.controllers.harness.product import Product
from test.integration.controllers.harness.proxied import Stage
from test.integration.controllers.harness.waiting import eventually
from test.integration.controllers.harness.world import SET, World, a_namespace
from test.integration.revisions.last_words import LastWords
from tools.deployment import NAMESPACE
from tools.localcluster import ClusterAccess, LocalCluster

pytestmark = pytest.mark.local_only

NAME = "web"
# More than a rollout of two groups takes, so that the last sets live to its end.
MOST_WRITES = 28
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"


@dataclass
class Witness:
    """Sees one set before and after the death of its manager."""

    world: World
    history: History
    leaders: dict[int, list[str]] = field(default_factory=dict)

    def tell(self) -> None:
        """Take down what has happened since the last time: the API server's own record is short."""
        for index, uids in self.history.leaders().items():
            seen = self.leaders.setdefault(index, [])
            seen += [uid for uid in uids if uid not in seen]
        self.history = History(self.world, NAME)

    @property
    def numbers(self) -> list[int]:
        return [int(each["revision"]) for each in revisions_of(self.world, NAME)]


@pytest.fixture
def worlds(cluster: ClusterAccess, product: Product) -> Iterator[list[World]]:
    """As many namespaces, in each a set at rest."""
    with ExitStack() as stack:
        names = [f"t-writes-{number}-{uuid.uuid4().hex[:6]}" for number in range(MOST_WRITES)]
        worlds = [stack.enter_context(a_namespace(cluster, name)) for name in names]
        for world in worlds:
            world.create(a_set(NAME))
        for world in worlds:
            settle(world, NAME, seconds=120)
        yield worlds


def test_a_manager_that_dies_at_any_write_leaves_nothing_double(
    worlds: list[World], product: Product, local_cluster: LocalCluster
) -> None:
    product.stop()
    stage = Stage(product.deployment, local_cluster)
    rule = LastWords({world.namespace: writes for writes, world in enumerate(worlds)})
    witnesses = [Witness(world, History(world, NAME)) for world in worlds]
    with stage.proxy() as proxy:
        manager = stage.start(proxy=proxy)
        eventually("it leads", lambda: "held by this manager" in manager.log_path.read_text())
        proxy.rule = rule
        for world in worlds:
            world.patch(SET, NAME, new_image("server:2"))
        eventually("no set lives on", lambda: alive(worlds, rule), lambda names: not names, seconds=120)
        manager.kill()
    for witness in witnesses:
        witness.tell()
    spent = [world.namespace in rule.spent for world in worlds]
    assert not spent[-1], "a rollout takes more writes than there are sets: raise MOST_WRITES"
    steps = spent.index(False)
    print(f"a rollout of two groups took {steps} writes")
    assert spent == [True] * steps + [False] * (MOST_WRITES - steps), "each write was the last one once"
    assert steps >= 8, "revision, leaders, StatefulSets of workers, position, status, for each of two groups"
    # Recorded before anything acts on it, and once.
    assert [len(witness.numbers) for witness in witnesses] == [1] + [2] * (MOST_WRITES - 1)

    give_up_lease(worlds[0])
    product.start()
    for writes, witness in enumerate(witnesses):
        settle(witness.world, NAME, seconds=120)
        witness.tell()
        assert images_of(witness.world, NAME) == {0: {"server:2"}, 1: {"server:2"}}
        assert witness.numbers == [1, 2], writes
        replaced = [len(witness.leaders[index]) for index in (0, 1)]
        # A leader deleted just before the StatefulSet would have been told comes back as it was; and again
        # where its controller is faster than the successor that tells it.
        assert min(replaced) >= 2 and max(replaced) <= 4, (writes, replaced)


def alive(worlds: list[World], rule: LastWords) -> list[str]:
    """Namespaces whose set may still write and is not at rest."""
    return [
        world.namespace
        for world in worlds
        if world.namespace not in rule.spent and unsettled(world, NAME, None)
    ]


def give_up_lease(world: World) -> None:
    """What a killed manager cannot do itself; its successor need not wait."""
    world.api.merge(LEASE, {"spec": {"holderIdentity": ""}})
