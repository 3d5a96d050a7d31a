"""Answers: on which cluster do integration and end-to-end tests run.

In: $CLUSTER – `local` (the default: started here, of version $K8S), `existing` (that of $KUBECONFIG)
or `kind` (through pytest-kind, which needs Docker). Out: fixtures, which a conftest.py imports.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from test.kind import KindError, kind_cluster
from tools.localcluster import AUDIT_METADATA, ClusterAccess, LocalCluster, Options
from tools.localcluster.build import find_programs
from tools.localcluster.ports import LOOPBACK
from tools.localcluster.progress import LinePrinter
from tools.localcluster.versions import UnknownVersionError, chosen_minor, number_of

LOCAL, EXISTING, KIND = "local", "existing", "kind"
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
        yield ForeignCluster(_existing_kubeconfig(), tmp_path_factory.mktemp("cluster"), address)
    else:
        directory = tmp_path_factory.mktemp("cluster")
        try:
            with kind_cluster(directory) as (kubeconfig, address):
                yield ForeignCluster(kubeconfig, directory, address)
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
def _new_enough(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `kubernetes` on clusters that are older than they say."""
    marker = request.node.get_closest_marker("kubernetes")
    if marker is None:
        return
    require_version(request.getfixturevalue("cluster"), *marker.args)


def _existing_kubeconfig() -> Path:
    named = os.environ.get("KUBECONFIG")
    path = Path(named) if named else Path.home() / ".kube" / "config"
    if not path.exists():
        _end_run(f"CLUSTER={EXISTING} needs a cluster: {path} does not exist; set KUBECONFIG")
    return path.resolve()


def _end_run(reason: str) -> NoReturn:
    """One message instead of an error for each test."""
    pytest.exit(reason, returncode=pytest.ExitCode.USAGE_ERROR)
