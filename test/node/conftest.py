"""Fixtures for tests on a real node: one cluster and one release for all of them.

`make test-node` runs pytest inside the namespaces of the node. If the machine lacks a requirement, the tests
are skipped and the reason names it.
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
    """Install the product on the node as docs/start/install.md describes, with the chart's defaults."""
    node.helm(
        *("install", "lws", str(CHART), "--namespace", NAMESPACE, "--create-namespace"),
        *("--wait", "--timeout", "300s"),
    )
    pods = managers(node)
    holder = eventually("the Lease has a holder", lambda: _holder(node), seconds=SECONDS)
    return Installed(pods, holder)


@pytest.fixture(scope="session")
def product(node: RealCluster, installed: Installed) -> RealCluster:
    """The node with the product; tests that change its settings restore the chart's."""
    return node


def _holder(node: RealCluster) -> str:
    leases = get(node, "leases", "-n", NAMESPACE)["items"]
    return str(leases[0]["spec"].get("holderIdentity", "")) if leases else ""


@pytest.fixture
def groups(product: RealCluster, request: pytest.FixtureRequest) -> Iterator[Groups]:
    """A namespace for one test, with sets whose pods are processes that answer requests."""
    words = re.sub("[^a-z0-9]+", "-", request.node.originalname.removeprefix("test_").lower())
    # The name of a terminating namespace is still taken, so names are unique.
    with Groups(product, f"{words[:40].strip('-')}-{uuid.uuid4().hex[:4]}").in_own_namespace() as groups:
        yield groups
