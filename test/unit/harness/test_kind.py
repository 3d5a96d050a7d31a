"""test.kind: a kind cluster, with stand-ins for `kind` and `docker` that record their arguments."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from test.cluster import ForeignCluster
from test.kind import NAME, KindError, host_address, kind_cluster
from test.unit.tools.test_deployment import FakeCluster
from tools.deployment import Deployment

_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "kind", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "kind", "user": {"token": "t"}}],
    "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}],
    "current-context": "kind",
}
_KIND = """#!/bin/sh
echo "kind $*" >> "{log}"
for argument in "$@"; do
  case "$argument" in --kubeconfig=*) [ "$1" = create ] && echo '{kubeconfig}' > "${{argument#*=}}";; esac
done
[ "$1" != "{fails}" ]
"""
_DOCKER = """#!/bin/sh
echo "docker $*" >> "{log}"
{answer}
"""
_IPV6 = {"Subnet": "fc00:f853:ccd:e793::/64", "Gateway": "fc00:f853:ccd:e793::1"}
_IPV4 = {"Subnet": "172.18.0.0/16", "Gateway": "172.18.0.1"}


class Machine:
    """A PATH with the two programs, which record their calls."""

    def __init__(self, directory: Path) -> None:
        self._bin = directory / "bin"
        self._bin.mkdir()
        self._log = directory / "calls"
        self._log.touch()
        self.kind()
        self.docker([_IPV6, _IPV4])

    @property
    def path(self) -> str:
        return f"{self._bin}:/usr/bin:/bin"

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines()

    def kind(self, fails: str = "nothing") -> None:
        text = _KIND.format(log=self._log, kubeconfig=json.dumps(_KUBECONFIG), fails=fails)
        self._write("kind", text)

    def docker(self, config: list[dict[str, str]] | None) -> None:
        network = [{"Name": "kind", "IPAM": {"Driver": "default", "Config": config}}]
        self._write("docker", _DOCKER.format(log=self._log, answer=f"echo '{json.dumps(network)}'"))

    def docker_refuses(self, words: str) -> None:
        self._write("docker", _DOCKER.format(log=self._log, answer=f"echo '{words}' >&2; exit 1"))

    def remove(self, program: str) -> None:
        (self._bin / program).unlink()

    def _write(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)


class StandInPlugin:
    """The used part of pytest_kind.KindCluster, for machines without it."""

    def __init__(self, name: str, kubeconfig: Path, image: str | None, kind_path: Path) -> None:
        self._name, self._image, self._kind = name, image, kind_path
        self.kubeconfig_path = kubeconfig

    def create(self) -> None:
        image = [f"--image={self._image}"] if self._image else []
        self._run("create", "cluster", f"--name={self._name}", f"--kubeconfig={self.kubeconfig_path}", *image)

    def delete(self) -> None:
        self._run("delete", "cluster", f"--name={self._name}", f"--kubeconfig={self.kubeconfig_path}")

    def _run(self, *arguments: str) -> None:
        subprocess.run([self._kind, *arguments], check=True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", machine.path)
    for name in ("KIND_IMAGE", "KIND_EXPERIMENTAL_DOCKER_NETWORK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return machine


@pytest.fixture(params=["stand-in", *(["itself"] if find_spec("pytest_kind") else [])])
def plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with a stand-in for the plugin, and with the plugin itself if installed (requirements/kind.txt)."""
    if request.param == "stand-in":
        module = types.ModuleType("pytest_kind")
        module.KindCluster = StandInPlugin  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pytest_kind", module)


@pytest.mark.usefixtures("plugin")
def test_a_cluster_is_created_and_deleted(machine: Machine, tmp_path: Path) -> None:
    with kind_cluster(tmp_path) as (kubeconfig, address):
        assert json.loads(kubeconfig.read_text()) == _KUBECONFIG
        assert address == "172.18.0.1"
        before = len(machine.calls)
    where = f"--name={NAME} --kubeconfig={tmp_path}/kubeconfig"
    assert machine.calls[0] == f"kind delete cluster {where}", "that of a run that was killed"
    assert f"kind create cluster {where}" in machine.calls
    assert machine.calls[before:] == [f"kind delete cluster {where}"]


