"""Tests that changes of a pod enqueue no pass if no decision about its group depends on them."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.tables import wakes
from lws.runtime.stored_fields import Wakes
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, NAME_LABEL, WORKER_INDEX_LABEL


def _pod(
    phase: str = "Pending", ready: str = "False", worker: str = "1", node: str = "n", **more: Any
) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    status |= more.pop("status", {})
    labels = {WORKER_INDEX_LABEL: worker}
    return {
        "kind": "Pod",
        "metadata": {"name": "demo-3-1", "uid": "u", "labels": labels, "resourceVersion": "7", **more},
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }


def _edited_leader(*fields: str) -> dict[str, Any]:
    owner = {"kind": "StatefulSet", "name": "demo", "controller": True}
    pod = _pod(*fields, ownerReferences=[owner])
    pod["metadata"]["labels"][NAME_LABEL] = "demo"
    return pod


def _statefulset(replicas: int = 3, ready: int = 0, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "StatefulSet",
        "metadata": {"name": "demo-3", "uid": "s", "generation": 1, "resourceVersion": "7", **metadata},
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": ready},
    }


RESTARTED = {"containerStatuses": [{"name": "server", "restartCount": 1}]}
STARTED = {"containerStatuses": [{"name": "server", "state": {"running": {"startedAt": "now"}}}]}
ENDED = {"containerStatuses": [{"name": "server", "state": {"terminated": {"exitCode": 1}}}]}
EVICTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}

STEPS = [
    pytest.param(
        _pod(node="", worker="0", creationTimestamp="2026-01-02T03:04:05Z"),
        _pod(
            node="",
            worker="0",
            creationTimestamp="2026-01-02T03:04:05Z",
            status={"conditions": [{"type": "PodScheduled", "status": "False"}]},
        ),
        id="leader-of-no-topology-finds-no-node",
    ),
    pytest.param(_pod(node=""), _pod(), id="placed"),
    pytest.param(_pod(), _pod("Running"), id="runs"),
    pytest.param(_pod("Running"), _pod("Running", "True"), id="worker-ready"),
    pytest.param(_pod(worker="0"), _pod("Running", worker="0"), id="leader-runs"),
    pytest.param(_pod(), _pod("Running", resourceVersion="8"), id="another-version"),
    pytest.param(_pod(), _pod("Running", status=STARTED), id="started"),
    pytest.param(_statefulset(), _statefulset(ready=3), id="counted"),
]
TURNED_AWAY = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
IN_A_RACK = {
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
}
NEWS = [
    pytest.param(
        _pod(node="", worker="0", **IN_A_RACK),
        _pod(node="", worker="0", status=TURNED_AWAY, **IN_A_RACK),
        id="leader-finds-no-node",
    ),
    pytest.param(_pod(node="", worker="0"), _pod(worker="0"), id="leader-placed"),
    pytest.param(_pod("Running", worker="0"), _pod("Running", "True", worker="0"), id="leader-ready"),
    pytest.param(
        _edited_leader("Running"), _edited_leader("Running", "True"), id="leader-ready-whose-index-was-edited"
    ),
    pytest.param(_pod("Running", "True"), _pod("Running"), id="no-longer-ready"),
    pytest.param(_pod("Running"), _pod(), id="pending-again"),
    pytest.param(_pod("Running"), _pod("Failed"), id="failed"),
    pytest.param(_pod("Running"), _pod("Succeeded"), id="ended"),
    pytest.param(_pod("Failed"), _pod("Running"), id="back-from-failure"),
    pytest.param(_pod("Failed"), _pod("Failed", status=EVICTED), id="failed-after-a-disruption"),
    pytest.param(_pod("Succeeded"), _pod("Succeeded", status=STARTED), id="counted-after-its-end"),
    pytest.param(_pod("Running"), _pod("Running", status=RESTARTED), id="restarted"),
    pytest.param(_pod(status=RESTARTED), _pod("Running", "True", status=RESTARTED), id="restarted-before"),
    pytest.param(_pod("Running"), _pod("Running", status=ENDED), id="ended-container"),
    pytest.param(_pod("Running"), _pod("Running", status={"reason": "NodeLost"}), id="reason"),
    pytest.param(_pod("Running"), _pod("Running", deletionTimestamp="now"), id="being-deleted"),
    pytest.param(_pod("Running"), _pod("Running", uid="another"), id="replaced"),
    pytest.param(_pod("Running"), _pod("Running", worker="2"), id="labels"),
    pytest.param(_pod(), _pod(node="other"), id="moved"),
    pytest.param(_pod(), _pod(ownerReferences=[]), id="owners"),
    pytest.param(_statefulset(), _statefulset(replicas=2), id="scaled-by-hand"),
    pytest.param(_statefulset(), _statefulset(labels={"a": "b"}), id="labelled-by-hand"),
    pytest.param(_statefulset(), _statefulset(deletionTimestamp="now"), id="statefulset-being-deleted"),
    pytest.param({"kind": "Service", "metadata": {}}, {"kind": "Service", "metadata": {}}, id="other-kinds"),
]


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_changes_that_wake_no_group(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert wakes(before, after) <= Wakes.SET


@pytest.mark.parametrize(("before", "after"), NEWS)
def test_changes_that_wake_a_group(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert wakes(before, after) >= Wakes.LATER
