"""A separate cluster for gangs, whose scheduler supports the PodGroups of Kubernetes itself.

That needs feature gates and an API that is off by default. Each file has its own installation of the product,
because a manager creates PodGroups for one scheduler only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.cluster import LOCAL, chosen
from test.harness.fixtures import pytest_runtest_makereport, world
from test.integration.gangs import FIRST, native
from tools.localcluster import LocalCluster, Options
from tools.localcluster.versions import chosen_minor, number_of

__all__ = ["pytest_runtest_makereport", "world"]

# The test of a group that does not fit depends on this number.
NODES = 4


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Nodes with eight GPUs each."""
    if chosen() != LOCAL:
        pytest.skip("starts a control plane with feature gates")
    options = Options(nodes=NODES)
    if number_of(chosen_minor()) >= number_of(FIRST):
        gates = dict.fromkeys(native().gates, True)
        api = f"--runtime-config=scheduling.k8s.io/{native().version}=true"
        options = Options(nodes=NODES, feature_gates=gates, extra_flags={"kube-apiserver": (api,)})
    with LocalCluster(options) as local:
        yield local
