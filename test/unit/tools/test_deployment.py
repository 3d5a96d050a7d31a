from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.deployment import (
    CHART,
    Deployment,
    DeploymentError,
    ManagerPorts,
    ManagerProcess,
    host_configuration,
    webhook_patch,
)
from tools.localcluster import ClusterAccess

PORTS = ManagerPorts(webhook=1, health=2, metrics=3)
CONFIGURATION = """
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: true}
webhook: {port: 9443, certDir: /certificates}
health: {healthProbeBindAddress: ":8081"}
"""
# The first line of output reports that the signal handlers are set.
TALKING = "import signal, sys; {setup}; print('ready', flush=True); signal.pause()"


class FakeCluster(ClusterAccess):
    """A cluster that answers with the chart's configuration and one webhook, and records every command."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.commands: list[tuple[str, ...]] = []

    @property
    def kubeconfig(self) -> Path:
        return self._workspace / "admin.yaml"

    @property
    def workspace(self) -> Path:
        return self._workspace

    def binary(self, name: str) -> Path:
        raise AssertionError("no program is run")

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        self.commands.append(("kubectl", *arguments))
        if arguments[:2] == ("get", "configmap"):
            return json.dumps({"data": {"controller_manager_config.yaml": CONFIGURATION}})
        return json.dumps({"webhooks": [{"clientConfig": {"service": {"path": "/mutate"}}}]})

    def helm(self, *arguments: str) -> str:
        self.commands.append(("helm", *arguments))
        return ""

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        return self._workspace / f"{namespace}-{name}.yaml"


Start = Callable[[str], ManagerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a process with Python code and waits for its signal handlers."""
    started: list[ManagerProcess] = []

    def start_it(setup: str = "pass") -> ManagerProcess:
        command = [sys.executable, "-I", "-c", TALKING.format(setup=setup)]
        manager = ManagerProcess(command, tmp_path / "log", 1, 1)
        started.append(manager.start())
        while "ready" not in manager.last_words():
            assert manager.is_running, manager.last_words()
        return manager

    yield start_it
    for manager in started:
        manager.kill()


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        pytest.param("pass", -signal.SIGTERM, id="ended by the signal"),
        pytest.param("signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))", 3, id="handles SIGTERM"),
    ],
)
def test_stop_sends_sigterm_and_returns_the_exit_code(setup: str, code: int, start: Start) -> None:
    manager = start(setup)
    assert manager.is_running
    assert manager.stop() == code
    assert not manager.is_running
    assert manager.stop() == code


def test_a_manager_that_does_not_stop_is_killed_and_reported(start: Start) -> None:
    manager = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    with pytest.raises(DeploymentError, match=r"no end 0 s after SIGTERM:\nready"):
        manager.stop(0.0)
    assert not manager.is_running


def test_a_killed_manager_restarts_and_its_log_continues(start: Start) -> None:
    manager = start("pass")
    first = manager.pid
    assert manager.kill() == -signal.SIGKILL
    manager.start()
    assert manager.is_running and manager.pid != first
    assert manager.log_path.read_text().startswith("ready\n")


def test_a_running_manager_is_not_started_again(start: Start) -> None:
    manager = start("pass")
    with pytest.raises(DeploymentError, match=f"runs already \\(pid {manager.pid}\\)"):
        manager.start()


def test_a_frozen_manager_can_be_killed(start: Start) -> None:
    manager = start("pass")
    manager.send_signal(signal.SIGSTOP)
    assert manager.is_running
    assert manager.kill() == -signal.SIGKILL


def test_a_manager_that_was_never_started(tmp_path: Path) -> None:
    manager = ManagerProcess([], tmp_path / "log", 1, 1)
    assert not manager.is_running and manager.stop() == 0
    with pytest.raises(DeploymentError, match="not started"):
        _ = manager.pid


def test_readiness_follows_the_probe(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(0, "refused"), (500, "not yet"), (200, "ok")])
    monkeypatch.setattr("tools.deployment._POLL_SECONDS", 0.0)
    monkeypatch.setattr(ManagerProcess, "probe", lambda *_: next(answers))
    manager = start("pass")
    assert manager.wait_ready() is manager
    assert next(answers, None) is None


def test_an_exit_during_the_start_is_reported_with_the_end_of_the_log(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ManagerProcess, "probe", lambda *_: (0, "refused"))
    manager = start("pass")
    manager.kill()
    with pytest.raises(DeploymentError, match=r"ended while it was starting:\nready"):
        manager.wait_ready()


def test_a_manager_that_never_becomes_ready(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ManagerProcess, "probe", lambda *_: (500, "not yet"))
    with pytest.raises(DeploymentError, match="not ready after"):
        start("pass").wait_ready(-1.0)


