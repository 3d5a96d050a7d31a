"""Fixtures for tests of single fields: the product with Volcano gangs, without Volcano's scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from test.harness.fixtures import pytest_runtest_makereport, world
from test.harness.product import Product, running_product
from tools.localcluster import ClusterAccess

__all__ = ["pytest_runtest_makereport", "world"]

POD_GROUPS = Path(__file__).with_name("crds") / "podgroups.scheduling.volcano.sh.yaml"
_GANGS = ("--set", "gangSchedulingManagement.schedulerProvider=volcano")


@pytest.fixture(scope="package")
def product(cluster: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The chart, and a manager that creates PodGroups of Volcano."""
    cluster.kubectl("apply", "-f", str(POD_GROUPS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=180s", "-f", str(POD_GROUPS))
    with running_product(cluster, tmp_path_factory.mktemp("product"), *_GANGS) as product:
        yield product
    cluster.kubectl("delete", "-f", str(POD_GROUPS), "--ignore-not-found")
