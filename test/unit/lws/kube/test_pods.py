"""lws.kube.pods: facts read from the status of a pod."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lws.kube.metadata import is_terminating
from lws.kube.pods import (
    ContainerEnd,
    NodeWait,
    deletion_requested_at,
    disruption_of,
    ended_containers,
    is_failed,
    is_pending,
    is_ready,
    is_running,
    reason_of,
    restarted_containers,
    wait_for_node,
)
from test.unit.builders import NOW


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


def test_is_failed() -> None:
    evicted = pod(phase="Failed", reason="Evicted")
    assert is_failed(evicted) and reason_of(evicted) == "Evicted"
    assert not is_failed(pod(phase="Succeeded")) and reason_of(pod()) == ""


def restarted(name: str, count: int, **terminated: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "restartCount": count}
    return {**entry, "lastState": {"terminated": terminated}} if terminated else entry


def test_restarted_containers() -> None:
    ends = restarted_containers(
        pod(
            containerStatuses=[
                restarted("main", 2, exitCode=137, reason="OOMKilled", finishedAt="t"),
                restarted("quiet", 0),
            ],
            initContainerStatuses=[restarted("init", 1)],
        )
    )
    assert ends == (ContainerEnd("init", restarts=1), ContainerEnd("main", 137, "OOMKilled", restarts=2))


def test_a_sidecar_is_an_init_container_with_restart_policy_always() -> None:
    both = {
        "spec": {"initContainers": [{"name": "once"}, {"name": "beside", "restartPolicy": "Always"}]},
        **pod(
            initContainerStatuses=[restarted("once", 1), restarted("beside", 1)],
            containerStatuses=[restarted("main", 1)],
        ),
    }
    assert [end.container for end in restarted_containers(both) if end.is_sidecar] == ["beside"]


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
def test_a_terminating_pod_does_not_restart(phase: str, status: dict[str, Any], expected: bool) -> None:
    assert bool(restarted_containers(pod(phase=phase, **status))) is expected


def ended(name: str, **terminated: Any) -> dict[str, Any]:
    return {"name": name, "restartCount": 0, "state": {"terminated": terminated}}


def test_ended_containers() -> None:
    failed = pod(
        phase="Failed",
        initContainerStatuses=[ended("done", exitCode=0, reason="Completed")],
        containerStatuses=[ended("main", exitCode=1, reason="Error", finishedAt="t"), {"name": "none"}],
    )
    assert ended_containers(failed) == (ContainerEnd("main", 1, "Error"),)


def conditioned(type_: str, status: str, **more: Any) -> dict[str, Any]:
    metadata = {"creationTimestamp": "2026-03-01T12:00:00Z"}
    return {"metadata": metadata, "status": {"conditions": [{"type": type_, "status": status, **more}]}}


@pytest.mark.parametrize(
    ("deleted_pod", "why"),
    [
        pytest.param(pod(), "", id="none"),
        pytest.param(
            conditioned("DisruptionTarget", "True", reason="PreemptionByScheduler"),
            "PreemptionByScheduler",
            id="preempted",
        ),
        pytest.param(conditioned("DisruptionTarget", "True"), "DisruptionTarget", id="without a reason"),
        pytest.param(
            conditioned("TerminationTarget", "True", reason="WorkloadEvictedDueToPreempted"),
            "WorkloadEvictedDueToPreempted",
            id="evicted by Kueue",
        ),
        pytest.param(
            conditioned("DisruptionTarget", "False", reason="EvictionByEvictionAPI"), "", id="stale"
        ),
        pytest.param(pod(phase="Failed", reason="Evicted"), "", id="evicted because of its own usage"),
    ],
)
def test_disruption_of(deleted_pod: dict[str, Any], why: str) -> None:
    assert disruption_of(deleted_pod) == why


@pytest.mark.parametrize(
    ("pod", "wait"),
    [
        pytest.param(conditioned("Ready", "False"), None, id="not seen by a scheduler"),
        pytest.param(
            {
                **conditioned("PodScheduled", "False", reason="SchedulingGated"),
                "spec": {"schedulingGates": [{"name": "example.com/quota"}, {"name": "later"}]},
            },
            NodeWait(NOW, gate="example.com/quota"),
            id="gated",
        ),
        pytest.param(
            conditioned("PodScheduled", "False", reason="Unschedulable"), NodeWait(NOW), id="no node"
        ),
        pytest.param(
            conditioned("PodScheduled", "True", lastTransitionTime="2026-03-01T12:00:02Z"), None, id="at once"
        ),
        pytest.param(
            conditioned("PodScheduled", "True", lastTransitionTime="2026-03-01T12:00:03Z"),
            NodeWait(NOW, NOW + timedelta(seconds=3)),
            id="after a while",
        ),
        pytest.param(conditioned("PodScheduled", "True"), None, id="unknown time"),
        pytest.param({**conditioned("PodScheduled", "False"), "metadata": {}}, None, id="nor since when"),
    ],
)
def test_wait_for_node(pod: dict[str, Any], wait: NodeWait | None) -> None:
    assert wait_for_node(pod) == wait


def test_the_deletion_request_precedes_the_timestamp_by_the_grace_period() -> None:
    metadata = {"deletionTimestamp": "2026-03-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
    assert deletion_requested_at({"metadata": metadata}) == NOW
    assert deletion_requested_at({"metadata": {}}) is None


@pytest.mark.parametrize("grace", [10**11, 2**63 - 1])
def test_a_grace_period_longer_than_any_calendar_has_no_beginning(grace: int) -> None:
    metadata = {"deletionTimestamp": "2026-03-01T12:00:00Z", "deletionGracePeriodSeconds": grace}
    assert deletion_requested_at({"metadata": metadata}) is None
