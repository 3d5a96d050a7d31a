"""Make pods of simulated nodes change, by writing their status as a kubelet would."""

from __future__ import annotations

import copy
import datetime
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tools.localcluster.api import Api, ApiError

_CONFLICT = 409
_ATTEMPTS = 10
Pod = dict[str, Any]
Patch = dict[str, Any]
_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
SIGKILLED = 137
SIGTERMED = 143


class PodView:
    """The pods of any cluster; `read` returns the object at a path with a query string."""

    def __init__(self, read: Callable[[str], dict[str, Any]]) -> None:
        self._read = read

    def get(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the pod as the API server stores it."""
        return self._read(_path(namespace, name))

    def matching(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Return the pods of a namespace that match a label selector."""
        query = urlencode({"labelSelector": selector})
        return list(self._read(f"/api/v1/namespaces/{namespace}/pods?{query}")["items"])

    def wait_ready(
        self, namespace: str, selector: str, count: int, timeout: float = 180.0
    ) -> list[dict[str, Any]]:
        """Return the pods that match `selector` once exactly `count` of them exist and all are ready."""
        deadline = time.monotonic() + timeout
        while True:
            pods = self.matching(namespace, selector)
            ready = [pod for pod in pods if is_ready(pod)]
            if len(ready) == len(pods) == count:
                return ready
            if time.monotonic() > deadline:
                counts = f"{len(ready)} ready, {len(pods)} exist"
                raise TimeoutError(f"expected {count} ready pods with {selector} in {timeout:g} s: {counts}")
            time.sleep(0.1)


class Pods(PodView):
    """The pods of simulated nodes. Methods that change them raise ApiError, LookupError or TimeoutError."""

    def __init__(self, api: Api) -> None:
        super().__init__(api.get)
        self._api = api

    def restart_container(
        self, namespace: str, name: str, container: str, exit_code: int = 1, skew: float = 0.0
    ) -> None:
        """End one container, maybe an init container, with `exit_code`, and start it again in place.
        skew: seconds by which the clock of the pod's node is ahead.
        """
        reason = "OOMKilled" if exit_code == SIGKILLED else "Error"
        self._change(namespace, name, lambda pod: restarted(pod, container, exit_code, reason, _now(skew)))

    def fail(self, namespace: str, name: str, reason: str = "Evicted", message: str = "") -> None:
        """End the pod for good, with phase Failed and `reason`, as a node-pressure eviction does."""
        self._change(namespace, name, lambda pod: ended(pod, SIGKILLED, _now(), reason, message))

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Make the readiness probes of all containers succeed or fail."""
        self._change(namespace, name, lambda pod: with_readiness(pod, ready, _now()))

    def _change(self, namespace: str, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._api.merge(f"{_path(namespace, name)}/status", change(self.get(namespace, name)))
                return
            except ApiError as refusal:
                if refusal.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                    raise


def is_ready(pod: dict[str, Any]) -> bool:
    """Report whether the pod has condition Ready and is not terminating."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _now(skew: float = 0.0) -> str:
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=skew)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def restarted(pod: Pod, container: str, exit_code: int, reason: str, now: str) -> Patch:
    """Return the status after `container` has ended with `exit_code` and was started again in place.

    An init container that had completed has completed again. Raises LookupError if the container never ran.
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
    explanation = {key: text for key, text in (("reason", reason), ("message", message)) if text}
    return _patch(pod, {**changed, **explanation})


def with_readiness(pod: Pod, ready: bool, now: str) -> Patch:
    """Return the status once readiness probes succeed or fail; containers that have not started start."""
    statuses = copy.deepcopy(pod.get("status", {}).get("containerStatuses", [])) or _started(pod, now)
    for status in statuses:
        status["ready"] = ready
    conditions = _with_readiness(pod, ready, "" if ready else "ContainersNotReady", now)
    return _patch(pod, {"phase": "Running", "containerStatuses": statuses, "conditions": conditions})


def _started(pod: Pod, now: str) -> list[dict[str, Any]]:
    status = {"imageID": "", "restartCount": 0, "started": True, "state": {"running": {"startedAt": now}}}
    return [{"name": entry["name"], "image": entry["image"], **status} for entry in pod["spec"]["containers"]]


def _with_readiness(pod: Pod, ready: bool, reason: str, now: str) -> list[dict[str, Any]]:
    status = "True" if ready else "False"
    by_type = {entry["type"]: entry for entry in copy.deepcopy(pod.get("status", {}).get("conditions", []))}
    for kind in ("ContainersReady", "Ready"):
        before = by_type.get(kind, {})
        changed_at = before.get("lastTransitionTime", now) if before.get("status") == status else now
        by_type[kind] = {"type": kind, "status": status, "lastTransitionTime": changed_at}
        if reason:
            by_type[kind]["reason"] = reason
    return list(by_type.values())


def _terminated(status: dict[str, Any], exit_code: int, reason: str, now: str) -> dict[str, Any]:
    started = status.get("state", {}).get("running", {}).get("startedAt", now)
    return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}


def _patch(pod: Pod, status: dict[str, Any]) -> Patch:
    """Build a patch with UID and version, so that it can hit no other pod and undo no newer status."""
    metadata = {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"metadata": metadata, "status": status}
