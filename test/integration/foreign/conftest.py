"""These tests run on a cluster that the tests inside of them take for a foreign one.

It is a control plane without nodes. Each file adds nodes to it, and runs tests there in a pytest of their
own.
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
