"""Where do bad days take place? On a control plane of their own, with the chart installed once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.harness.control_plane import a_control_plane, let_finalize
from test.harness.fixtures import pytest_runtest_makereport
from test.harness.staging import package_product, product, stage, world
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

__all__ = ["package_product", "product", "pytest_runtest_makereport", "stage", "world"]


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """A control plane that nobody else is disturbed by."""
    with a_control_plane(Options(nodes=4, audit_policy=AUDIT_METADATA)) as cluster:
        let_finalize(cluster)
        yield cluster
