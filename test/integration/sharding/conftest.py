"""A separate control plane for sharding, with an audit log of all writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lws.runtime.leadership.shard_election import shard_of
from test.harness.control_plane import a_control_plane, allow_finalizers
from test.harness.proxied import Stage
from test.harness.world import World, a_namespace
from test.integration.chaos.endpoint import Endpoint
from test.integration.chaos.record import AUDIT_CHAOS
from tools.deployment import Deployment
from tools.localcluster import LocalCluster, Options

SHARDS = 4


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """A separate control plane for these tests."""
    with a_control_plane(Options(nodes=4, audit_policy=AUDIT_CHAOS)) as cluster:
        allow_finalizers(cluster)
        yield cluster


@pytest.fixture(scope="package")
def _release(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    deployment = Deployment(cluster, tmp_path_factory.mktemp("release"))
    deployment.install("--set", f"configuration.sharding.shards={SHARDS}")


@pytest.fixture
def stage(_release: None, cluster: LocalCluster, tmp_path: Path) -> Iterator[Stage]:
    """Starts managers, which end with the test."""
    stage = Stage(Deployment(cluster, tmp_path), cluster)
    try:
        yield stage
    finally:
        stage.end()
        for log in sorted(tmp_path.glob("*.log")):
            print(f"Log of {log.stem}:", *log.read_text().splitlines()[-80:], sep="\n")


@pytest.fixture
def endpoint(stage: Stage) -> Iterator[Endpoint]:
    """The endpoint through which the API server reaches the webhooks of running managers."""
    with Endpoint() as endpoint:
        stage.deployment.point_webhooks_at(endpoint.port)
        yield endpoint


@pytest.fixture
def worlds(cluster: LocalCluster, _release: None) -> Iterator[list[World]]:
    """A namespace in each shard, in order."""
    run = uuid.uuid4().hex[:6]
    names = [
        next(name for n in range(1000) if shard_of(name := f"shard-{run}-{n}", SHARDS) == shard)
        for shard in range(SHARDS)
    ]
    with ExitStack() as stack:
        yield [stack.enter_context(a_namespace(cluster, name)) for name in names]
