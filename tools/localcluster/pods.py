"""Answers: how a test makes something happen to a pod of a simulated node.

In: namespace, pod, what happens. Out: the pod's status as a kubelet would have written it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tools.localcluster import podstatus
from tools.localcluster.api import Api, ApiError

_CONFLICT = 409
_ATTEMPTS = 10


class PodView:
    """The pods of any cluster. `read` gets the object at a path and query string."""

    def __init__(self, read: Callable[[str], dict[str, Any]]) -> None:
        self._read = read

    def get(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the pod as the API server has it."""
        return self._read(_path(namespace, name))

    def matching(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Return the pods of a namespace that match a label selector."""
        query = urlencode({"labelSelector": selector})
        return list(self._read(f"/api/v1/namespaces/{namespace}/pods?{query}")["items"])

    def wait_ready(
        self, namespace: str, selector: str, count: int, timeout: float = 180.0
    ) -> list[dict[str, Any]]:
        """Return the pods that match `selector` once exactly `count` exist and all of them are ready."""
        deadline = time.monotonic() + timeout
        while True:
            pods = self.matching(namespace, selector)
            ready = [pod for pod in pods if is_ready(pod)]
            if len(ready) == len(pods) == count:
                return ready
            if time.monotonic() > deadline:
                found = f"{len(ready)} ready, {len(pods)} exist"
                raise TimeoutError(f"expected {count} ready pods with {selector} in {timeout:g} s: {found}")
            time.sleep(0.1)


class Pods(PodView):
    """The pods of simulated nodes, and how they can fail; raises ApiError, LookupError or TimeoutError."""

    def __init__(self, api: Api) -> None:
        super().__init__(api.get)
        self._api = api

    def restart_container(self, namespace: str, name: str, container: str, exit_code: int = 1) -> None:
        """One container, an init container included, ends with `exit_code` and is started again in place."""
        reason = "OOMKilled" if exit_code == podstatus.SIGKILLED else "Error"
        self._change(
            namespace, name, lambda pod: podstatus.restarted(pod, container, exit_code, reason, _now())
        )

    def fail(self, namespace: str, name: str, reason: str = "Evicted", message: str = "") -> None:
        """The kubelet ends the pod for good: phase Failed with `reason`, as after node-pressure eviction."""
        self._change(
            namespace, name, lambda pod: podstatus.ended(pod, podstatus.SIGKILLED, _now(), reason, message)
        )

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """The readiness probes of all containers begin to succeed or to fail."""
        self._change(namespace, name, lambda pod: podstatus.with_readiness(pod, ready, _now()))

    def _change(self, namespace: str, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                self._api.merge(f"{_path(namespace, name)}/status", change(self.get(namespace, name)))
                return
            except ApiError as refusal:
                if refusal.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                    raise


def is_ready(pod: dict[str, Any]) -> bool:
    """Tell whether the pod has condition Ready and is not being deleted."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
