"""Fixtures for packages of tests that disrupt their control plane.

`product` is for tests that need one manager, `stage` for tests that start their own. The package has a
control plane of its own (fixture `cluster`). A conftest.py imports the fixtures that its tests need.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from test.harness.fixtures import FAILED
from test.harness.product import QUICK_LEASE, Product
from test.harness.proxied import Stage
from test.harness.world import World, a_namespace, namespace_of
from tools.deployment import Deployment
from tools.localcluster import LocalCluster

_LOG_LINES = 150


@pytest.fixture(scope="package")
def package_product(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart, installed once. Its manager may or may not run."""
    deployment = Deployment(cluster, tmp_path_factory.mktemp("product"))
    deployment.install()
    try:
        yield Product(deployment, *QUICK_LEASE)
    finally:
        deployment.stop()


@pytest.fixture
def product(package_product: Product, request: pytest.FixtureRequest) -> Iterator[Product]:
    """A running manager. Its log is shown if the test fails."""
    package_product.ensure_running()
    yield package_product
    if request.node.stash.get(FAILED, False):
        print("Log of the manager:", package_product.manager.last_words(_LOG_LINES), sep="\n")


@pytest.fixture
def stage(
    package_product: Product, cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A stage that starts managers, none of which runs at first. They end with the test."""
    if package_product.manager.is_running:
        package_product.stop()
    stage = Stage(Deployment(cluster, tmp_path), cluster)
    try:
        yield stage
    finally:
        stage.end()
        if request.node.stash.get(FAILED, False):
            for log in sorted(tmp_path.glob("*.log")):
                lines = log.read_text().splitlines()[-_LOG_LINES:]
                print(f"Log of {log.stem}:", *lines, sep="\n")


@pytest.fixture
def world(cluster: LocalCluster, package_product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for one test."""
    with a_namespace(cluster, namespace_of(request.node.name)) as world:
        yield world
        if request.node.stash.get(FAILED, False):
            print(world.kubectl("get", "lws,statefulsets,pods", "--output=wide"))
            print(world.kubectl("get", "pods", "--field-selector=status.phase=Pending", "--output=yaml"))
            print(world.kubectl("get", "events", "--sort-by=.metadata.creationTimestamp"))
