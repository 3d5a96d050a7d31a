"""Fixtures for tests of security: one product with every option that needs a permission.

PodGroups and a namespaceSelector are enabled, so that it needs every permission that the chart can grant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from test.harness.fixtures import audit, pods, pytest_runtest_makereport, world
from test.harness.product import Product, running_product
from tools.localcluster import ClusterAccess

__all__ = ["audit", "pods", "pytest_runtest_makereport", "world"]

POD_GROUPS = Path(__file__).parents[1] / "gangs" / "crds" / "podgroups.scheduling.x-k8s.io.yaml"
SELECTOR = (
    '{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["spared"]}]}'
)
VALUES = (
    "--set",
    "gangSchedulingManagement.schedulerProvider=scheduler-plugins",
    "--set-json",
    f"webhooks.namespaceSelector={SELECTOR}",
)


@pytest.fixture(scope="package")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart and one manager, for all tests of this package."""
    cluster.kubectl("apply", "--server-side", "-f", str(POD_GROUPS))
    with running_product(cluster, tmp_path_factory.mktemp("product"), *VALUES) as product:
        yield product
