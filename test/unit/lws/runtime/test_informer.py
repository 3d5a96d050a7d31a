"""One stream against a server that lists in pages, splits events, expires versions, disconnects and hangs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web

from lws import timing
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import PODS
from lws.runtime.endpoints.health import Silence
from lws.runtime.informer import Informer, Rollback, Source
from test.unit.fake_api import Answer, FakeApi, answer_json, failure, plain, reset, serving, stream
from test.unit.fake_time import in_fake_time, now


@dataclass
class _Sink:
    """A recorder of the sink's calls, in order."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)

    def version_of(self, obj: Mapping[str, Any]) -> int:
        return self.stored.get(obj["metadata"]["uid"], 0)

    def put(self, obj: Mapping[str, Any]) -> None:
        assert obj["kind"] == "Pod" and obj["apiVersion"] == "v1"
        self.calls.append(("put", obj["metadata"]["uid"]))

    def drop(self, obj: Mapping[str, Any]) -> None:
        self.calls.append(("drop", obj["metadata"]["uid"]))

    def retain(self, kind: str, uids: Iterable[str], version: str, other_labels: Iterable[str] = ()) -> None:
        assert kind == "Pod" and not other_labels
        self.calls.append(("retain", sorted(uids), version))


def _item(uid: str, version: int = 1, **more: Any) -> dict[str, Any]:
    """Return an item as in a list, without its kind."""
    return {"metadata": {"name": uid, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}, **more}


def _page(*uids: str, version: int, token: str = "") -> Answer:
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return answer_json({"kind": "PodList", "metadata": metadata, "items": [_item(uid) for uid in uids]})


def _event(kind: str, uid: str, version: int, **more: Any) -> bytes:
    obj = {"apiVersion": "v1", "kind": "Pod", **_item(uid, version, **more)}
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def _bookmark(version: int) -> bytes:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": str(version)}}
    return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"


def _error(code: int, reason: str, **details: Any) -> bytes:
    obj = {"kind": "Status", "code": code, "reason": reason, "message": "what happened", "details": details}
    return orjson.dumps({"type": "ERROR", "object": obj}) + b"\n"


@dataclass
class _Bench:
    api: FakeApi
    cluster: Cluster
    sink: _Sink
    informer: Informer
    rollback: Rollback

    async def run(self, *answers: Answer, seconds: float = 60.0) -> list[tuple[Any, ...]]:
        """Return the sink's calls while the server gives these answers and is silent afterwards."""
        self.api.will(*answers, stream(10_000.0))
        task = asyncio.create_task(self.informer.run())
        try:
            await asyncio.sleep(seconds)
            assert not task.done(), "the stream has ended"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return self.sink.calls

    @property
    def versions(self) -> list[str]:
        """Return the version at which each watch began, and "list" for each list."""
        return [
            seen.query["resourceVersion"] if "watch" in seen.query else "list" for seen in self.api.requests
        ]


@asynccontextmanager
async def _bench(selector: str = "app") -> AsyncIterator[_Bench]:
    async with serving() as api:
        cluster, sink = api.cluster(), _Sink()
        try:
            rollback = Rollback()
            informer = Informer(Source(cluster, rollback, now), PODS, selector, sink)
            yield _Bench(api, cluster, sink, informer, rollback)
        finally:
            await cluster.close()


@in_fake_time
async def test_list_then_watch() -> None:
    async with _bench() as bench:
        assert not bench.informer.listed.is_set()
        calls = await bench.run(
            _page("a", "b", version=7),
            stream(
                _event("ADDED", "c", 8),
                _event("MODIFIED", "a", 9),
                _bookmark(12),
                _event("DELETED", "b", 13),
                99.0,
            ),
        )
        assert bench.informer.listed.is_set()
    assert calls == [
        ("put", "a"),
        ("put", "b"),
        ("retain", ["a", "b"], "7"),
        ("put", "c"),
        ("put", "a"),
        ("drop", "b"),
    ]


@in_fake_time
async def test_the_queries_of_list_and_watch() -> None:
    async with _bench("a.b/c") as bench:
        await bench.run(_page("a", version=7, token="more"), _page("b", version=7))
        first, second, watch = bench.api.requests
    assert first.path == watch.path == "/api/v1/pods"
    assert first.query == {"labelSelector": "a.b/c", "limit": "100"}
    assert second.query == {"labelSelector": "a.b/c", "limit": "100", "continue": "more"}
    assert watch.query == {
        "labelSelector": "a.b/c",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "290",
        "watch": "1",
    }


@in_fake_time
async def test_all_objects_are_listed_without_a_selector() -> None:
    async with _bench("") as bench:
        await bench.run(_page(version=7))
        assert all("labelSelector" not in seen.query for seen in bench.api.requests)


