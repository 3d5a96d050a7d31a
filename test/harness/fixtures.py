"""Who runs while the tests of a package run, and where does each work? A conftest.py imports what it needs.

In: the cluster of the run. Out: one product for the package, a namespace for each test, and, where a test
fails, what the manager said about it.
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
    """Let fixtures know of failures."""
    report = yield
    if report.failed:
        for node in item.listchain():
            node.stash[FAILED] = True
    return report


@pytest.fixture(scope="package")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart and one manager, for all tests of this package."""
    with running_product(cluster, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture(scope="module")
def shared_world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for all tests of one file. Where one fails, what the manager said about it is shown."""
    with a_namespace(cluster, namespace_of(request.node.name)) as world:
        yield world
        _show_log(request.node, product, world)


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace of one's own, with the same, and a manager that runs."""
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
    """What is asked of the API server from now on."""
    log = AuditLog(local_cluster.audit_log)
    log.mark()
    return log


@pytest.fixture
def pods(cluster: ClusterAccess) -> Iterator[Pods]:
    """What can happen to pods of simulated nodes, whoever simulates them; skips where there are kubelets."""
    with an_admin(cluster) as api:
        if not simulates() and any(map(runs_pods, api.get("/api/v1/nodes")["items"])):
            pytest.skip("has pods fail by their status, which the kubelets of these nodes write")
        yield Pods(api)


def _show_log(node: pytest.Item | pytest.Collector, product: Product, world: World) -> None:
    if node.stash.get(FAILED, False):
        said = [line for line in product.log().splitlines() if world.namespace in line]
        print(f"What the manager said about {world.namespace}:", *said[-_LOG_LINES:], sep="\n")
