"""Record every state of the objects of one collection, as frames or as single changes.

Each state has the version of the store to which it belongs. No state is missed, because states are not
sampled and do not depend on the API server's own history, which is shorter than a test on a slow machine.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from test.harness.waiting import eventually
from tools.localcluster import Api, ApiError
from tools.localcluster.api import Call

Object = dict[str, Any]
Frame = dict[str, Object]
"""Name → object, at one moment."""

# This must be shorter than the read timeout of the client.
_STREAM_SECONDS = 20
_RETRY_SECONDS = 0.2
_PRESENT_SECONDS = 120.0
_GONE = 410


class Moment(NamedTuple):
    """All objects at one moment.

    version: the resource version of the store, which is one sequence for all kinds.
    """

    version: int
    frame: Frame


class Change(NamedTuple):
    """The new state of one object; None if it was deleted.

    at: when the event arrived, in seconds of a monotonic clock.
    """

    version: int
    at: float
    name: str
    obj: Object | None


class Following:
    """Follows a collection from its creation on, in a thread of its own, until `ended` is set."""

    def __init__(self, api: Api, path: str, selector: str, ended: threading.Event) -> None:
        self._api = api
        self._path = path
        self._selector = selector
        self._ended = ended
        self._began = self._list()
        self._changes: list[Change] = []
        self._latest = _by_name(self._began)
        self._lost = ""
        threading.Thread(target=self._follow, name=f"following {path}", daemon=True).start()

    def moments(self) -> list[Moment]:
        """Return all objects at the beginning and after each change until now."""
        last = _versions(_by_name(self._list()))
        moments: list[Moment] = []
        for moment in self._arriving():
            moments.append(moment)
            if _versions(moment.frame) == last:
                return moments
        pytest.fail(f"the stream of {self._path} did not catch up {self._lost}")

    def catch_up(self) -> None:
        """Wait until every change up to now has arrived."""
        listing = self._list()
        last, listed = int(listing["metadata"]["resourceVersion"]), _versions(_by_name(listing))
        began = _versions(_by_name(self._began))

        def missing() -> list[str]:
            arrived = {(change.name, str(change.version)) for change in self._changes} | set(began.items())
            deleted = [
                name
                for name, version in _versions(self._latest).items()
                if name not in listed and int(version) <= last
            ]
            return [*deleted, *(name for name, version in listed.items() if (name, version) not in arrived)]

        eventually(
            f"the stream of {self._path} is up to date", missing, lambda names: not names or self._lost
        )
        if self._lost:
            pytest.fail(f"the stream of {self._path} broke off: {self._lost}")

    def beginning(self) -> Moment:
        """Return all objects at the time when the recording began."""
        return Moment(int(self._began["metadata"]["resourceVersion"]), _by_name(self._began))

    def changes(self) -> list[Change]:
        """Return the changes that have arrived so far."""
        return list(self._changes)

    def latest(self) -> list[Object]:
        """Return all objects after the last change that has arrived."""
        return list(self._latest.values())

    def _note(self, event: Object) -> None:
        changed = event["object"]
        name, version = changed["metadata"]["name"], int(changed["metadata"]["resourceVersion"])
        is_gone = event["type"] == "DELETED"
        self._latest = {key: obj for key, obj in self._latest.items() if key != name}
        if not is_gone:
            self._latest[name] = changed
        self._changes.append(Change(version, time.monotonic(), name, None if is_gone else changed))

    def _arriving(self) -> Iterator[Moment]:
        """Yield the moments that have arrived, and moments that arrive within `_PRESENT_SECONDS`."""
        deadline = time.monotonic() + _PRESENT_SECONDS
        frame = _by_name(self._began)
        yield self.beginning()
        position = 0
        while time.monotonic() < deadline and not self._lost:
            for change in self._changes[position:]:
                position += 1
                frame = {name: obj for name, obj in frame.items() if name != change.name}
                if change.obj is not None:
                    frame[change.name] = change.obj
                yield Moment(change.version, frame)
            time.sleep(0.05)

    def _list(self) -> Object:
        return self._api.send(Call("GET", self._path, query={"labelSelector": self._selector}))

    def _follow(self) -> None:
        version = self._began["metadata"]["resourceVersion"]
        while not self._ended.is_set():
            try:
                for event in self._api.watch(self._stream(version)):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._note(event)
            except ApiError as error:
                if error.status == _GONE:
                    self._lost = str(error)
                    return
                self._ended.wait(_RETRY_SECONDS)
            except (OSError, http.client.HTTPException, ValueError):
                # The stream is resumed at the version at which it broke off.
                self._ended.wait(_RETRY_SECONDS)

    def _stream(self, version: str) -> Call:
        query = {
            "watch": "1",
            "resourceVersion": version,
            "labelSelector": self._selector,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_STREAM_SECONDS),
        }
        return Call("GET", self._path, query=query)


def _by_name(listing: Object) -> Frame:
    return {obj["metadata"]["name"]: obj for obj in listing["items"]}


def _versions(frame: Frame) -> dict[str, str]:
    return {name: obj["metadata"]["resourceVersion"] for name, obj in frame.items()}
