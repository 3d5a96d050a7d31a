"""On which cluster do these tests run? One that the tests inside of them take for somebody else's.

A control plane without nodes. Each file brings nodes to it, and runs tests there in a pytest of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.cluster import LOCAL, chosen
from tools.localcluster import LocalCluster, Options


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Nothing simulates here."""
    if chosen() != LOCAL:
        pytest.skip("starts a control plane that stands in for another cluster")
    with LocalCluster(Options(nodes=0)) as local:
        yield local
