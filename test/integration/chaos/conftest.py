"""A separate control plane for chaos, with an audit log of all writes.

Faults happen at the same moments in every run. CHAOS_SEED chooses others: a number, or "random" for new ones
each time. The audit log is copied to CHAOS_LOG at the end.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator

import pytest

from test.harness.control_plane import a_control_plane, allow_finalizers
from test.harness.fixtures import pytest_runtest_makereport
from test.harness.staging import package_product, stage, world
from test.harness.world import World
from test.integration.chaos.record import AUDIT_CHAOS, Record
from tools.localcluster import LocalCluster, Options

__all__ = ["package_product", "pytest_runtest_makereport", "stage", "world"]

_ASKED = os.environ.get("CHAOS_SEED") or "1"
_SEED = random.SystemRandom().randrange(10_000) if _ASKED == "random" else int(_ASKED)


def pytest_report_header() -> str:
    return f"chaos: CHAOS_SEED={_SEED} repeats the same faults"


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """The random numbers of one test; its output shows the seed that repeats them."""
    print(f"CHAOS_SEED={_SEED}")
    return random.Random(f"{_SEED} {request.node.name}")


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """A separate control plane for these tests."""
    with a_control_plane(Options(nodes=6, audit_policy=AUDIT_CHAOS)) as cluster:
        allow_finalizers(cluster)
        yield cluster
        if copy := os.environ.get("CHAOS_LOG"):
            shutil.copyfile(cluster.audit_log, copy)


@pytest.fixture
def record(cluster: LocalCluster, world: World) -> Record:
    """The record of all writes to the namespace of the test, from its beginning on."""
    return Record(world, cluster.audit_log)
