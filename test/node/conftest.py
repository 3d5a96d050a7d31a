"""Answers: on which node do these tests run, and how is the product installed there?

In: `make test-node`, which runs pytest inside of the namespaces of a node. Out: one cluster and one release
for all tests; each is skipped with what the machine lacks.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator

import pytest

from test.harness.waiting import eventually
from test.node.groups import Groups
from test.node.managers import SECONDS, Installed, get, managers
from test.node.recreation import AUDIT
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import Options
from tools.realnode.__main__ import MISSING
from tools.realnode.cluster import RealCluster
from tools.realnode.kit import VARIABLE, read_kit


@pytest.fixture(scope="session")
def node() -> Iterator[RealCluster]:
    """A cluster with a real node."""
    if missing := os.environ.get(MISSING):
        pytest.skip(missing)
    if VARIABLE not in os.environ:
        pytest.skip("runs inside of the namespaces of a node: make test-node")
    with RealCluster(read_kit(), Options(audit_policy=AUDIT)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def installed(node: RealCluster) -> Installed:
    """The product on the node: the commands of docs/start/install.md, the chart's own defaults."""
    node.helm(
        *("install", "lws", str(CHART), "--namespace", NAMESPACE, "--create-namespace"),
        *("--wait", "--timeout", "300s"),
    )
    pods = managers(node)
    holder = eventually("somebody to hold the Lease", lambda: _holder(node), seconds=SECONDS)
    return Installed(pods, holder)


@pytest.fixture(scope="session")
def product(node: RealCluster, installed: Installed) -> RealCluster:
    """The node with the product on it; tests that change its settings put the chart's back."""
    return node


def _holder(node: RealCluster) -> str:
    leases = get(node, "leases", "-n", NAMESPACE)["items"]
    return str(leases[0]["spec"].get("holderIdentity", "")) if leases else ""


@pytest.fixture
def groups(product: RealCluster, request: pytest.FixtureRequest) -> Iterator[Groups]:
    """A namespace of the test's own, in which sets are made of processes that answer."""
    words = re.sub("[^a-z0-9]+", "-", request.node.originalname.removeprefix("test_").lower())
    # One that is being deleted keeps its name.
    with Groups(product, f"{words[:40].strip('-')}-{uuid.uuid4().hex[:4]}").in_own_namespace() as groups:
        yield groups
