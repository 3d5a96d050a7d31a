"""Record when each group was replaced and when it was ready again, from the stream of its leader pod."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, WORKER_INDEX_LABEL
from test.bench.paced.figures import Turn
from test.bench.watching import watched
from tools.localcluster.api import Api, ApiError, Call


class Turns:
    """The turns of one set from now on. image: of the new revision. clock: for the seconds of the turns."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        set_name: str,
        image: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._image = image
        self._clock = clock
        self._query = {"labelSelector": f"{NAME_LABEL}={set_name},{WORKER_INDEX_LABEL}=0"}
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._news = threading.Condition()
        self._closed = False
        self._started: dict[int, float] = {}
        self._ready: dict[int, float] = {}
        self._uids: defaultdict[int, set[str]] = defaultdict(set)
        self._failed: Exception | None = None

    def follow(self) -> None:
        """List, then watch in a thread until `close`."""
        response = self._api.send(Call("GET", self._path, query=self._query))
        for pod in response["items"]:
            self.take(pod)
        version = str(response["metadata"]["resourceVersion"])
        threading.Thread(target=self._watch, args=(version,), daemon=True).start()

    def close(self) -> None:
        """Stop following."""
        self._closed = True

    def wait(self, groups: int, seconds: float, check: Callable[[], None]) -> None:
        """Wait until `groups` groups are ready on the new revision. check: raises if waiting is in vain."""
        deadline = self._clock() + seconds
        with self._news:
            while not all(index in self._ready for index in range(groups)):
                check()
                if self._failed is not None:
                    raise self._failed
                if self._clock() > deadline:
                    raise TimeoutError(f"{len(self._ready)} of {groups} groups are ready")
                self._news.wait(1.0)

    @property
    def turns(self) -> Mapping[int, Turn]:
        """Return the turn of each group that is ready on the new revision."""
        with self._news:
            return {index: Turn(self._started[index], ready) for index, ready in sorted(self._ready.items())}

    @property
    def repeated(self) -> int:
        """Return how many leaders were created for groups in addition to the first ones.

        The previous leaders were lost, or were on the old revision.
        """
        with self._news:
            return sum(max(0, len(uids) - 1) for uids in self._uids.values())

    def take(self, pod: Mapping[str, Any]) -> None:
        """Process the current state of a leader pod."""
        now, metadata = self._clock(), pod["metadata"]
        index = int(metadata["labels"][GROUP_INDEX_LABEL])
        is_new = pod["spec"]["containers"][0]["image"] == self._image
        is_going = "deletionTimestamp" in metadata
        with self._news:
            if is_going or is_new:
                self._started.setdefault(index, now)
            if index in self._started and not is_going:
                self._uids[index].add(metadata["uid"])
            if is_new and not is_going and _is_ready(pod):
                self._ready.setdefault(index, now)
            self._news.notify_all()

    def _watch(self, version: str) -> None:
        try:
            for event in watched(self._api, self._path, self._query, version, lambda: self._closed):
                if event["type"] in ("ADDED", "MODIFIED"):
                    self.take(event["object"])
        except ApiError as refusal:
            self._failed = refusal


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