@in_fake_time
async def test_pages_are_one_list() -> None:
    async with _bench() as bench:
        calls = await bench.run(
            _page("a", version=7, token="1"), _page("b", version=7, token="2"), _page("c", version=7)
        )
    assert calls == [("put", "a"), ("put", "b"), ("put", "c"), ("retain", ["a", "b", "c"], "7")]


@in_fake_time
async def test_an_empty_list_is_reported_too() -> None:
    nothing = answer_json({"metadata": {"resourceVersion": "7"}, "items": None})
    async with _bench() as bench:
        assert await bench.run(nothing) == [("retain", [], "7")]


@in_fake_time
async def test_an_interrupted_list_is_restarted_and_deletes_nothing() -> None:
    async with _bench() as bench:
        calls = await bench.run(
            _page("a", version=7, token="1"),
            failure(410, "Expired", "the continue token is too old"),
            _page("a", version=9, token="2"),
            _page("b", version=9),
        )
        assert [seen.query.get("continue") for seen in bench.api.requests[:4]] == [None, "1", None, "2"]
    assert calls == [("put", "a"), ("put", "a"), ("put", "b"), ("retain", ["a", "b"], "9")]


LONG = 5 * 2**20


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(lambda lines: [lines], id="at-once"),
        pytest.param(lambda lines: [lines[i : i + 7] for i in range(0, len(lines), 7)], id="in-small-pieces"),
        pytest.param(lambda lines: [lines[:-1], lines[-1:]], id="the-last-newline-late"),
        pytest.param(lambda lines: [lines.replace(b"\n", b"\n\n")], id="with-empty-lines"),
        pytest.param(lambda lines: [lines[:50], lines[50:90], lines[90:]], id="cut-anywhere"),
    ],
)
@in_fake_time
async def test_lines_may_arrive_in_any_chunks(chunks: Any) -> None:
    lines = _event("ADDED", "b", 8) + _event("ADDED", "ü", 9) + _event("DELETED", "b", 10)
    async with _bench() as bench:
        calls = await bench.run(_page(version=7), stream(*chunks(lines)), seconds=30.0)
    assert calls[1:] == [("put", "b"), ("put", "ü"), ("drop", "b")]


@in_fake_time
async def test_lines_longer_than_any_buffer() -> None:
    line = _event("ADDED", "b", 8, spec={"long": "x" * LONG}) + _event("ADDED", "c", 9)
    pieces = [line[i : i + 2**20] for i in range(0, len(line), 2**20)]
    async with _bench() as bench:
        calls = await bench.run(_page(version=7), stream(*pieces))
        assert bench.versions == ["list", "7", "9"]
    assert calls[1:] == [("put", "b"), ("put", "c")]


@pytest.mark.parametrize(
    ("ending", "resumes"),
    [
        pytest.param(stream(_event("ADDED", "b", 8)), ["list", "7", "8"], id="the-server-ends-the-watch"),
        pytest.param(stream(_bookmark(20)), ["list", "7", "20"], id="after-a-bookmark"),
        pytest.param(stream(_event("ADDED", "b", 8), cut=True), ["list", "7", "8"], id="reset-in-the-middle"),
        pytest.param(
            stream(_event("ADDED", "b", 8), _event("ADDED", "c", 9)[:-20], cut=True),
            ["list", "7", "8"],
            id="reset-in-the-middle-of-a-line",
        ),
        pytest.param(
            stream(_event("ADDED", "b", 8), b'{"type": "ADD\n'),
            ["list", "7", "8"],
            id="a-line-that-is-no-JSON",
        ),
        pytest.param(reset(), ["list", "7", "7"], id="reset-at-once"),
        pytest.param(plain(200, "<html>"), ["list", "7", "7"], id="a-page-of-a-proxy"),
        pytest.param(failure(429, "TooManyRequests"), ["list", "7", "7"], id="429"),
        pytest.param(failure(503, "ServiceUnavailable"), ["list", "7", "7"], id="503"),
        pytest.param(stream(_error(429, "TooManyRequests")), ["list", "7", "7"], id="429-as-event"),
    ],
)
@in_fake_time
async def test_watches_resume_at_the_same_version(ending: Answer, resumes: list[str]) -> None:
    async with _bench() as bench:
        calls = await bench.run(_page("a", version=7), ending)
        assert bench.versions == resumes
    assert ("retain", ["a"], "7") in calls and ("put", "c") not in calls


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(failure(410, "Expired"), id="410"),
        pytest.param(stream(_error(410, "Expired")), id="410-as-event"),
        pytest.param(stream(_event("ADDED", "b", 8), _error(410, "Gone")), id="410-as-event-later"),
        pytest.param(failure(400, "BadRequest", "resource version is not valid"), id="400"),
        pytest.param(plain(500, "<h1>Internal error</h1>"), id="500-HTML"),
        pytest.param(stream(_error(500, "InternalError")), id="500-as-event"),
        pytest.param(
            stream(orjson.dumps({"type": "ERROR", "object": {}}) + b"\n"), id="an-error-without-code"
        ),
    ],
)
@in_fake_time
async def test_an_expired_version_is_followed_by_a_new_list(ending: Answer) -> None:
    async with _bench() as bench:
        calls = await bench.run(_page("a", version=7), ending, _page("c", version=30))
        assert bench.versions == ["list", "7", "list", "30"]
    assert calls[-2:] == [("put", "c"), ("retain", ["c"], "30")]


