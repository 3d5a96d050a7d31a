from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from test.unit.tools.demo.objects import NAME, make_pod
from tools.demo.facts import Kind
from tools.demo.mirror import Mirror, NotInTime, collections
from tools.localcluster import ApiError
from tools.localcluster.api import Call

PODS = "/api/v1/namespaces/default/pods"
ENOUGH = 5.0


class FakeApi:
    """An API server that lists `stored`; a watch yields the items of `events`: events, or errors to raise."""

    def __init__(self) -> None:
        self.stored: list[dict[str, Any]] = []
        self.events: queue.Queue[dict[str, Any] | Exception | None] = queue.Queue()
        self.versions: queue.Queue[str] = queue.Queue()
        self.version = 1

    def get(self, path: str) -> dict[str, Any]:
        assert path == PODS
        return {"metadata": {"resourceVersion": str(self.version)}, "items": list(self.stored)}

    def watch(self, call: Call) -> Iterator[dict[str, Any]]:
        self.versions.put((call.query or {})["resourceVersion"])
        while (event := self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    yield fake
    fake.events.put(None)


def follow(api: FakeApi, changed: threading.Event | None = None) -> Mirror:
    tell = changed.set if changed is not None else lambda: None
    return Mirror(api, {Kind.POD: PODS}, tell).start(ENOUGH)  # type: ignore[arg-type]


def count(mirror: Mirror, pods: int) -> None:
    mirror.until(lambda view: len(view.pods(NAME)) == pods, ENOUGH, f"{pods} pods")


def event(kind: str, pod: dict[str, Any], version: int) -> dict[str, Any]:
    pod["metadata"]["resourceVersion"] = str(version)
    return {"type": kind, "object": pod}


def test_a_list_is_followed_by_a_watch(api: FakeApi) -> None:
    api.stored = [make_pod(0, 0)]
    changed = threading.Event()
    mirror = follow(api, changed)
    assert len(mirror.view().pods(NAME)) == 1
    assert changed.is_set()
    mark = mirror.mark()
    api.events.put(event("ADDED", make_pod(1, 0), 2))
    count(mirror, 2)
    assert [len(moment) for moment in mirror.since(mark)] == [1, 2]
    mirror.stop()


def test_a_watch_that_ends_resumes_at_its_version(api: FakeApi) -> None:
    mirror = follow(api)
    api.events.put(event("ADDED", make_pod(0, 0), 7))
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    api.events.put(bookmark)
    api.events.put(None)
    assert [api.versions.get(timeout=ENOUGH) for _ in range(2)] == ["1", "9"]
    mirror.stop()


def test_an_expired_version_causes_a_new_list(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.demo.mirror._RETRY_SECONDS", 0.0)
    mirror = follow(api)
    api.stored, api.version = [make_pod(0, 0), make_pod(1, 0)], 20
    api.events.put(ApiError(410, "too old resource version"))
    count(mirror, 2)
    assert [api.versions.get(timeout=ENOUGH) for _ in range(2)] == ["1", "20"]
    mirror.stop()


def test_a_broken_watch_resumes_at_its_version(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.demo.mirror._RETRY_SECONDS", 0.0)
    mirror = follow(api)
    api.events.put(ConnectionResetError())
    assert [api.versions.get(timeout=ENOUGH) for _ in range(2)] == ["1", "1"]
    mirror.stop()


def test_fresh_reads_from_the_api_server(api: FakeApi) -> None:
    mirror = follow(api)
    api.stored = [make_pod(0, 0)]
    assert len(mirror.view().pods(NAME)) == 0
    assert len(mirror.fresh().pods(NAME)) == 1
    mirror.stop()


def test_a_timeout_is_reported(api: FakeApi) -> None:
    mirror = follow(api)
    with pytest.raises(NotInTime, match="a miracle: not within 0 s") as late:
        mirror.until(lambda _: False, 0.0, "a miracle")
    assert late.value.view.pods(NAME) == ()
    mirror.stop()


def test_a_refused_list_is_reported(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> dict[str, Any]:
        raise ApiError(404, "not found")

    monkeypatch.setattr(api, "get", refuse)
    mirror = Mirror(api, {Kind.POD: PODS}, lambda: None)  # type: ignore[arg-type]
    with pytest.raises(NotInTime, match=PODS):
        mirror.start(0.0)
    mirror.stop()


def test_every_kind_has_a_collection() -> None:
    paths = collections("lws-system")
    assert set(paths) == set(Kind)
    assert paths[Kind.LEASE].endswith("/namespaces/lws-system/leases")
    assert all("/namespaces/default/" in path for kind, path in paths.items() if kind != Kind.LEASE)
