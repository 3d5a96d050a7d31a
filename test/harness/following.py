"""Which states did the objects of one collection go through? Every single one, written down as they happen.

In: a client, a collection, a label selector, and an event that is set when nobody asks any more. Out: frames,
each with the version of the store that it is of. Nothing is sampled, and nothing is left to the API server's
own record, which is shorter than a test on a slow machine.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tools.localcluster import Api, ApiError
from tools.localcluster.api import Call

Object = dict[str, Any]
Frame = dict[str, Object]
"""Name → object, at one moment."""

# Shorter than a client waits for the next word of a stream.
_STREAM_SECONDS = 20
_RETRY_SECONDS = 0.2
_PRESENT_SECONDS = 120.0
_GONE = 410


class Moment(NamedTuple):
    """version: of the store, the same count for all kinds."""

    version: int
    frame: Frame


class Following:
    """Begins at once, and goes on in a thread of its own until `ended` is set."""

    def __init__(self, api: Api, path: str, selector: str, ended: threading.Event) -> None:
        self._api = api
        self._path = path
        self._selector = selector
        self._ended = ended
        self._began = self._list()
        self._events: list[Object] = []
        self._lost = ""
        threading.Thread(target=self._follow, name=f"following {path}", daemon=True).start()

    def moments(self) -> list[Moment]:
        """All objects at the beginning and after each change until now."""
        last = _versions(_by_name(self._list()))
        found: list[Moment] = []
        for moment in self._told():
            found.append(moment)
            if _versions(moment.frame) == last:
                return found
        pytest.fail(f"the stream of {self._path} did not come to the present {self._lost}")

    def _told(self) -> Iterator[Moment]:
        """What has been told, and what is told within a while."""
        deadline = time.monotonic() + _PRESENT_SECONDS
        frame = _by_name(self._began)
        yield Moment(int(self._began["metadata"]["resourceVersion"]), frame)
        place = 0
        while time.monotonic() < deadline and not self._lost:
            for event in self._events[place:]:
                place += 1
                changed = event["object"]
                name = changed["metadata"]["name"]
                frame = {each: obj for each, obj in frame.items() if each != name}
                if event["type"] != "DELETED":
                    frame[name] = changed
                yield Moment(int(changed["metadata"]["resourceVersion"]), frame)
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
                        self._events.append(event)
            except ApiError as error:
                if error.status == _GONE:
                    self._lost = str(error)
                    return
                self._ended.wait(_RETRY_SECONDS)
            except (OSError, http.client.HTTPException, ValueError):
                # It is begun again where it broke off.
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


def _by_name(found: Object) -> Frame:
    return {each["metadata"]["name"]: each for each in found["items"]}


def _versions(frame: Frame) -> dict[str, str]:
    return {name: each["metadata"]["resourceVersion"] for name, each in frame.items()}
