"""End pods of simulated nodes, as their kubelet would: `python -m tools.localcluster.kubelet KUBECONFIG`.

Pods held by finalizers (foreground deletion) lose their grace period but stay, as with a real kubelet.
"""

from __future__ import annotations

import datetime
import http.client
import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.localcluster.access import read_access
from tools.localcluster.api import Api, ApiError, Stream
from tools.localcluster.nodes import DEAD_LABEL, Provisioner, is_simulated
from tools.localcluster.pods import SIGTERMED, ended

STOPS_AFTER = "localcluster/stops-after"
NEVER = "never"

_RETRY_SECONDS = 0.5
_DEAD_SECONDS = 1.0
_WORKERS = 8
_GONE_OR_REPLACED = (404, 409)

_log = logging.getLogger("kubelet")


def waits_for_kubelet(metadata: dict[str, Any]) -> bool:
    """Report whether a pod is terminating and its kubelet has not yet reduced its grace period to zero."""
    return "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds", 0) > 0


def stopping_time(metadata: dict[str, Any]) -> float | None:
    """Return the seconds that the containers take to stop: 0, or the pod's annotation; None for ever.

    A container that is slower than the grace period is killed when the period ends.
    """
    value = metadata.get("annotations", {}).get(STOPS_AFTER, "0")
    if value == NEVER:
        return None
    try:
        seconds = float(value)
    except ValueError:
        _log.warning("pod %s: %s=%r is no number of seconds: using 0", metadata["name"], STOPS_AFTER, value)
        seconds = 0.0
    return min(seconds, float(metadata["deletionGracePeriodSeconds"]))


class Kubelet:
    """Ends the pods that wait for their kubelet, several at the same time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._workers = ThreadPoolExecutor(_WORKERS)
        self._ending: set[str] = set()
        self._dead: set[str] = set()
        self._others: set[str] = set()
        self._lock = threading.Lock()

    def consider_node(self, node: dict[str, Any]) -> None:
        """Note whether a node is dead, so that its pods wait, and whether it has a kubelet of its own."""
        name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
        with self._lock:
            (self._dead.add if DEAD_LABEL in labels else self._dead.discard)(name)
            (self._others.discard if is_simulated(node) else self._others.add)(name)

    def consider(self, pod: dict[str, Any]) -> None:
        """End a pod if it waits for that, and return at once. Only the metadata of the pod is needed."""
        metadata = pod["metadata"]
        if not waits_for_kubelet(metadata):
            return
        delay = stopping_time(metadata)
        with self._lock:
            if delay is None or metadata["uid"] in self._ending:
                return
            self._ending.add(metadata["uid"])
        if delay:
            self._end_later(delay, metadata)
        else:
            self._workers.submit(self._end, metadata)

    def _end_later(self, delay: float, metadata: dict[str, Any]) -> None:
        timer = threading.Timer(delay, self._workers.submit, (self._end, metadata))
        timer.daemon = True
        timer.start()

    def _end(self, metadata: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        while True:
            try:
                node, dead, others = self._place_of(path)
                if node in dead:
                    self._end_later(_DEAD_SECONDS, metadata)
                    return
                if node in others:
                    break
                if metadata.get("finalizers"):
                    self._write_last_status(path, metadata["uid"])
                self._api.delete(path, options)
                _log.info("ended %s/%s uid=%s", metadata["namespace"], metadata["name"], metadata["uid"])
                break
            except ApiError as refusal:
                if refusal.status in _GONE_OR_REPLACED:
                    break
                _log.warning("ending %s failed, trying again: %s", path, refusal)
            except (OSError, http.client.HTTPException) as error:
                _log.warning("ending %s failed, trying again: %s", path, error)
            time.sleep(_RETRY_SECONDS)
        with self._lock:
            self._ending.discard(metadata["uid"])

    def _place_of(self, path: str) -> tuple[str, set[str], set[str]]:
        """Return the node of a pod, the dead nodes, and the nodes with kubelets of their own. The pod's node
        is read only if there are dead or other nodes.
        """
        with self._lock:
            dead, others = set(self._dead), set(self._others)
        node = self._api.get(path)["spec"].get("nodeName", "") if dead or others else ""
        return node, dead, others

    def _write_last_status(self, path: str, uid: str) -> None:
        """Write a status in which the containers have ended, visible only if finalizers keep the pod."""
        pod = self._api.get(path)
        if pod["metadata"]["uid"] == uid:
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            patch = ended(pod, SIGTERMED, now)
            # The patch carries only the UID, because a kubelet writes its containers' state over concurrent
            # changes.
            self._api.merge(f"{path}/status", {**patch, "metadata": {"uid": uid}})


def main() -> None:
    """Act as kubelet and provisioner of volumes until killed, with the kubeconfig on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    access = read_access(Path(sys.argv[1]).read_text())
    api = Api(access.server, access.ca, access.token, user_agent="localcluster-kubelet")
    provisioner = Provisioner(api)
    kubelet = Kubelet(api)
    # All nodes must be known before the first pod, because pods of other nodes must not be ended here.
    for node in api.get("/api/v1/nodes")["items"]:
        kubelet.consider_node(node)
    for stream in (
        Stream(api, "/api/v1/nodes", kubelet.consider_node, metadata_only=True),
        Stream(api, "/api/v1/persistentvolumeclaims", provisioner.consider_claim),
        Stream(api, "/api/v1/persistentvolumes", provisioner.consider_volume),
    ):
        threading.Thread(target=stream.run, daemon=True).start()
    Stream(api, "/api/v1/pods", kubelet.consider, metadata_only=True).run()


if __name__ == "__main__":
    main()
