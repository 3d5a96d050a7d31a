"""test.bench.streams: counts of watch events; missing data is an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from test.bench.streams import STREAMS, Taps
from tools.localcluster import ApiError
from tools.localcluster.api import Call

_PODS = "/api/v1/pods"
_PATIENCE = 30.0


class _Api:
    """An API server whose pod stream breaks.

    parts: the versions that each connection carries before it breaks; an error ends the stream.
    """

    def __init__(self, *parts: list[int] | ApiError) -> None:
        self._parts = iter(parts)
        self.versions: list[str] = []
        self.done = threading.Event()

    def send(self, call: Call) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    def watch(self, call: Call) -> Iterator[dict[str, Any]]:
        if call.path != _PODS:
            return
        self.versions.append(call.query["resourceVersion"])
        part = next(self._parts, None)
        if isinstance(part, ApiError):
            self.done.set()
            raise part
        if part is None:
            self.done.set()
            return
        for version in part:
            yield {"type": "ADDED", "object": {"metadata": {"resourceVersion": str(version)}}}
        raise OSError("timed out")


def taps_on(api: Any) -> Taps:
    taps = Taps(api)
    assert api.done.wait(_PATIENCE)
    return taps


def test_an_interrupted_watch_resumes_at_its_version() -> None:
    api = _Api([2, 3], [4])
    taps = taps_on(api)
    taps.close()
    size = len(b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"2"}}}\n')
    assert taps.take() == {"pods": {"events": 3, "bytes": 3 * size}}
    assert api.versions[:3] == ["1", "3", "4"] and taps.take() == {}


def test_a_watch_that_cannot_resume_invalidates_the_count() -> None:
    taps = taps_on(_Api([2], ApiError(410, "too old")))
    deadline = threading.Event()
    with pytest.raises(RuntimeError, match="the stream of pods cannot go on"):
        for _ in range(3000):
            taps.take()
            deadline.wait(0.01)
    taps.close()


def test_the_watches_match_those_of_the_manager() -> None:
    assert [stream.plural for stream in STREAMS][:3] == ["leaderworkersets", "statefulsets", "deployments"]
