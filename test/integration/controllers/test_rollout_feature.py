"""A rollout keeps its budget whether or not StatefulSets support maxUnavailable themselves.

The feature gate is on by default from Kubernetes 1.37 on. The other setting needs its own control plane and
its own installation of the product.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.cluster import LOCAL, chosen
from test.harness.groups import images_of, settle
from test.harness.history import (
    History,
    existing_groups,
    ready_groups,
)
from test.harness.manifests import a_set, new_image, rolling
from test.harness.product import running_product
from test.harness.world import SET, World, a_namespace
from tools.localcluster import LocalCluster, Options
from tools.localcluster.versions import chosen_minor, number_of

FEATURE = "MaxUnavailableStatefulSet"
ON_BY_DEFAULT = number_of(chosen_minor()) >= number_of("1.37")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A namespace of a cluster with the feature gate in its non-default setting."""
    if chosen() != LOCAL:
        pytest.skip("starts a control plane with a feature gate")
    with (
        LocalCluster(Options(nodes=2, feature_gates={FEATURE: not ON_BY_DEFAULT})) as cluster,
        running_product(cluster, tmp_path_factory.mktemp("feature")),
        a_namespace(cluster, "feature") as world,
    ):
        yield world


@pytest.mark.parametrize(
    ("budget", "fewest", "most"),
    [({"maxUnavailable": 2}, 4, 6), ({"maxUnavailable": 1, "maxSurge": 2}, 5, 8)],
    ids=["without surge", "with surge"],
)
def test_a_rollout_uses_its_whole_budget_and_never_exceeds_it(
    world: World, budget: dict[str, int], fewest: int, most: int
) -> None:
    name = f"budget-{most}"
    world.create(a_set(name, replicas=6, rolloutStrategy=rolling(**budget)))
    settle(world, name)
    update = world.get("StatefulSet", name)["spec"]["updateStrategy"]["rollingUpdate"]
    assert update.get("maxUnavailable") == (None if ON_BY_DEFAULT else sum(budget.values()))
    history = History(world, name)

    world.patch(SET, name, new_image("server:2"))
    settle(world, name)

    frames = history.pods()
    assert images_of(world, name) == {index: {"server:2"} for index in range(6)}
    # How fully the budget is used depends on how soon groups are ready again.
    assert min(len(ready_groups(frame)) for frame in frames) >= fewest
    assert max(len(existing_groups(frame)) for frame in frames) <= most
    assert max(spec.replicas for spec in history.leader_specs()) == most
    assert {len(history.leaders()[index]) for index in range(6)} == {2}
    assert history.overlaps() == []