@pytest.mark.usefixtures("plugin")
def test_a_cluster_is_deleted_after_a_failure(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), kind_cluster(tmp_path):
        raise ZeroDivisionError
    assert machine.calls[-1].startswith("kind delete cluster")


@pytest.mark.usefixtures("plugin")
def test_a_cluster_without_a_usable_network_is_deleted(machine: Machine, tmp_path: Path) -> None:
    machine.docker([_IPV6])
    with pytest.raises(KindError, match="no IPv4 gateway"), kind_cluster(tmp_path):
        pytest.fail("the block runs")
    assert machine.calls[-1].startswith("kind delete cluster")


@pytest.mark.usefixtures("plugin")
def test_the_node_image_is_configurable(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND_IMAGE", "kindest/node:v1.32.2")
    with kind_cluster(tmp_path):
        (create,) = [call for call in machine.calls if call.startswith("kind create")]
    assert "--image=kindest/node:v1.32.2" in create


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("fails", ["create", "delete"])
def test_a_failed_command_is_named(fails: str, machine: Machine, tmp_path: Path) -> None:
    machine.kind(fails)
    with pytest.raises(KindError, match=rf"kind {fails} cluster .*ended with 1"), kind_cluster(tmp_path):
        pytest.fail("the block runs")


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("program", ["docker", "kind"])
def test_a_missing_program_is_named(program: str, machine: Machine, tmp_path: Path) -> None:
    machine.remove(program)
    with pytest.raises(KindError, match=f"it needs {program} on the PATH"), kind_cluster(tmp_path):
        pytest.fail("the block runs")
    assert machine.calls == []


def test_a_missing_plugin_is_reported(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pytest_kind", None)
    message = r"pip install --require-hashes -r requirements/kind\.txt"
    with pytest.raises(KindError, match=message), kind_cluster(tmp_path):
        pytest.fail("the block runs")
    assert machine.calls == []


@pytest.mark.parametrize(
    ("environment", "network"),
    [({}, "kind"), ({"KIND_EXPERIMENTAL_DOCKER_NETWORK": "other"}, "other")],
)
def test_the_network_of_kind_is_inspected(
    environment: dict[str, str], network: str, machine: Machine
) -> None:
    assert host_address(environment) == "172.18.0.1"
    assert machine.calls == [f"docker network inspect {network}"]


@pytest.mark.parametrize("config", [None, [], [{"Subnet": "172.18.0.0/16"}], [_IPV6]])
def test_a_network_without_a_gateway_is_an_error(
    config: list[dict[str, str]] | None, machine: Machine
) -> None:
    machine.docker(config)
    with pytest.raises(KindError, match="the Docker network kind has no IPv4 gateway"):
        host_address({})


def test_a_docker_that_is_not_running_is_an_error(machine: Machine) -> None:
    machine.docker_refuses("Cannot connect to the Docker daemon")
    with pytest.raises(KindError, match="docker network inspect kind failed: Cannot connect to the Docker"):
        host_address({})


def test_webhooks_are_served_at_the_address_that_nodes_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = FakeCluster(tmp_path)
    cluster = ForeignCluster(tmp_path / "kubeconfig", tmp_path, "172.18.0.1")
    for name in ("kubectl", "kubeconfig_for_service_account"):
        monkeypatch.setattr(ForeignCluster, name, _as(getattr(stored, name)))
    deployment = Deployment(cluster, tmp_path)
    manager = deployment.manager()
    deployment.point_webhooks(manager)
    (config,) = [
        argument.partition("=")[2] for argument in manager.command if argument.startswith("--config=")
    ]
    assert "host: 172.18.0.1" in Path(config).read_text()
    patches = [json.loads(command[-1]) for command in stored.commands if command[1] == "patch"]
    url = f"https://172.18.0.1:{manager.webhook_port}/mutate"
    assert [patch[-1]["value"] for patch in patches] == [url, url]


def _as(method: Any) -> Any:
    """Return a function that takes the object as its first argument and ignores it, like a method."""
    return lambda _, *arguments, **options: method(*arguments, **options)
