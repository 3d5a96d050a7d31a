"""A separate control plane for the bad days, with the chart installed once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.harness.control_plane import a_control_plane, allow_finalizers
from test.harness.fixtures import pytest_runtest_makereport
from test.harness.staging import package_product, product, stage, world
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

__all__ = ["package_product", "product", "pytest_runtest_makereport", "stage", "world"]


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """A separate control plane for these tests."""
    with a_control_plane(Options(nodes=4, audit_policy=AUDIT_METADATA)) as cluster:
        allow_finalizers(cluster)
        yield cluster
