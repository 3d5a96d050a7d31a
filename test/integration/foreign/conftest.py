"""A cluster that nested test runs treat as an existing cluster, which they must not change.

It is a control plane without nodes. Each file adds nodes to it, and runs tests there in a separate pytest
process.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.cluster import LOCAL, chosen
from tools.localcluster import LocalCluster, Options


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A control plane without simulated nodes."""
    if chosen() != LOCAL:
        pytest.skip("starts a control plane that stands in for another cluster")
    with LocalCluster(Options(nodes=0)) as local:
        yield local
