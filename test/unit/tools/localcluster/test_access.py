"""tools.localcluster.access: calls of kubectl and helm."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from tools.localcluster.access import ClusterAccess, CommandError, environment, read_access

KUBECTL = """#!/bin/sh
echo "$KUBECONFIG $KUBECACHEDIR $*" >> "{log}"
case "$1" in
  create) echo secret-token;;
  config) echo '{shown}';;
  get) echo '{{"metadata": {{"name": "pod-0"}}}}';;
  apply) cat;;
  *) echo "no such command: $1" >&2; exit 1;;
esac
"""


class ScriptedCluster(ClusterAccess):
    """A cluster whose kubectl is a script."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ca = base64.b64encode(b"ca").decode()
        cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": ca}
        configuration = json.dumps({"clusters": [{"cluster": cluster}]})
        script = directory / "kubectl"
        script.write_text(KUBECTL.format(log=directory / "calls", shown=configuration))
        script.chmod(0o755)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "admin.yaml"

    @property
    def workspace(self) -> Path:
        return self.directory

    def binary(self, name: str) -> Path:
        return self.directory / name


@pytest.fixture
def cluster(tmp_path: Path) -> ScriptedCluster:
    return ScriptedCluster(tmp_path)


def test_kubectl_is_called_for_this_cluster_with_its_input(cluster: ScriptedCluster, tmp_path: Path) -> None:
    assert cluster.kubectl("apply", "-f", "-", input="kind: Pod") == "kind: Pod"
    called = (tmp_path / "calls").read_text().split()
    assert called == [str(cluster.kubeconfig), str(tmp_path / "kubectl"), "apply", "-f", "-"]


def test_a_failure_reports_the_command_and_its_error(cluster: ScriptedCluster) -> None:
    with pytest.raises(CommandError, match="kubectl frobnicate x failed: no such command: frobnicate"):
        cluster.kubectl("frobnicate", "x")


def test_service_account_gets_its_own_kubeconfig(cluster: ScriptedCluster, tmp_path: Path) -> None:
    path = cluster.kubeconfig_for_service_account("team", "robot")
    access = read_access(path.read_text())
    assert (access.server, access.ca, access.token) == ("https://127.0.0.1:1", b"ca", "secret-token")
    assert access.namespace == "team"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "create token robot -n team" in (tmp_path / "calls").read_text()


def test_pods_are_read_through_kubectl(cluster: ScriptedCluster, tmp_path: Path) -> None:
    assert cluster.pods.get("team", "pod-0") == {"metadata": {"name": "pod-0"}}
    assert "get --raw /api/v1/namespaces/team/pods/pod-0" in (tmp_path / "calls").read_text()


def test_caches_are_in_the_cluster_directory_but_home_is_kept() -> None:
    variables = environment(Path("/k/admin.yaml"), Path("/w"))
    assert variables["KUBECONFIG"] == "/k/admin.yaml"
    assert "HOME" not in variables
    paths = [value for name, value in variables.items() if name.startswith(("HELM_", "KUBECACHE"))]
    assert len(paths) == 4
    assert all(value.startswith("/w/") for value in paths)
