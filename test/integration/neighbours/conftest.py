"""A cluster with the product and Kueue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from test.cluster import LOCAL, chosen
from test.harness.fixtures import audit, product, pytest_runtest_makereport, world
from test.harness.product import Product
from test.integration.neighbours.kueue import running_kueue
from tools.deployment import ManagerProcess
from tools.localcluster import AUDIT_METADATA, LocalCluster, Options

__all__ = ["audit", "product", "pytest_runtest_makereport", "world"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A separate control plane for these tests, because no pod can be created while Kueue is down."""
    if chosen() != LOCAL:
        pytest.skip("installs Kueue for the whole cluster")
    with LocalCluster(Options(audit_policy=AUDIT_METADATA)) as local:
        yield local


@pytest.fixture(scope="package", autouse=True)
def kueue(
    cluster: LocalCluster, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ManagerProcess]:
    """Kueue, running with the product."""
    with running_kueue(cluster, tmp_path_factory.mktemp("kueue")) as manager:
        yield manager


@pytest.fixture
def holding_kueue(kueue: ManagerProcess) -> Iterator[None]:
    """Kueue configured to put finalizers on pods of sets, the default in earlier releases."""
    (flag,) = (argument for argument in kueue.command if argument.startswith("--config="))
    path = Path(flag.removeprefix("--config="))
    before = path.read_text()
    configuration = yaml.safe_load(before)
    configuration["featureGates"]["SkipFinalizersForPodsSuspendedByParent"] = False
    path.write_text(yaml.safe_dump(configuration))
    kueue.stop()
    kueue.start().wait_ready()
    yield
    path.write_text(before)
    kueue.stop()
    kueue.start().wait_ready()