@pytest.mark.parametrize("answer", [reset(), failure(500), failure(429), plain(200, "<html>")])
@in_fake_time
async def test_a_failed_list_is_retried(answer: Answer) -> None:
    async with _bench() as bench:
        # The HTTP client itself retries a GET once on a broken connection.
        calls = await bench.run(answer, answer, _page("a", version=7))
    assert calls[-1] == ("retain", ["a"], "7")


async def _attempts(*answers: Answer, seconds: float) -> list[float]:
    """Return the times of requests while the server repeats these answers."""
    async with _bench() as bench:
        await bench.run(*[answer for _ in range(200) for answer in answers], seconds=seconds)
        return [seen.at for seen in bench.api.requests]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([failure(500)], id="no-list"),
        pytest.param([failure(403, "Forbidden")], id="forbidden"),
        pytest.param([_page(version=7), failure(410)], id="410-after-every-list"),
        pytest.param([_page(version=7), stream(_error(410, "Expired"))], id="410-as-event-after-every-list"),
        pytest.param([_page(version=7), stream()], id="watches-that-end-at-once"),
    ],
)
@in_fake_time
async def test_retries_back_off(answers: list[Answer]) -> None:
    moments = await _attempts(*answers, seconds=120.0)
    assert 8 <= len(moments) <= 45
    assert moments[-1] - moments[-len(answers) - 1] > 5.0, "delays do not grow"
    assert all(later - sooner < 20.0 for sooner, later in itertools.pairwise(moments))


@in_fake_time
async def test_delays_grow_while_the_watch_gets_no_response() -> None:
    """Not only lists count: most requests to an API server that is down for half a minute are watches."""
    moments = await _attempts(_page(version=7), *[failure(503)] * 300, seconds=60.0)
    assert 5 <= len(moments) <= 20


@pytest.mark.parametrize("cut", [True, False], ids=["reset", "ended"])
@in_fake_time
async def test_idle_disconnects_are_resumed_without_a_growing_backoff(cut: bool) -> None:
    """A proxy may allow only half a minute of silence, and delays must not grow because of it."""
    moments = await _attempts(_page(version=7), *[stream(30.0, cut=cut)] * 8, seconds=240.0)
    assert len(moments) >= 8
    assert all(later - sooner < 31.0 for sooner, later in itertools.pairwise(moments))


@in_fake_time
async def test_the_backoff_resets_after_data() -> None:
    bad_day = [failure(503)] * 6
    moments = await _attempts(_page(version=7), *bad_day, stream(_bookmark(8)), failure(503), seconds=60.0)
    assert moments[7] - moments[0] > 4.0 and moments[9] - moments[7] < 1.0


@in_fake_time
async def test_retry_after_is_respected() -> None:
    throttled = plain(429, "storage is (re)initializing", {"Retry-After": "20"})
    async with _bench() as bench:
        assert await bench.run(throttled, _page("a", version=7), seconds=19.5) == []
        assert len(bench.api.requests) == 1


@in_fake_time
async def test_retry_after_in_an_event_is_respected() -> None:
    moments = await _attempts(
        _page(version=7), stream(_error(429, "TooManyRequests", retryAfterSeconds=20)), seconds=30.0
    )
    assert moments[2] - moments[1] >= 20.0


@in_fake_time
async def test_a_silent_watch_is_restarted() -> None:
    async with _bench() as bench:
        calls = await bench.run(
            _page("a", version=7),
            stream(80.0, _bookmark(8), 1000.0),
            stream(_event("ADDED", "b", 9), 50.0),
            seconds=180.0,
        )
        assert bench.versions == ["list", "7", "8"]
    assert calls[-1] == ("put", "b")


