"""How does the process end that cannot begin? With one line and an exit code, never with a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from test.integration.controllers.harness.proxied import Stage
from tools.deployment import REPOSITORY, ManagerProcess

pytestmark = pytest.mark.local_only


def ended(*arguments: str) -> tuple[int, str]:
    """Exit code and stderr of `lws manager`."""
    paths = os.pathsep.join(str(REPOSITORY / part) for part in ("", "api"))
    done = subprocess.run(
        [sys.executable, "-m", "lws", "manager", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def is_one_line(told: str) -> bool:
    return told.count("\n") == 1 and told.endswith("\n")


def flag(manager: ManagerProcess, name: str) -> Path:
    """The file that the last flag of that name gives to a manager."""
    (*_, value) = (each.partition("=")[2] for each in manager.command if each.startswith(f"--{name}="))
    return Path(value)


def test_a_flag_that_does_not_exist() -> None:
    code, told = ended("--leader-elct=true")
    assert code == 2
    assert "--leader-elct" in told and is_one_line(told)


def test_a_key_that_does_not_exist(stage: Stage) -> None:
    config = flag(stage.manager(), "config")
    config.write_text(config.read_text() + "\nwebhok: {}\n")
    code, told = ended(f"--config={config}")
    assert code == 1
    assert f"{config}: webhok: no such key; did you mean webhook?" in told and is_one_line(told)


@pytest.mark.parametrize("section", ["webhook", "health", "metrics"])
def test_a_port_that_is_taken(stage: Stage, section: str) -> None:
    manager = stage.manager()
    port = {"webhook": manager.webhook_port, "health": manager.health_port, "metrics": manager.metrics_port}
    with socket.create_server(("127.0.0.1", port[section])):
        code, told = ended(
            f"--config={flag(manager, 'config')}", f"--kubeconfig={flag(manager, 'kubeconfig')}"
        )
    assert code == 1
    assert f"lws: {section}." in told
    assert f"port {port[section]}: address already in use; " in told and is_one_line(told)


def test_an_api_server_that_is_not_there(stage: Stage) -> None:
    manager = stage.manager()
    kubeconfig = yaml.safe_load(flag(manager, "kubeconfig").read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = stage.deployment.workspace / "nobody.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    code, told = ended(f"--config={flag(manager, 'config')}", f"--kubeconfig={path}")
    assert code == 1
    assert "https://127.0.0.1:1" in told and "check that the API server is up" in told and is_one_line(told)


def test_an_account_that_is_not_known(stage: Stage) -> None:
    manager = stage.manager()
    path = stage.deployment.workspace / "stranger.kubeconfig"
    kubeconfig = yaml.safe_load(flag(manager, "kubeconfig").read_text())
    kubeconfig["users"][0]["user"]["token"] = "unknown"
    path.write_text(yaml.safe_dump(kubeconfig))
    code, told = ended(f"--config={flag(manager, 'config')}", f"--kubeconfig={path}")
    assert code == 1
    assert "Unauthorized" in told and is_one_line(told)
