"""Fixtures for a package of tests: one product, a namespace for each test, and the manager's log of failed
tests.

A conftest.py imports the fixtures that its tests need.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from test.cluster import simulates
from test.harness.audit import AuditLog
from test.harness.product import Product, running_product
from test.harness.world import World, a_namespace, an_admin, namespace_of
from tools.localcluster import Api, ClusterAccess, LocalCluster, Pods
from tools.localcluster.nodes import runs_pods

FAILED = pytest.StashKey[bool]()
_LOG_LINES = 120


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record failures for fixtures."""
    report = yield
    if report.failed:
        for node in item.listchain():
            node.stash[FAILED] = True
    return report


@pytest.fixture(scope="package")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart and one manager, for all tests of a package."""
    with running_product(cluster, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture(scope="module")
def shared_world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for all tests of one file. If one of them fails, the manager's log about the namespace is
    shown.
    """
    with a_namespace(cluster, namespace_of(request.node.name)) as world:
        yield world
        _show_log(request.node, product, world)


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for one test, with a running manager. If the test fails, the manager's log is shown."""
    product.ensure_running()
    with a_namespace(cluster, namespace_of(request.node.name)) as world:
        yield world
        _show_log(request.node, product, world)


@pytest.fixture(scope="package")
def api(cluster: ClusterAccess) -> Iterator[Api]:
    """A client with all rights."""
    with an_admin(cluster) as api:
        yield api


@pytest.fixture
def audit(local_cluster: LocalCluster) -> AuditLog:
    """The audit log from the start of the test on."""
    log = AuditLog(local_cluster.audit_log)
    log.mark()
    return log


@pytest.fixture
def pods(cluster: ClusterAccess) -> Iterator[Pods]:
    """A client that changes the status of pods on simulated nodes. The test is skipped if the nodes have
    kubelets.
    """
    with an_admin(cluster) as api:
        if not simulates() and any(map(runs_pods, api.get("/api/v1/nodes")["items"])):
            pytest.skip("has pods fail by their status, which the kubelets of these nodes write")
        yield Pods(api)


def _show_log(node: pytest.Item | pytest.Collector, product: Product, world: World) -> None:
    if node.stash.get(FAILED, False):
        lines = [line for line in product.log().splitlines() if world.namespace in line]
        print(f"Log of the manager about {world.namespace}:", *lines[-_LOG_LINES:], sep="\n")
