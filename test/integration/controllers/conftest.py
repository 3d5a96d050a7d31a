"""Who runs while these tests run, and where does each work? One product for all, a namespace for each."""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator

import pytest

from test.integration.controllers.harness.audit import AuditLog
from test.integration.controllers.harness.product import Product, running_product
from test.integration.controllers.harness.world import World, a_namespace
from tools.localcluster import ClusterAccess, LocalCluster, Pods

_FAILED = pytest.StashKey[bool]()
_LOG_LINES = 120


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for node in item.listchain():
            node.stash[_FAILED] = True
    return report


@pytest.fixture(scope="package")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart and one manager, for all tests of this package."""
    with running_product(cluster, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture(autouse=True)
def _manager_runs(product: Product) -> None:
    product.ensure_running()


@pytest.fixture(scope="module")
def shared_world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for all tests of one file. Where one fails, what the manager said about it is shown."""
    with a_namespace(cluster, _namespace_name(request.node.name)) as world:
        yield world
        _show_log(request.node, product, world)


@pytest.fixture
def world(cluster: ClusterAccess, product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace of one's own, with the same."""
    with a_namespace(cluster, _namespace_name(request.node.name)) as world:
        yield world
        _show_log(request.node, product, world)


@pytest.fixture
def pods(local_cluster: LocalCluster) -> Pods:
    """What may befall pods of simulated nodes."""
    return local_cluster.pods


@pytest.fixture
def audit(local_cluster: LocalCluster) -> AuditLog:
    """What is asked of the API server from now on."""
    log = AuditLog(local_cluster.audit_log)
    log.mark()
    return log


def _show_log(node: pytest.Item | pytest.Collector, product: Product, world: World) -> None:
    if node.stash.get(_FAILED, False):
        said = [line for line in product.log().splitlines() if world.namespace in line]
        print(f"What the manager said about {world.namespace}:", *said[-_LOG_LINES:], sep="\n")


def _namespace_name(test: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_").removesuffix(".py"))
    return f"t-{words[:48].strip('-')}-{uuid.uuid4().hex[:6]}"
