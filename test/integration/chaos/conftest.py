"""Where does chaos reign? On a control plane of its own that writes down what is done to it.

CHAOS_SEED repeats the instants of an earlier run; CHAOS_LOG is where the audit log is copied to at the end.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator

import pytest

from test.cluster import LOCAL, chosen
from test.integration.bad_days.conftest import (
    _let_finalize,
    _product,
    pytest_runtest_makereport,
    stage,
    world,
)
from test.integration.chaos.record import AUDIT_CHAOS, Record
from test.integration.controllers.harness.world import World
from tools.localcluster import LocalCluster, Options

__all__ = ["_product", "pytest_runtest_makereport", "stage", "world"]

_SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10_000))


def pytest_report_header() -> str:
    return f"chaos: CHAOS_SEED={_SEED} plays the same instants again"


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Where chance is asked; whoever fails says how to repeat it."""
    print(f"CHAOS_SEED={_SEED}")
    return random.Random(f"{_SEED} {request.node.name}")


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """A control plane that nobody else is disturbed by."""
    if chosen() != LOCAL:
        pytest.skip("plays failures of the control plane")
    with LocalCluster(Options(nodes=6, audit_policy=AUDIT_CHAOS)) as cluster:
        _let_finalize(cluster)
        yield cluster
        if kept := os.environ.get("CHAOS_LOG"):
            shutil.copyfile(cluster.audit_log, kept)
        # Asked politely it would wait for the end of every open stream, and nothing of it has to be kept.
        cluster.kill_component("kube-apiserver")


@pytest.fixture
def record(cluster: LocalCluster, world: World) -> Record:
    """What is done in the namespace of the test from its beginning on."""
    return Record(world, cluster.audit_log)
