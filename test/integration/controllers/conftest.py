"""Who runs while these tests run, and where does each work? One product for all, a namespace for each."""

from __future__ import annotations

import pytest

from test.harness.fixtures import (
    audit,
    product,
    pytest_runtest_makereport,
    shared_world,
    world,
)
from test.harness.product import Product
from tools.localcluster import LocalCluster, Pods

__all__ = ["audit", "product", "pytest_runtest_makereport", "shared_world", "world"]


@pytest.fixture(autouse=True)
def _manager_runs(product: Product) -> None:
    product.ensure_running()


@pytest.fixture
def pods(local_cluster: LocalCluster) -> Pods:
    """What may befall pods of simulated nodes."""
    return local_cluster.pods
