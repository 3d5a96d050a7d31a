"""Follow the objects of a cluster, and wait for states of them."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Mapping

from lws_api.leaderworkerset.v1 import API_VERSION
from tools.demo.facts import Kind, Moment, Record, View
from tools.localcluster import Api, ApiError
from tools.localcluster.api import watch_call

NAMESPACE = "default"
"""The namespace of the demo's set."""

_RETRY_SECONDS = 0.5
_GONE = 410


class NotInTime(RuntimeError):
    """An awaited state, described by `condition`, did not come in time; `view` is what exists instead."""

    def __init__(self, condition: str, seconds: float, view: View) -> None:
        super().__init__(f"{condition}: not within {seconds:.0f} s")
        self.condition = condition
        self.seconds = seconds
        self.view = view


def collections(manager_namespace: str) -> dict[Kind, str]:
    """Return the path of every collection that is followed."""
    return {
        Kind.SET: f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/leaderworkersets",
        Kind.POD: f"/api/v1/namespaces/{NAMESPACE}/pods",
        Kind.STATEFULSET: f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets",
        Kind.SERVICE: f"/api/v1/namespaces/{NAMESPACE}/services",
        Kind.REVISION: f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions",
        Kind.EVENT: f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
        Kind.LEASE: f"/apis/coordination.k8s.io/v1/namespaces/{manager_namespace}/leases",
    }


class Mirror:
    """Follows collections, each in a thread of its own, which calls `on_change` after every change."""

    def __init__(self, api: Api, paths: Mapping[Kind, str], on_change: Callable[[], None]) -> None:
        self._api = api
        self._paths = paths
        self._on_change = on_change
        self._record = Record()
        self._changed = threading.Condition()
        self._listed: set[Kind] = set()
        self._ended = threading.Event()

    def start(self, seconds: float = 30.0) -> Mirror:
        """Begin to follow, and return once every collection was read. Raises NotInTime."""
        for kind, path in self._paths.items():
            # The threads are daemons: each ends with its stream, possibly as late as the API server.
            arguments = (kind, path)
            threading.Thread(target=self._follow, args=arguments, name=f"follow {kind}", daemon=True).start()
        missing = ", ".join(self._paths.values())
        self.until(lambda _: self._listed == set(self._paths), seconds, f"lists of {missing}")
        return self

    def stop(self) -> None:
        """Stop following: streams that end are not opened again, and `on_change` is not called any more."""
        self._ended.set()

    def view(self) -> View:
        """Return the objects as far as the streams have reported them."""
        with self._changed:
            return self._record.view()

    def fresh(self) -> View:
        """Return the objects that the API server lists now, independently of all streams."""
        record = Record()
        for kind, path in self._paths.items():
            record.replace(kind, self._api.get(path)["items"])
        return record.view()

    def mark(self) -> int:
        """Return the present moment as a mark for `since`."""
        with self._changed:
            return self._record.mark()

    def since(self, mark: int) -> tuple[Moment, ...]:
        """Return the moment of the mark and all later moments."""
        with self._changed:
            return self._record.since(mark)

    def until(self, is_true: Callable[[View], bool], seconds: float, condition: str) -> View:
        """Return the first view that `is_true` accepts. Raises NotInTime after `seconds`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not is_true(view := self._record.view()):
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._changed.wait(remaining):
                    raise NotInTime(condition, seconds, view)
            return view

    def _list(self, kind: Kind, path: str) -> str:
        response = self._api.get(path)
        with self._changed:
            self._record.replace(kind, response["items"])
            self._listed.add(kind)
        self._tell()
        return str(response["metadata"]["resourceVersion"])

    def _follow(self, kind: Kind, path: str) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                version = self._watch(kind, path, version) if version else self._list(kind, path)
            except ApiError as refusal:
                version = "" if refusal.status == _GONE else version
                self._ended.wait(_RETRY_SECONDS)
            except (OSError, http.client.HTTPException, ValueError):
                self._ended.wait(_RETRY_SECONDS)

    def _watch(self, kind: Kind, path: str, version: str) -> str:
        for event in self._api.watch(watch_call(path, version)):
            version = str(event["object"]["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                with self._changed:
                    self._record.take(kind, event)
                self._tell()
        return version

    def _tell(self) -> None:
        if self._ended.is_set():
            return
        with self._changed:
            self._changed.notify_all()
        self._on_change()