@in_fake_time
async def test_seconds_without_data() -> None:
    async with _bench() as bench:
        await asyncio.sleep(5.0)
        assert bench.informer.seconds_silent == pytest.approx(5.0)
        bench.api.will(
            _page("a", version=7), stream(30.0, _bookmark(8), 50.0, _event("ADDED", "b", 9), 1000.0)
        )
        task = asyncio.create_task(bench.informer.run())
        silences = []
        for seconds in (20.0, 20.0, 20.0, 25.0):
            await asyncio.sleep(seconds)
            silences.append(bench.informer.seconds_silent)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert silences == pytest.approx([20.0, 10.0, 30.0, 5.0], abs=0.5)


def _slow(answer: Answer) -> Answer:
    async def respond(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1.3)
        return await answer(request)

    return respond


@in_fake_time
async def test_a_list_of_many_slow_pages_is_not_a_dead_stream() -> None:
    """20,000 pods at 1.3 s for each page take longer than a watch may be silent."""
    async with _bench() as bench:
        pages = [_slow(_page(f"pod-{number}", version=7, token="more")) for number in range(199)]
        bench.api.will(*pages, _slow(_page("last", version=7)), stream(10_000.0))
        silence = Silence(now)
        silence.begin()
        check = silence.check(bench.informer)
        task = asyncio.create_task(bench.informer.run())
        while not bench.informer.listed.is_set():
            await asyncio.sleep(10.0)
            assert check() is None
        assert now() > 1000.0 + timing.SILENT_STREAM_SECONDS
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_list_that_stands_still_is_a_dead_stream() -> None:
    """Requests have a timeout, so that this is a fault of the process."""
    async with _bench() as bench:
        silence = Silence(now)
        silence.begin()
        check = silence.check(bench.informer)
        bench.informer._page = lambda token: asyncio.sleep(10_000.0)
        task = asyncio.create_task(bench.informer.run())
        await asyncio.sleep(timing.SILENT_STREAM_SECONDS + 1.0)
        assert check() == "nothing received for 241 s"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_an_unavailable_server_is_not_a_dead_stream() -> None:
    """Otherwise the liveness probe would restart every replica again and again."""
    async with _bench() as bench:
        await bench.run(_page("a", version=7), *[failure(503)] * 300, seconds=3600.0)
        assert bench.informer.seconds_silent < 20.0
        assert bench.informer.seconds_behind > 3500.0, "the stored objects are outdated anyway"


@in_fake_time
async def test_a_list_older_than_the_watch_means_that_etcd_was_restored() -> None:
    async with _bench() as bench:
        calls = await bench.run(
            _page("a", version=7),
            stream(_event("MODIFIED", "a", 90), _error(410, "Expired")),
            _page("a", "back from the dead", version=50),
        )
        assert bench.rollback.is_rolled_back
    assert calls == [("put", "a"), ("retain", ["a"], "7"), ("put", "a")], "no object of the list was stored"


@in_fake_time
async def test_a_lagging_watch_does_not_mean_that_etcd_was_restored() -> None:
    """Another API server answers, whose cache is older: its watch events are late, its lists are not."""
    async with _bench() as bench:
        await bench.run(
            _page("a", version=90),
            stream(
                _event("MODIFIED", "a", 95),
                _error(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}]),
            ),
            _page("a", version=95),
            stream(_event("MODIFIED", "a", 93)),
            failure(410),
            _page("a", version=96),
        )
        assert not bench.rollback.is_rolled_back


@pytest.mark.parametrize(
    ("stored", "is_restored"),
    [
        pytest.param(80, True, id="the list must contain it"),
        pytest.param(60, False, id="the stored version"),
        pytest.param(40, False, id="the store is behind"),
        pytest.param(101, False, id="written after the list"),
    ],
)
@in_fake_time
async def test_an_older_object_in_a_newer_list_means_that_etcd_was_restored(
    stored: int, is_restored: bool
) -> None:
    """An etcd restored as its documentation advises continues at a revision that was never reached."""
    async with _bench() as bench:
        bench.sink.stored["a"] = stored
        items = [_item("a", 60)]
        await bench.run(answer_json({"metadata": {"resourceVersion": "100"}, "items": items}))
        assert bench.rollback.is_rolled_back is is_restored


@in_fake_time
async def test_a_refresh_lists_what_a_frozen_watch_does_not_show() -> None:
    async with _bench() as bench:
        bench.api.will(_page("a", version=7), stream(10_000.0), _page("a", "b", version=9))
        task = asyncio.create_task(bench.informer.run())
        await bench.informer.listed.wait()
        await asyncio.sleep(1.0)
        await bench.informer.refresh()
        assert bench.sink.calls[-3:] == [("put", "a"), ("put", "b"), ("retain", ["a", "b"], "9")]
        assert bench.versions == ["list", "7", "list"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
