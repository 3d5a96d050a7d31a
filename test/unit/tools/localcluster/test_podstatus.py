"""tools.localcluster.pods: statuses as a kubelet would write them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tools.localcluster.pods import ended, restarted, with_readiness

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def container(name: str, **state: Any) -> dict[str, Any]:
    running = {"running": {"startedAt": EARLIER}}
    return {"name": name, "restartCount": 0, "ready": True, "started": True, "state": state or running}


def make_pod() -> dict[str, Any]:
    return {
        "metadata": {"name": "pod-0", "namespace": "default", "uid": "u1", "resourceVersion": "7"},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": EARLIER},
                {"type": "Ready", "status": "True", "lastTransitionTime": EARLIER},
                {"type": "ContainersReady", "status": "True", "lastTransitionTime": EARLIER},
            ],
            "initContainerStatuses": [container("init", terminated={"exitCode": 0})],
            "containerStatuses": [container("a"), container("b")],
        },
    }


def conditions(patch: dict[str, Any]) -> dict[str, tuple[str, str]]:
    rows = patch["status"]["conditions"]
    return {condition["type"]: (condition["status"], condition["lastTransitionTime"]) for condition in rows}


def test_a_restart_increments_the_count_of_one_container() -> None:
    patch = restarted(make_pod(), "b", 137, "OOMKilled", NOW)
    first, second = patch["status"]["containerStatuses"]
    assert first == container("a")
    assert second["restartCount"] == 1
    assert second["state"] == {"running": {"startedAt": NOW}}
    assert second["lastState"]["terminated"] == {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": EARLIER,
        "finishedAt": NOW,
    }
    assert "initContainerStatuses" not in patch["status"]


def test_init_container_completes_again() -> None:
    status = restarted(make_pod(), "init", 3, "Error", NOW)["status"]["initContainerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["state"]["terminated"]["exitCode"] == 0
    assert status["lastState"]["terminated"]["exitCode"] == 3


def test_container_that_never_ran() -> None:
    with pytest.raises(LookupError, match="pod-0 has not started a container c yet"):
        restarted(make_pod(), "c", 1, "Error", NOW)


@pytest.mark.parametrize(("exit_code", "phase"), [(0, "Succeeded"), (143, "Failed")])
def test_ended(exit_code: int, phase: str) -> None:
    patch = ended(make_pod(), exit_code, NOW)
    assert patch["status"]["phase"] == phase
    assert "reason" not in patch["status"]
    for status in patch["status"]["containerStatuses"]:
        assert status["state"]["terminated"]["exitCode"] == exit_code
        assert (status["ready"], status["started"]) == (False, False)
    assert conditions(patch)["Ready"] == ("False", NOW)
    assert conditions(patch)["PodScheduled"] == ("True", EARLIER)


def test_eviction_carries_its_reason() -> None:
    status = ended(make_pod(), 137, NOW, "Evicted", "out of memory")["status"]
    assert (status["reason"], status["message"]) == ("Evicted", "out of memory")


def test_readiness_moves_the_transition_time_only_when_it_changes() -> None:
    assert conditions(with_readiness(make_pod(), True, NOW))["Ready"] == ("True", EARLIER)
    unready = with_readiness(make_pod(), False, NOW)
    assert conditions(unready)["Ready"] == ("False", NOW)
    assert [status["ready"] for status in unready["status"]["containerStatuses"]] == [False, False]


def test_a_container_that_becomes_ready_is_running() -> None:
    young = make_pod() | {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    young["status"] = {"phase": "Pending"}
    (status,) = with_readiness(young, True, NOW)["status"]["containerStatuses"]
    assert (status["name"], status["ready"], status["restartCount"]) == ("a", True, 0)
    assert status["state"] == {"running": {"startedAt": NOW}}


def test_patch_cannot_hit_another_pod_and_the_pod_is_not_touched() -> None:
    pod = make_pod()
    before = copy.deepcopy(pod)
    for patch in (
        restarted(pod, "a", 1, "Error", NOW),
        ended(pod, 1, NOW),
        with_readiness(pod, False, NOW),
    ):
        assert patch["metadata"] == {"uid": "u1", "resourceVersion": "7"}
    assert pod == before
