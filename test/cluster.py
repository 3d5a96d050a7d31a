"""The cluster that integration and end-to-end tests run on, as fixtures that a conftest.py imports.

$CLUSTER chooses it: `local` (the default: started here, of version $K8S), `existing` (that of $KUBECONFIG) or
`kind` (through pytest-kind, which needs Docker). $NODES=`simulated` adds simulated nodes for the pods of
tests to an existing cluster, as to one of kind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from test.harness.simulated_nodes import simulated_nodes
from test.harness.world import admin_kubeconfig
from test.kind import KindError, kind_cluster
from tools.linux import NotLinuxError
from tools.localcluster import (
    AUDIT_METADATA,
    BuildError,
    ClusterAccess,
    ComponentError,
    LocalCluster,
    NoGoError,
    Options,
)
from tools.localcluster.build import find_programs
from tools.localcluster.ports import LOOPBACK
from tools.localcluster.progress import LinePrinter
from tools.localcluster.versions import UnknownVersionError, chosen_minor, number_of

LOCAL, EXISTING, KIND = "local", "existing", "kind"
SIMULATED = "simulated"
# An autoscaler would look every 15 s.
_FLAGS = {"kube-controller-manager": ("--horizontal-pod-autoscaler-sync-period=1s",)}


@dataclass(frozen=True)
class ForeignCluster(ClusterAccess):
    """A cluster that somebody else has made; its own kubectl and helm are preferred."""

    admin: Path
    directory: Path
    address: str = LOOPBACK

    @property
    def host_address(self) -> str:
        return self.address

    @property
    def kubeconfig(self) -> Path:
        return self.admin

    @property
    def workspace(self) -> Path:
        return self.directory

    def binary(self, name: str) -> Path:
        on_path = shutil.which(name)
        return Path(on_path) if on_path else find_programs([name], LinePrinter())[name]


def chosen() -> str:
    """Return which kind of cluster $CLUSTER asks for; ends the test run when it is none that we know."""
    kind = os.environ.get("CLUSTER") or LOCAL
    if kind not in (LOCAL, EXISTING, KIND):
        _end_run(f"CLUSTER={kind}: expected {LOCAL}, {EXISTING} or {KIND}")
    if kind == LOCAL:
        try:
            chosen_minor()
        except UnknownVersionError as error:
            _end_run(str(error))
    return kind


def simulates() -> bool:
    """Tell whether the pods of tests come to nodes that we simulate; ends the run at an unknown $NODES."""
    asked = os.environ.get("NODES") or ""
    if asked not in ("", SIMULATED):
        _end_run(f"NODES={asked}: expected {SIMULATED}, or nothing")
    return chosen() != EXISTING or asked == SIMULATED


def minor_of(cluster: ClusterAccess) -> tuple[int, int]:
    """Return major and minor version of a cluster's API server, such as (1, 36)."""
    version = json.loads(cluster.kubectl("get", "--raw", "/version"))
    # Hosted clusters write the minor version as "32+".
    return int(version["major"]), int(version["minor"].rstrip("+"))


def require_version(cluster: ClusterAccess, needed: str, reason: str) -> None:
    """Skip the test on a cluster that is older than `needed`, such as "1.34"."""
    found = minor_of(cluster)
    if found < number_of(needed):
        pytest.skip(f"needs Kubernetes {needed}, and this is {found[0]}.{found[1]}: {reason}")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterAccess]:
    """The cluster that the whole test run shares."""
    kind = chosen()
    if kind == LOCAL:
        with LocalCluster(Options(audit_policy=AUDIT_METADATA, extra_flags=_FLAGS)) as local:
            yield local
    elif kind == EXISTING:
        address = os.environ.get("HOST_ADDRESS") or LOOPBACK
        foreign = ForeignCluster(_existing_kubeconfig(), tmp_path_factory.mktemp("cluster"), address)
        with _nodes_for(foreign):
            yield foreign
    else:
        directory = tmp_path_factory.mktemp("cluster")
        try:
            with kind_cluster(directory) as (kubeconfig, address):
                foreign = ForeignCluster(kubeconfig, directory, address)
                with _nodes_for(foreign):
                    yield foreign
        except KindError as error:
            _end_run(f"CLUSTER={KIND}: {error}")


@pytest.fixture(scope="session")
def local_cluster(cluster: ClusterAccess) -> LocalCluster:
    """The shared cluster where its pods and components can be disturbed; skips on any other cluster."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip(f"plays failures that only CLUSTER={LOCAL} can play")
    return cluster


@pytest.fixture(autouse=True)
def _local_only(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `local_only` before they touch another cluster."""
    if request.node.get_closest_marker("local_only") and chosen() != LOCAL:
        pytest.skip(f"stops or starts parts of the control plane, which only CLUSTER={LOCAL} allows")


@pytest.fixture(autouse=True)
def _our_simulation(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `our_simulation` where others simulate nodes, or nobody."""
    if request.node.get_closest_marker("our_simulation") and not simulates():
        pytest.skip(f"its pods ask for what only nodes of CLUSTER={LOCAL} or NODES={SIMULATED} play")


@pytest.fixture(autouse=True)
def _new_enough(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `kubernetes` on clusters that are older than they say."""
    marker = request.node.get_closest_marker("kubernetes")
    if marker is None:
        return
    require_version(request.getfixturevalue("cluster"), *marker.args)


@contextmanager
def _nodes_for(cluster: ForeignCluster) -> Iterator[None]:
    if not simulates():
        yield
        return
    try:
        with simulated_nodes(admin_kubeconfig(cluster)):
            yield
    except (BuildError, ComponentError, NoGoError, NotLinuxError) as error:
        _end_run(f"no simulated nodes: {error}")


def _existing_kubeconfig() -> Path:
    named = os.environ.get("KUBECONFIG")
    path = Path(named) if named else Path.home() / ".kube" / "config"
    if not path.exists():
        _end_run(f"CLUSTER={EXISTING} needs a cluster: {path} does not exist; set KUBECONFIG")
    return path.resolve()


def _end_run(reason: str) -> NoReturn:
    """One message instead of an error for each test."""
    pytest.exit(reason, returncode=pytest.ExitCode.USAGE_ERROR)
