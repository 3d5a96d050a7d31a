"""Where do bad days take place? On a control plane of their own, with the chart installed once.

Whoever needs a manager asks for `product`; whoever brings managers of its own, for `stage`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from test.cluster import LOCAL, chosen
from test.integration.bad_days.proxied import Stage
from test.integration.controllers.harness.product import QUICK_LEASE, Product
from test.integration.controllers.harness.world import World, a_namespace
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT, Deployment
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

_FAILED = pytest.StashKey[bool]()
_LOG_LINES = 150
_FINALIZER = "finalizer-of-anything"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """A control plane that nobody else is disturbed by."""
    if chosen() != LOCAL:
        pytest.skip("plays failures of the control plane")
    with LocalCluster(Options(nodes=4, audit_policy=AUDIT_METADATA)) as cluster:
        _let_finalize(cluster)
        yield cluster
        # Asked politely it would wait for the end of every open stream, and nothing of it has to be kept.
        cluster.kill_component("kube-apiserver")


@pytest.fixture(scope="package")
def _product(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    deployment = Deployment(cluster, tmp_path_factory.mktemp("product"))
    deployment.install()
    try:
        yield Product(deployment, *QUICK_LEASE)
    finally:
        deployment.stop()


@pytest.fixture
def product(_product: Product, request: pytest.FixtureRequest) -> Iterator[Product]:
    """One manager that is ready and leads."""
    _product.ensure_running()
    yield _product
    if request.node.stash.get(_FAILED, False):
        print("What the manager said:", _product.manager.last_words(_LOG_LINES), sep="\n")


@pytest.fixture
def stage(
    _product: Product, cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """No manager at all, and what it takes to make some; they end with the test."""
    if _product.manager.is_running:
        _product.stop()
    stage = Stage(Deployment(cluster, tmp_path), cluster)
    try:
        yield stage
    finally:
        stage.end()
        if request.node.stash.get(_FAILED, False):
            for log in sorted(tmp_path.glob("*.log")):
                said = log.read_text().splitlines()[-_LOG_LINES:]
                print(f"What {log.stem} said:", *said, sep="\n")


@pytest.fixture
def world(cluster: LocalCluster, _product: Product, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace of one's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    name = f"t-{words[:48].strip('-')}-{uuid.uuid4().hex[:6]}"
    with a_namespace(cluster, name) as world:
        yield world
        if request.node.stash.get(_FAILED, False):
            print(world.kubectl("get", "lws,statefulsets,pods,events"))


def _let_finalize(cluster: LocalCluster) -> None:
    """Spare every run a wait of up to 30 s.

    The API server checks `blockOwnerDeletion` against the kinds that it knows (admission plugin
    OwnerReferencesPermissionEnforcement), and it learns a new kind that late, unless the writer may finalize
    anything. What the manager may do is not what these tests are about.
    """
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    cluster.kubectl("create", "clusterrole", _FINALIZER, "--verb=update", "--resource=*.*/finalizers")
    cluster.kubectl("create", "clusterrolebinding", _FINALIZER, f"--clusterrole={_FINALIZER}", account)
