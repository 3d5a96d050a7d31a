"""A manager that cannot start ends with one line and an exit code, never with a traceback.

A manager that starts but has no access to the API server keeps running.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from test.harness.proxied import Stage
from test.harness.waiting import eventually
from tools.deployment import REPOSITORY, ManagerProcess

pytestmark = pytest.mark.local_only


def run_manager(*arguments: str) -> tuple[int, str]:
    """Return exit code and stderr of `lws manager`."""
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


def is_one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n")


def flag(manager: ManagerProcess, name: str) -> Path:
    """Return the file in the last flag of that name."""
    (*_, value) = (
        argument.partition("=")[2] for argument in manager.command if argument.startswith(f"--{name}=")
    )
    return Path(value)


def test_an_unknown_flag_is_rejected() -> None:
    code, stderr = run_manager("--leader-elct=true")
    assert code == 2
    assert "--leader-elct" in stderr and is_one_line(stderr)


def test_an_unknown_configuration_key_is_rejected(stage: Stage) -> None:
    config = flag(stage.manager(), "config")
    config.write_text(config.read_text() + "\nwebhok: {}\n")
    code, stderr = run_manager(f"--config={config}")
    assert code == 1
    assert f"{config}: webhok: no such key; did you mean webhook?" in stderr and is_one_line(stderr)


@pytest.mark.parametrize("section", ["webhook", "health", "metrics"])
def test_a_port_in_use_is_reported(stage: Stage, section: str) -> None:
    manager = stage.manager()
    port = {"webhook": manager.webhook_port, "health": manager.health_port, "metrics": manager.metrics_port}
    with socket.create_server(("127.0.0.1", port[section])):
        code, stderr = run_manager(
            f"--config={flag(manager, 'config')}", f"--kubeconfig={flag(manager, 'kubeconfig')}"
        )
    assert code == 1
    assert f"lws: {section}." in stderr
    assert f"port {port[section]}: address already in use; " in stderr and is_one_line(stderr)


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        pytest.param({"clusters": "https://127.0.0.1:1"}, "https://127.0.0.1:1", id="no API server"),
        pytest.param({"users": "unknown"}, "Unauthorized", id="unknown account"),
    ],
)
def test_a_manager_without_access_waits_and_logs_the_reason(
    stage: Stage, part: dict[str, str], missing: str
) -> None:
    """The manager ends only for errors in its command line; everything else may be fixed meanwhile."""
    manager = stage.manager()
    path = flag(manager, "kubeconfig")
    kubeconfig = yaml.safe_load(path.read_text())
    if "clusters" in part:
        kubeconfig["clusters"][0]["cluster"]["server"] = part["clusters"]
    else:
        kubeconfig["users"][0]["user"]["token"] = part["users"]
    path.write_text(yaml.safe_dump(kubeconfig))
    manager.start()
    _, body = eventually(
        "the readiness probe reports the reason",
        lambda: manager.probe("readyz"),
        lambda answer: missing in answer[1],
    )
    assert manager.probe("healthz")[0] == 200, body
    assert manager.stop() == 0
