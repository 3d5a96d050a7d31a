"""Who runs while these tests run, and who calls the commands? One product for all, a namespace for each."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from test.integration.cli.command import Caller
from test.integration.controllers.harness.product import Product, running_product
from test.integration.controllers.harness.world import World, a_namespace
from tools.localcluster import ClusterAccess


@pytest.fixture(scope="package")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart and one manager, for all tests of this package."""
    with running_product(cluster, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace of one's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    with a_namespace(cluster, f"t-{words[:48].strip('-')}-{uuid.uuid4().hex[:6]}") as world:
        yield world


@pytest.fixture
def lws(cluster: ClusterAccess, world: World) -> Caller:
    """The command, called by the admin in the namespace of the test."""
    return Caller(cluster.kubeconfig, world.namespace)
