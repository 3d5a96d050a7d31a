"""Who runs while these tests run? The API server for what is equal, the product for what is recorded."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from test.integration.controllers.harness.audit import AuditLog
from test.integration.controllers.harness.product import Product, running_product
from test.integration.controllers.harness.world import World, a_namespace, an_admin
from tools.localcluster import Api, ClusterAccess, LocalCluster


@pytest.fixture(scope="package")
def api(cluster: ClusterAccess) -> Iterator[Api]:
    """A client with all rights."""
    with an_admin(cluster) as api:
        yield api


@pytest.fixture(scope="package")
def _product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(cluster, tmp_path_factory.mktemp("product")) as product:
        yield product


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


@pytest.fixture
def audit(local_cluster: LocalCluster) -> AuditLog:
    """What is asked of the API server from now on."""
    log = AuditLog(local_cluster.audit_log)
    log.mark()
    return log
