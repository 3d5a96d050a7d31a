"""Answers: what a kubelet would write into a pod's status when something happens to it.

In: the pod as it is, what happens, the time. Out: a merge patch for the status subresource. Pure.
"""

from __future__ import annotations

import copy
from typing import Any

Pod = dict[str, Any]
Patch = dict[str, Any]

_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
SIGKILLED = 137
SIGTERMED = 143


def restarted(pod: Pod, container: str, exit_code: int, reason: str, now: str) -> Patch:
    """Return the status after `container` has ended with `exit_code` and was started again in place.

    An init container that had completed has completed again. LookupError when the container never ran.
    """
    for kind in _LISTS:
        statuses = copy.deepcopy(pod.get("status", {}).get(kind, []))
        for status in statuses:
            if status["name"] == container:
                had_completed = "terminated" in status.get("state", {})
                status["lastState"] = {"terminated": _terminated(status, exit_code, reason, now)}
                again = {"terminated": _terminated({}, 0, "Completed", now)}
                status["state"] = again if had_completed else {"running": {"startedAt": now}}
                status["restartCount"] += 1
                return _patch(pod, {kind: statuses})
    name = pod["metadata"]["name"]
    raise LookupError(f"pod {name} has not started a container {container} yet: wait until it is ready")


def ended(pod: Pod, exit_code: int, now: str, reason: str = "", message: str = "") -> Patch:
    """Return the status after every container has ended for good; `reason` and `message` are the pod's."""
    statuses = copy.deepcopy(pod.get("status", {}).get("containerStatuses", []))
    for status in statuses:
        why = "Completed" if exit_code == 0 else "Error"
        status["state"] = {"terminated": _terminated(status, exit_code, why, now)}
        status["ready"] = status["started"] = False
    phase = "Succeeded" if exit_code == 0 else "Failed"
    conditions = _with_readiness(pod, False, "PodCompleted" if exit_code == 0 else "PodFailed", now)
    changed = {"phase": phase, "containerStatuses": statuses, "conditions": conditions}
    told = {key: text for key, text in (("reason", reason), ("message", message)) if text}
    return _patch(pod, {**changed, **told})


def with_readiness(pod: Pod, ready: bool, now: str) -> Patch:
    """Return the status after the readiness probes began to succeed or to fail; containers of a pod that has
    not started yet are started for that.
    """
    statuses = copy.deepcopy(pod.get("status", {}).get("containerStatuses", [])) or _started(pod, now)
    for status in statuses:
        status["ready"] = ready
    conditions = _with_readiness(pod, ready, "" if ready else "ContainersNotReady", now)
    return _patch(pod, {"phase": "Running", "containerStatuses": statuses, "conditions": conditions})


def _started(pod: Pod, now: str) -> list[dict[str, Any]]:
    return [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": "",
            "restartCount": 0,
            "started": True,
            "state": {"running": {"startedAt": now}},
        }
        for each in pod["spec"]["containers"]
    ]


def _with_readiness(pod: Pod, ready: bool, reason: str, now: str) -> list[dict[str, Any]]:
    status = "True" if ready else "False"
    kept = {each["type"]: each for each in copy.deepcopy(pod.get("status", {}).get("conditions", []))}
    for kind in ("ContainersReady", "Ready"):
        before = kept.get(kind, {})
        changed_at = before.get("lastTransitionTime", now) if before.get("status") == status else now
        kept[kind] = {"type": kind, "status": status, "lastTransitionTime": changed_at}
        if reason:
            kept[kind]["reason"] = reason
    return list(kept.values())


def _terminated(status: dict[str, Any], exit_code: int, reason: str, now: str) -> dict[str, Any]:
    started = status.get("state", {}).get("running", {}).get("startedAt", now)
    return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}


def _patch(pod: Pod, status: dict[str, Any]) -> Patch:
    """UID and version make the API server refuse what would hit another pod or undo a newer status."""
    metadata = {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"metadata": metadata, "status": status}