def test_the_message_has_the_end_of_the_log(tmp_path: Path) -> None:
    manager = ManagerProcess([], tmp_path / "log", 1, 1)
    manager.log_path.write_text("a\nb\nc\n")
    assert manager.last_words(2) == "b\nc"


def test_the_configuration_is_changed_only_for_this_host() -> None:
    actual = host_configuration(CONFIGURATION, PORTS, {})
    assert actual == {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "webhook": {"host": "127.0.0.1", "port": 1, "certDir": "/certificates"},
        "health": {"healthProbeBindAddress": "127.0.0.1:2"},
        "metrics": {"bindAddress": "127.0.0.1:3"},
    }


def test_overrides_replace_complete_sections() -> None:
    actual = host_configuration(CONFIGURATION, PORTS, {"leaderElection": {"leaderElect": False}, "tls": {}})
    assert actual["leaderElection"] == {"leaderElect": False} and actual["tls"] == {}


@pytest.mark.parametrize(
    ("former", "expected"),
    [
        pytest.param(
            {"service": {"name": "a", "path": "/mutate"}, "caBundle": "Q0E="},
            [("remove", "service"), ("add", "url", "https://127.0.0.1:1/mutate")],
            id="from a Service",
        ),
        pytest.param(
            {"service": {"name": "a"}},
            [("remove", "service"), ("add", "url", "https://127.0.0.1:1/")],
            id="from a Service without a path",
        ),
        pytest.param(
            {"url": "https://127.0.0.1:9/a/b", "caBundle": "Q0E="},
            [("add", "url", "https://127.0.0.1:1/a/b")],
            id="from another port",
        ),
    ],
)
def test_webhooks_are_redirected_to_this_host(
    former: dict[str, Any], expected: list[tuple[str, ...]]
) -> None:
    patch = webhook_patch([{"clientConfig": former}], 1)
    base = "/webhooks/0/clientConfig/"
    assert [
        (
            operation["op"],
            operation["path"].removeprefix(base),
            *([operation["value"]] if "value" in operation else []),
        )
        for operation in patch
    ] == expected


def test_every_webhook_is_redirected() -> None:
    hooks = [{"clientConfig": {"url": f"https://127.0.0.1:9/{n}"}} for n in range(3)]
    assert [operation["path"] for operation in webhook_patch(hooks, 1)] == [
        f"/webhooks/{n}/clientConfig/url" for n in range(3)
    ]


def test_each_manager_has_separate_files_ports_and_permissions(tmp_path: Path) -> None:
    deployment = Deployment(FakeCluster(tmp_path), tmp_path / "work")
    first = deployment.manager("--flag", environment={"A": "b"})
    second = deployment.manager()
    assert first.log_path != second.log_path
    ports = [
        port
        for manager in (first, second)
        for port in (manager.webhook_port, manager.health_port, manager.metrics_port)
    ]
    assert len(set(ports)) == 6
    assert first.environment == {"TMPDIR": str(tmp_path / "work"), "A": "b"}
    assert first.command[-1] == "--flag"
    assert f"--kubeconfig={tmp_path}/lws-system-lws-controller-manager.yaml" in first.command
    (config,) = [argument for argument in first.command if argument.startswith("--config=")]
    written = yaml.safe_load(Path(config.partition("=")[2]).read_text())
    assert written["webhook"]["port"] == first.webhook_port
    assert deployment.managers == [first, second]


def test_both_kinds_of_webhooks_are_redirected(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    deployment = Deployment(cluster, tmp_path / "work")
    manager = deployment.manager()
    deployment.point_webhooks(manager)
    patches = [command for command in cluster.commands if command[1] == "patch"]
    assert [command[2:4] for command in patches] == [
        ("mutatingwebhookconfiguration", "lws-mutating-webhook-configuration"),
        ("validatingwebhookconfiguration", "lws-validating-webhook-configuration"),
    ]
    url = f"https://127.0.0.1:{manager.webhook_port}/mutate"
    assert all(json.loads(command[-1])[-1]["value"] == url for command in patches)


def test_helm_gets_the_chart_and_the_given_values(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    deployment = Deployment(cluster, tmp_path)
    deployment.install("--set", "a=b")
    deployment.uninstall()
    install, uninstall = cluster.commands
    assert install[:5] == ("helm", "upgrade", "--install", "lws", str(CHART)) and install[-2:] == (
        "--set",
        "a=b",
    )
    assert uninstall[:3] == ("helm", "uninstall", "lws")
    assert CHART.is_dir()


def test_stop_ends_every_manager(tmp_path: Path, start: Start) -> None:
    running, ended = start("pass"), start("pass")
    ended.kill()
    deployment = Deployment(FakeCluster(tmp_path), tmp_path, managers=[running, ended])
    deployment.stop()
    assert not running.is_running
