"""Fixtures for tests of the commands: one product for all, a namespace and a caller for each."""

from __future__ import annotations

import pytest

from test.harness.fixtures import product, pytest_runtest_makereport, world
from test.harness.world import World
from test.integration.cli.command import Caller
from tools.localcluster import ClusterAccess

__all__ = ["product", "pytest_runtest_makereport", "world"]


@pytest.fixture
def lws(cluster: ClusterAccess, world: World) -> Caller:
    """The command, called by the admin in the namespace of the test."""
    return Caller(cluster.kubeconfig, world.namespace)
