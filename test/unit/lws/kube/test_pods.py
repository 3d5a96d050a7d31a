"""What the status of a pod says."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.pods import (
    ContainerRestart,
    has_restarted,
    is_pending,
    is_ready,
    is_running,
    is_terminating,
    restarted_containers,
)


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo-0"}, "status": status}


def ready(status: str) -> list[dict[str, str]]:
    return [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": status}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"conditions": ready("True")}, True, id="ready"),
        pytest.param({"conditions": ready("True"), "phase": "Failed"}, True, id="whatever the phase"),
        pytest.param({"conditions": ready("False")}, False, id="not ready"),
        pytest.param({"conditions": ready("Unknown")}, False, id="node lost"),
        pytest.param({"conditions": ready("True")[:1]}, False, id="another condition"),
        pytest.param({"conditions": None}, False, id="null"),
        pytest.param({}, False, id="no conditions"),
    ],
)
def test_is_ready(status: dict[str, Any], expected: bool) -> None:
    assert is_ready(pod(**status)) is expected


@pytest.mark.parametrize(
    ("phase", "running", "pending"),
    [
        ("Running", True, False),
        ("Pending", False, True),
        ("Succeeded", False, False),
        ("Failed", False, False),
        ("", False, True),
    ],
)
def test_phases(phase: str, running: bool, pending: bool) -> None:
    assert is_running(pod(phase=phase)) is running
    assert is_pending(pod(phase=phase)) is pending


def test_a_pod_without_status_is_pending() -> None:
    assert is_pending({"metadata": {}})
    assert not is_running({"metadata": {}, "status": None})


def test_is_terminating() -> None:
    assert is_terminating({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}})
    assert not is_terminating(pod())


def restarted(name: str, count: int, **terminated: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "restartCount": count}
    return {**entry, "lastState": {"terminated": terminated}} if terminated else entry


def test_restarted_containers() -> None:
    found = restarted_containers(
        pod(
            containerStatuses=[restarted("main", 2, exitCode=137, reason="OOMKilled"), restarted("quiet", 0)],
            initContainerStatuses=[restarted("sidecar", 1)],
        )
    )
    assert found == (ContainerRestart("sidecar", 1), ContainerRestart("main", 2, 137, "OOMKilled"))


@pytest.mark.parametrize(
    ("phase", "status", "expected"),
    [
        pytest.param("Running", {"containerStatuses": [restarted("main", 1)]}, True, id="running"),
        pytest.param("Pending", {"initContainerStatuses": [restarted("init", 1)]}, True, id="pending, init"),
        pytest.param(
            "Failed", {"containerStatuses": [restarted("main", 1)]}, False, id="failed: replaced instead"
        ),
        pytest.param("Running", {"containerStatuses": [restarted("main", 0)]}, False, id="never"),
        pytest.param("Running", {"containerStatuses": None}, False, id="null"),
    ],
)
def test_has_restarted(phase: str, status: dict[str, Any], expected: bool) -> None:
    assert has_restarted(pod(phase=phase, **status)) is expected
