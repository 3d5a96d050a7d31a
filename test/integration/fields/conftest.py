"""Who runs while these tests run? The product with gangs by Volcano; nobody schedules by them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.integration.controllers.harness.product import Product, running_product
from test.integration.controllers.harness.world import World, a_namespace
from tools.localcluster import ClusterAccess

POD_GROUPS = Path(__file__).with_name("crds") / "podgroups.scheduling.volcano.sh.yaml"
_GANGS = ("--set", "gangSchedulingManagement.schedulerProvider=volcano")


@pytest.fixture(scope="package")
def _product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    cluster.kubectl("apply", "-f", str(POD_GROUPS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(POD_GROUPS))
    with running_product(cluster, tmp_path_factory.mktemp("product"), *_GANGS) as product:
        yield product
    cluster.kubectl("delete", "-f", str(POD_GROUPS), "--ignore-not-found")


@pytest.fixture
def product(_product: Product) -> Product:
    """The chart, and a manager that runs."""
    _product.ensure_running()
    return _product


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace of one's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    with a_namespace(cluster, f"t-{words[:48].strip('-')}-{uuid.uuid4().hex[:6]}") as world:
        yield world
        print(*[line for line in product.log().splitlines() if world.namespace in line][-60:], sep="\n")
