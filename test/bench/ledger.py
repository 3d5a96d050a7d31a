"""Follow StatefulSets and sets of both kinds by watch streams, and wait until a phase is over.

The API server is never polled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lws_api.disaggregatedset.v1 import API_VERSION as DISAGGREGATED_VERSION
from lws_api.leaderworkerset.v1 import API_VERSION
from test.bench.watching import watched
from tools.localcluster.api import Api, ApiError

STATEFULSETS, SETS, DISAGGREGATED = "statefulsets", "leaderworkersets", "disaggregatedsets"

_GROUPS = {STATEFULSETS: "apps/v1", SETS: API_VERSION, DISAGGREGATED: DISAGGREGATED_VERSION}
_REST, _LONGEST_REST_SECONDS = 20, 0.5


class TooLate(RuntimeError):
    """Raised if a phase does not end; the message says what is missing."""


@dataclass(frozen=True)
class StatefulSet:
    """A StatefulSet. ready, updated: pods reported for its current spec, 0 before the first report."""

    uid: str
    image: str
    replicas: int
    ready: int
    updated: int
    is_going: bool

    @property
    def is_ready(self) -> bool:
        return self.ready == self.replicas and not self.is_going


@dataclass(frozen=True)
class Set:
    """A set. replicas: the desired number. ready, updated: counters of its status."""

    replicas: int
    ready: int
    updated: int
    available: bool

    @property
    def is_done(self) -> bool:
        return self.available and self.ready == self.updated == self.replicas


class Ledger:
    """The objects of one namespace, kept current by threads until `close`.

    Without a namespace, these are the objects of all namespaces, and names must be unique within a kind.
    check: a function that is called during waits, and raises if waiting is in vain.
    """

    def __init__(self, api: Api, namespace: str, *kinds: str) -> None:
        self.check: Callable[[], None] = lambda: None
        self._api = api
        self._namespace = namespace
        self._news = threading.Condition()
        self._closed = False
        self._failed: ApiError | None = None
        self.statefulsets: dict[str, StatefulSet] = {}
        self.sets: dict[str, Set] = {}
        # The generation for which each set is available, or 0.
        self.disaggregated: dict[str, int] = {}
        for kind in kinds:
            version = self._list(kind)
            threading.Thread(target=self._follow, args=(kind, version), daemon=True).start()

    def close(self) -> None:
        """Stop following."""
        self._closed = True

    def wait(self, missing: Callable[[], str], seconds: float) -> float:
        """Wait until `missing` returns "" instead of a sentence; return the time.monotonic() of that moment.

        Raise TooLate, and ApiError if a stream cannot continue.
        """
        deadline = time.monotonic() + seconds
        while True:
            with self._news:
                began = time.monotonic()
                why = missing()
                ended = time.monotonic()
                if not why:
                    return ended
                self.check()
                if self._failed is not None:
                    raise self._failed
                if ended > deadline:
                    raise TooLate(f"after {seconds:.0f} s: {why}")
                self._news.wait(max(0.0, min(deadline - ended, 1.0)))
            # With thousands of objects, a check costs more than the change that causes it, and takes CPU time
            # from the measured processes.
            time.sleep(min(_REST * (ended - began), _LONGEST_REST_SECONDS))

    def _path(self, kind: str) -> str:
        where = f"/namespaces/{self._namespace}" if self._namespace else ""
        return f"/apis/{_GROUPS[kind]}{where}/{kind}"

    def _list(self, kind: str) -> str:
        response = self._api.get(self._path(kind))
        for item in response["items"]:
            self._take(kind, "ADDED", item)
        return str(response["metadata"]["resourceVersion"])

    def _follow(self, kind: str, version: str) -> None:
        try:
            for event in watched(self._api, self._path(kind), {}, version, lambda: self._closed):
                self._take(kind, event["type"], event["object"])
        except ApiError as refusal:
            self._failed = refusal

    def _take(self, kind: str, event: str, obj: Mapping[str, Any]) -> None:
        tables: dict[str, tuple[dict[str, Any], Callable[[Mapping[str, Any]], Any]]] = {
            STATEFULSETS: (self.statefulsets, _statefulset),
            SETS: (self.sets, _set),
            DISAGGREGATED: (self.disaggregated, _available_as),
        }
        facts_by_name, read = tables[kind]
        facts = read(obj)
        with self._news:
            if event == "DELETED":
                facts_by_name.pop(obj["metadata"]["name"], None)
            else:
                facts_by_name[obj["metadata"]["name"]] = facts
            self._news.notify_all()


def _statefulset(obj: Mapping[str, Any]) -> StatefulSet:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    is_current = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return StatefulSet(
        uid=metadata["uid"],
        image=spec["template"]["spec"]["containers"][0]["image"],
        replicas=spec.get("replicas", 1),
        ready=status.get("readyReplicas", 0) if is_current else 0,
        updated=status.get("updatedReplicas", 0) if is_current else 0,
        is_going="deletionTimestamp" in metadata,
    )


def _set(obj: Mapping[str, Any]) -> Set:
    status = obj.get("status") or {}
    return Set(
        replicas=obj["spec"].get("replicas", 1),
        ready=status.get("readyReplicas", 0),
        updated=status.get("updatedReplicas", 0),
        available=_says_available(status),
    )


def _available_as(obj: Mapping[str, Any]) -> int:
    status = obj.get("status") or {}
    observed = int(status.get("observedGeneration") or 0)
    return observed if observed == obj["metadata"]["generation"] and _says_available(status) else 0


def _says_available(status: Mapping[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    return conditions.get("Available") == "True"
