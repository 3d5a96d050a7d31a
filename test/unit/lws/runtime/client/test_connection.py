"""lws.runtime.client.connection: requests sent and responses returned, against a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException

from lws.runtime.actions import Reference, Verbatim
from lws.runtime.client.connection import Cluster, RateLimit, ServerClock, renewal_rate
from lws.runtime.client.resources import LEADERWORKERSETS, PODS, Resource
from lws.runtime.client.transport import Lifetime, Renewal
from lws.runtime.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeading,
    Throttled,
    Unreachable,
)
from test.unit.fake_api import Answer, FakeApi, answer_json, failure, plain, reset, serving, silence, stream
from test.unit.fake_time import in_fake_time, now

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "ns"}}


@asynccontextmanager
async def _connected(**kwargs: Any) -> AsyncIterator[tuple[FakeApi, Cluster]]:
    async with serving() as api:
        cluster = api.cluster(**kwargs)
        try:
            yield api, cluster
        finally:
            await cluster.close()


def _reference(kind: str, uid: str = "") -> Reference:
    return Reference("any", kind, "ns", "a", uid)


Call = Callable[[Cluster], Awaitable[Any]]


@pytest.mark.parametrize(
    ("call", "method", "path", "query", "content", "body"),
    [
        pytest.param(
            lambda cluster: cluster.get("Pod", "ns", "a"),
            "GET",
            "/api/v1/namespaces/ns/pods/a",
            {},
            None,
            None,
            id="get",
        ),
        pytest.param(
            lambda cluster: cluster.list_page(PODS, {"labelSelector": "a.b/c=d,e", "limit": "500"}),
            "GET",
            "/api/v1/pods",
            {"labelSelector": "a.b/c=d,e", "limit": "500"},
            None,
            None,
            id="list",
        ),
        pytest.param(
            lambda cluster: cluster.create(POD),
            "POST",
            "/api/v1/namespaces/ns/pods",
            {"fieldManager": "lws"},
            "application/json",
            POD,
            id="create",
        ),
        pytest.param(
            lambda cluster: cluster.create({"kind": "TokenReview", "metadata": {}, "spec": {"token": "t"}}),
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"fieldManager": "lws"},
            "application/json",
            {"kind": "TokenReview", "metadata": {}, "spec": {"token": "t"}},
            id="create-without-namespace",
        ),
        pytest.param(
            lambda cluster: cluster.replace(SERVICE),
            "PUT",
            "/api/v1/namespaces/ns/services/a",
            {"fieldManager": "lws"},
            "application/json",
            SERVICE,
            id="replace",
        ),
        pytest.param(
            lambda cluster: cluster.apply(SERVICE, force=True),
            "PATCH",
            "/api/v1/namespaces/ns/services/a",
            {"fieldManager": "lws", "force": "true"},
            "application/apply-patch+yaml",
            SERVICE,
            id="forced-apply",
        ),
        pytest.param(
            lambda cluster: cluster.apply(SERVICE, force=False),
            "PATCH",
            "/api/v1/namespaces/ns/services/a",
            {"fieldManager": "lws", "force": "false"},
            "application/apply-patch+yaml",
            SERVICE,
            id="apply",
        ),
        pytest.param(
            lambda cluster: cluster.merge(
                _reference("LeaderWorkerSet", "u-1"), {"status": {"x": None}}, "status"
            ),
            "PATCH",
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets/a/status",
            {"fieldManager": "lws"},
            "application/merge-patch+json",
            {"metadata": {"uid": "u-1"}, "status": {"x": None}},
            id="merge-guarded-by-uid",
        ),
        pytest.param(
            lambda cluster: cluster.merge(_reference("Service", "u-1"), {"metadata": {"labels": {"a": "b"}}}),
            "PATCH",
            "/api/v1/namespaces/ns/services/a",
            {"fieldManager": "lws"},
            "application/merge-patch+json",
            {"metadata": {"labels": {"a": "b"}, "uid": "u-1"}},
            id="merge-of-metadata",
        ),
        pytest.param(
            lambda cluster: cluster.merge(_reference("Service"), {"spec": {}}),
            "PATCH",
            "/api/v1/namespaces/ns/services/a",
            {"fieldManager": "lws"},
            "application/merge-patch+json",
            {"spec": {}},
            id="merge-without-uid",
        ),
        pytest.param(
            lambda cluster: cluster.delete(_reference("Pod", "u-1"), "Foreground"),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            {},
            "application/json",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Foreground",
                "preconditions": {"uid": "u-1"},
            },
            id="delete-guarded-by-uid",
        ),
        pytest.param(
            lambda cluster: cluster.delete(_reference("Pod", "u-1"), "Background", version="7"),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            {},
            "application/json",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u-1", "resourceVersion": "7"},
            },
            id="delete-guarded-by-version",
        ),
        pytest.param(
            lambda cluster: cluster.delete(_reference("Pod"), "Background"),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            {},
            "application/json",
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
            id="delete",
        ),
        pytest.param(
            lambda cluster: cluster.delete(_reference("Pod", "u-1"), "Background", 0),
            "DELETE",
            "/api/v1/namespaces/ns/pods/a",
            {},
            "application/json",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u-1"},
                "gracePeriodSeconds": 0,
            },
            id="delete-by-force",
        ),
        pytest.param(lambda cluster: cluster.version(), "GET", "/version", {}, None, None, id="version"),
    ],
)
@in_fake_time
async def test_requests(
    call: Call, method: str, path: str, query: dict[str, str], content: str | None, body: Any
) -> None:
    async with _connected(user_agent="lws/test") as (api, cluster):
        api.will(answer_json({"kind": "Anything", "gitVersion": "v1"}))
        await call(cluster)
    [seen] = api.requests
    assert (seen.method, seen.path, seen.query, seen.body) == (method, path, query, body)
    assert seen.headers["User-Agent"] == "lws/test"
    assert seen.headers["Accept"] == "application/json"
    if content is not None:
        assert seen.headers["Content-Type"] == content


@in_fake_time
async def test_responses_are_not_changed() -> None:
    async with _connected() as (api, cluster):
        api.will(answer_json({**POD, "spec": {"invented": [1, 2.5, None, "ü"]}}))
        assert (await cluster.get("Pod", "ns", "a"))["spec"] == {"invented": [1, 2.5, None, "ü"]}


@in_fake_time
async def test_metadata_lists_request_partial_objects() -> None:
    async with _connected() as (api, cluster):
        api.will(answer_json({"items": []}))
        await cluster.list_page(LEADERWORKERSETS, {}, metadata_only=True)
    assert (
        api.requests[0].headers["Accept"]
        == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    )


@in_fake_time
async def test_verbatim_text_reaches_the_server_byte_for_byte() -> None:
    text = '{"b":1.0,"a":{"ü":"\\u003c"}}'
    received = bytearray()

    async def answer(request: Any) -> Any:
        received.extend(await request.read())
        return await answer_json({})(request)

    async with _connected() as (api, cluster):
        api.will(answer)
        await cluster.create({**POD, "data": Verbatim(text)})
    assert f'"data":{text}'.encode() in received


@in_fake_time
async def test_a_body_that_is_not_json_raises() -> None:
    async with _connected() as (api, cluster):
        with pytest.raises(TypeError):
            await cluster.create({**POD, "data": object()})
        assert api.requests == []


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        pytest.param(
            failure(404, "NotFound", 'pods "a" not found'), NotFound, 'pods "a" not found', id="404"
        ),
        pytest.param(failure(409, "AlreadyExists", "there"), AlreadyExists, "there", id="409-exists"),
        pytest.param(failure(409, "Conflict", "newer"), Conflict, "newer", id="409-conflict"),
        pytest.param(failure(410, "Expired", "too old"), Gone, "too old", id="410"),
        pytest.param(failure(403, "Forbidden", "no"), Forbidden, "no", id="403"),
        pytest.param(failure(422, "Invalid", "bad"), Invalid, "bad", id="422"),
        pytest.param(failure(401, "Unauthorized", "who?"), ApiError, "who?", id="401"),
        pytest.param(
            plain(500, "<h1>\n  Internal   error\n</h1>"),
            ApiError,
            "<h1> Internal error </h1>",
            id="500-HTML",
        ),
        pytest.param(plain(502, ""), ApiError, "HTTP 502", id="502-empty"),
        pytest.param(plain(500, "x" * 5000), ApiError, "x" * 200, id="500-long"),
        pytest.param(answer_json(["a"], 500), ApiError, '["a"]', id="500-JSON-that-is-no-status"),
        pytest.param(plain(503, "starting"), Throttled, "starting", id="503"),
    ],
)
@in_fake_time
async def test_error_answers(answer: Answer, kind: type[ApiError], message: str) -> None:
    async with _connected() as (api, cluster):
        api.will(answer)
        with pytest.raises(ApiError) as caught:
            await cluster.get("Pod", "ns", "a")
    assert (type(caught.value), caught.value.message) == (kind, message)


@in_fake_time
async def test_retry_after_of_throttled_requests() -> None:
    async with _connected() as (api, cluster):
        api.will(plain(429, "slow down", {"Retry-After": "3"}))
        with pytest.raises(Throttled) as caught:
            await cluster.get("Pod", "ns", "a")
    assert caught.value.retry_after == 3.0


@in_fake_time
async def test_terminating_namespaces_are_recognised() -> None:
    cause = {"reason": "NamespaceTerminating", "message": "…", "field": "metadata.namespace"}
    async with _connected() as (api, cluster):
        api.will(failure(403, "Forbidden", "…", causes=[cause]))
        with pytest.raises(Forbidden) as caught:
            await cluster.create(POD)
    assert caught.value.is_namespace_terminating


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(silence(31), "TimeoutError", id="too-slow"),
        pytest.param(plain(200, "<html>Sign in</html>"), "<html>Sign in</html>", id="no-JSON"),
        pytest.param(answer_json([1]), "not a JSON object", id="no-object"),
    ],
)
@in_fake_time
async def test_invalid_answers(answer: Answer, message: str) -> None:
    async with _connected() as (api, cluster):
        api.will(answer)
        with pytest.raises(Unreachable, match=message) as caught:
            await cluster.create(POD)
        assert f"POST /api/v1/namespaces/ns/pods at {api.url}" in str(caught.value)


@in_fake_time
async def test_a_slow_answer_is_an_answer() -> None:
    async with _connected() as (api, cluster):
        api.will(silence(29))
        assert await cluster.get("Pod", "ns", "a") == {}


@in_fake_time
async def test_broken_connections() -> None:
    async with _connected() as (api, cluster):
        # The HTTP client retries a GET once, and never a POST.
        api.will(reset(), reset(), reset())
        with pytest.raises(Unreachable):
            await cluster.create(POD)
        assert len(api.requests) == 1


@in_fake_time
async def test_connection_refused() -> None:
    async with serving() as api:
        cluster = api.cluster()
    try:
        with pytest.raises(Unreachable, match=r"GET /api/v1/namespaces/ns/pods/a at http://127\.0\.0\.1"):
            await cluster.get("Pod", "ns", "a")
    finally:
        await cluster.close()


@in_fake_time
async def test_a_connection_that_the_event_loop_cannot_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop rejects a file descriptor that belonged to a connection which has just failed."""
    async with _connected() as (api, cluster):

        async def connect_in_vain(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("File descriptor 14 is used by transport <TCPTransport closed=False>")

        with monkeypatch.context() as patched:
            patched.setattr("aiohappyeyeballs.start_connection", connect_in_vain)
            with pytest.raises(Unreachable, match="File descriptor 14 is used by transport"):
                await cluster.get("Pod", "ns", "a")
        api.will(answer_json({}))
        assert await cluster.get("Pod", "ns", "a") == {}


@pytest.mark.parametrize(
    ("answer", "exists"),
    [
        pytest.param(answer_json({"kind": "APIResourceList"}), True, id="served"),
        pytest.param(plain(404, "404 page not found"), False, id="not-served"),
    ],
)
@in_fake_time
async def test_discovery(answer: Answer, exists: bool) -> None:
    async with _connected() as (api, cluster):
        api.will(answer)
        assert await cluster.exists("/apis/leaderworkerset.x-k8s.io/v1") is exists
    assert api.requests[0].path == "/apis/leaderworkerset.x-k8s.io/v1"


@in_fake_time
async def test_all_clones_use_the_discovered_version() -> None:
    async with _connected() as (api, cluster):
        acting = cluster.fenced(lambda *_: True)
        for version in ("v1alpha2", "v1beta1"):
            cluster.learn(Resource(f"scheduling.k8s.io/{version}", "PodGroup", "podgroups"))
            api.will(answer_json({"kind": "PodGroup"}))
            await acting.get("PodGroup", "ns", "g")
    assert [request.path for request in api.requests] == [
        f"/apis/scheduling.k8s.io/{version}/namespaces/ns/podgroups/g" for version in ("v1alpha2", "v1beta1")
    ]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
@in_fake_time
async def test_failed_discovery_does_not_mean_unserved(status: int) -> None:
    async with _connected() as (api, cluster):
        api.will(failure(status, "Whatever", "not now"))
        with pytest.raises(ApiError, match="not now"):
            await cluster.exists("/apis/leaderworkerset.x-k8s.io/v1")


@in_fake_time
async def test_every_answer_is_counted() -> None:
    counted: list[tuple[str, int]] = []
    async with _connected(on_response=lambda *answer: counted.append(answer)) as (api, cluster):
        api.will(answer_json({}), failure(409), failure(404))
        await cluster.create(POD)
        for call in (cluster.create(POD), cluster.get("Pod", "ns", "a")):
            with pytest.raises(ApiError):
                await call
    assert counted == [("POST", 200), ("POST", 409), ("GET", 404)]


WRITES: dict[str, Call] = {
    "create": lambda cluster: cluster.create(POD),
    "replace": lambda cluster: cluster.replace(POD),
    "apply": lambda cluster: cluster.apply(POD, force=True),
    "merge": lambda cluster: cluster.merge(_reference("Pod"), {}),
    "delete": lambda cluster: cluster.delete(_reference("Pod"), "Background"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@in_fake_time
async def test_only_the_leader_writes(write: Call) -> None:
    async with _connected() as (api, cluster):
        acting = cluster.fenced(lambda namespace: False)
        with pytest.raises(NotLeading):
            await write(acting)
        assert api.requests == []


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@in_fake_time
async def test_writes_are_limited_to_namespaces_of_the_leader(write: Call) -> None:
    async with _connected() as (api, cluster):
        api.will(answer_json({}))
        await write(cluster.fenced(lambda namespace: namespace == "ns"))
        with pytest.raises(NotLeading):
            await write(cluster.fenced(lambda namespace: namespace == "elsewhere"))
        assert len(api.requests) == 1


@in_fake_time
async def test_reads_and_unfenced_writes_need_no_lease() -> None:
    async with _connected() as (api, cluster):
        acting = cluster.fenced(lambda namespace: False)
        with pytest.raises(NotLeading):
            await acting.create(POD)
        api.will(answer_json({}), answer_json({}))
        await acting.get("Pod", "ns", "a")
        await cluster.create(POD)
    assert [seen.method for seen in api.requests] == ["GET", "POST"]


@in_fake_time
async def test_the_lease_is_checked_after_the_wait_for_a_token() -> None:
    async with _connected(rate=RateLimit(1, 1, clock=now)) as (api, cluster):
        lost_at = now() + 0.5
        acting = cluster.fenced(lambda namespace: now() < lost_at)
        api.will(answer_json({}))
        await acting.create(POD)
        with pytest.raises(NotLeading):
            await acting.create(POD)
    assert len(api.requests) == 1


@in_fake_time
async def test_the_lease_is_checked_once_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets that arrive only after minutes must not carry a write of a former leader."""
    async with _connected() as (api, cluster):
        lost_at = now() + 10
        connector = cluster._session.connector
        assert connector is not None
        connect = connector.connect

        async def connect_slowly(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(20)
            return await connect(*args, **kwargs)

        monkeypatch.setattr(connector, "connect", connect_slowly)
        with pytest.raises(NotLeading):
            await cluster.fenced(lambda namespace: now() < lost_at).create(POD)
        assert api.requests == []


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@in_fake_time
async def test_a_write_of_the_leader_times_out_before_the_lease_expires(write: Call) -> None:
    """The API server cancels the write too: the request may have arrived although no answer comes back."""
    async with _connected() as (api, cluster):
        acting = cluster.fenced(lambda namespace: True, lambda namespace: 5.25 if namespace == "ns" else 0.0)
        api.will(silence(3600), answer_json({}))
        began = now()
        with pytest.raises(Unreachable):
            await write(acting)
        assert now() - began == pytest.approx(5.25, abs=0.01)
        # The API server counts from the arrival of the request, for which a fifth of the time is reserved.
        assert api.requests[0].query["timeout"] == "4200ms"
        await acting.get("Pod", "ns", "a")
        assert "timeout" not in api.requests[1].query


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@in_fake_time
async def test_a_write_of_the_leader_is_not_repeated_after_the_connection_broke(write: Call) -> None:
    """aiohttp would repeat a PUT or DELETE, and the first one may still be stored."""
    async with _connected() as (api, cluster):
        acting = cluster.fenced(lambda namespace: True, lambda namespace: 5.0)
        api.will(reset(), answer_json({}))
        with pytest.raises(Unreachable):
            await write(acting)
        assert len(api.requests) == 1
        assert cluster.may_arrive(lambda namespace: namespace == "ns")


@in_fake_time
async def test_a_write_that_is_repeated_with_new_credentials_has_the_time_that_is_left() -> None:
    """The API server counts from the arrival of each attempt, the Lease does not."""
    async with _connected() as (api, cluster):
        configuration = cluster.configuration

        async def load(of: Configuration) -> Lifetime:
            of.api_key["authorization"] = f"token-{now()}"
            return Lifetime()

        await Renewal(load, now).begin(configuration)
        expires = now() + 10.0
        api.will(_late(failure(401, "Unauthorized"), 6.0), answer_json({}))
        acting = cluster.fenced(lambda namespace: True, lambda namespace: expires - now())
        await acting.delete(_reference("Pod"), "Background")
        assert [request.query["timeout"] for request in api.requests] == ["8000ms", "3200ms"]


def _late(answer: Answer, seconds: float) -> Answer:
    async def respond(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await answer(request)

    return respond


@pytest.mark.parametrize(
    ("answer", "may_arrive"),
    [
        pytest.param(silence(3600), True, id="no answer"),
        pytest.param(reset(), True, id="the connection breaks"),
        pytest.param(failure(504, "Timeout", "may still be processing"), True, id="the server stops waiting"),
        pytest.param(
            failure(500, "InternalError", "etcdserver: request timed out"), True, id="etcd may still store it"
        ),
        pytest.param(failure(502, "", "bad gateway"), True, id="a proxy lost the connection"),
        pytest.param(
            failure(500, "InternalError", 'failed calling webhook "v.example.com"'), False, id="no webhook"
        ),
        pytest.param(failure(409, "Conflict"), False, id="refused"),
        pytest.param(answer_json({}), False, id="done"),
    ],
)
@in_fake_time
async def test_a_write_without_an_answer_may_arrive_until_its_time_is_over(
    answer: Answer, may_arrive: bool
) -> None:
    async with _connected() as (api, cluster):
        acting = cluster.fenced(lambda namespace: True, lambda namespace: 5.0)
        api.will(answer)
        writing = asyncio.create_task(acting.create(POD))
        await asyncio.sleep(3.0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert cluster.may_arrive(lambda namespace: namespace == "ns") is may_arrive
        assert not cluster.may_arrive(lambda namespace: namespace == "elsewhere")
        await asyncio.sleep(2.1)
        assert not cluster.may_arrive(lambda namespace: True)


@in_fake_time
async def test_a_write_of_the_leader_without_a_connection_fails_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _connected() as (api, cluster):
        connector = cluster._session.connector
        assert connector is not None

        async def hang(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(3600)

        monkeypatch.setattr(connector, "_create_connection", hang)
        began = now()
        with pytest.raises(Unreachable):
            await cluster.fenced(lambda namespace: True, lambda namespace: 10.0).create(POD)
        assert now() - began == pytest.approx(2.0, abs=0.01) and not api.requests


@in_fake_time
async def test_an_unsent_write_is_not_pending() -> None:
    cluster = FakeApi("http://127.0.0.1:1").cluster()
    with pytest.raises(Unreachable):
        await cluster.fenced(lambda namespace: True, lambda namespace: 5.0).create(POD)
    assert not cluster.may_arrive(lambda namespace: True)
    await cluster.close()


@in_fake_time
async def test_reads_are_not_limited_but_writes_are() -> None:
    async with _connected(rate=RateLimit(1, 1, clock=now)) as (api, cluster):
        api.will(*[answer_json({}) for _ in range(8)])
        began = now()
        for _ in range(5):
            await cluster.get("Pod", "ns", "a")
        assert now() - began < 0.5
        for _ in range(3):
            await cluster.create(POD)
        assert now() - began == pytest.approx(2.0, abs=0.5)


@in_fake_time
async def test_a_burst_of_writes_does_not_starve_the_renewal_of_a_lease() -> None:
    lease = {"kind": "Lease", "metadata": {"name": "l", "namespace": "ns"}}
    async with _connected(rate=RateLimit(0.1, 1, clock=now)) as (api, cluster):
        renewing = cluster.paced(renewal_rate(shards=1, retry_period=2.0, clock=now))
        api.will(*[answer_json({}) for _ in range(40)])
        began = now()
        burst = [asyncio.create_task(cluster.create(POD)) for _ in range(20)]
        for _ in range(5):
            await renewing.replace(lease)
            await asyncio.sleep(2.0)
        assert now() - began == pytest.approx(10.0, abs=0.5)
        for task in burst:
            task.cancel()
    assert [seen.method for seen in api.requests].count("PUT") == 5


@in_fake_time
async def test_watches_time_out_on_silence_only() -> None:
    lines = [b'{"n":1}\n', 80.0, b'{"n":2}\n', 80.0, b'{"n":3}\n', 120.0]
    received = b""
    async with _connected() as (api, cluster):
        api.will(stream(*lines))
        began = now()
        with pytest.raises(Unreachable, match=r"/api/v1/pods at .*: nothing received for 90 s"):
            async with cluster.watch(PODS, {"resourceVersion": "7"}, silence=90.0) as body:
                async for chunk in body:
                    received += chunk
        assert received == b'{"n":1}\n{"n":2}\n{"n":3}\n'
        assert now() - began == pytest.approx(250.0, abs=2.0)
    assert api.requests[0].query == {"resourceVersion": "7", "watch": "1"}


@in_fake_time
async def test_a_watch_that_is_never_answered() -> None:
    async with _connected() as (api, cluster):
        api.will(silence(1000.0))
        began = now()
        with pytest.raises(Unreachable, match="nothing received for 90 s"):
            async with cluster.watch(PODS, {}, silence=90.0):
                pytest.fail("there is nothing to read")
        assert now() - began == pytest.approx(90.0, abs=2.0)


@in_fake_time
async def test_a_watch_that_is_refused() -> None:
    async with _connected() as (api, cluster):
        api.will(failure(410, "Expired", "too old"))
        with pytest.raises(Gone):
            async with cluster.watch(PODS, {}, silence=90.0):
                pytest.fail("there is nothing to read")


@in_fake_time
async def test_a_bearer_token_is_sent_and_refreshed() -> None:
    async with _connected() as (api, cluster):
        tokens = iter(["bearer one", "bearer two"])

        def refresh(configuration: Configuration) -> None:
            configuration.api_key["authorization"] = next(tokens)

        cluster.configuration.refresh_api_key_hook = refresh
        api.will(answer_json({}), answer_json({}))
        await cluster.get("Pod", "ns", "a")
        await cluster.get("Pod", "ns", "a")
    assert [seen.headers["Authorization"] for seen in api.requests] == ["bearer one", "bearer two"]


@pytest.mark.parametrize(
    "error", [FileNotFoundError("token"), ConfigException("Token file exists but empty.")]
)
@in_fake_time
async def test_a_token_that_cannot_be_read_is_a_failed_request(error: Exception) -> None:
    async with _connected() as (_, cluster):

        def refresh(configuration: Configuration) -> None:
            raise error

        cluster.configuration.refresh_api_key_hook = refresh
        with pytest.raises(Unreachable, match=str(error)):
            await cluster.get("Pod", "ns", "a")


def _elsewhere(proxy: str | None = None) -> Cluster:
    return Cluster(Configuration(host="http://kubernetes.test", proxy=proxy), "test")


@pytest.mark.parametrize("comes_from", ["environment", "kubeconfig"])
@in_fake_time
async def test_proxies(comes_from: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as api:
        proxy = api.url.replace("http://", "http://user:secret@")
        monkeypatch.setenv("http_proxy", proxy if comes_from == "environment" else "http://127.0.0.1:1")
        for name in ("HTTP_PROXY", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        cluster = _elsewhere(proxy if comes_from == "kubeconfig" else None)
        try:
            api.will(answer_json({}))
            await cluster.get("Pod", "ns", "a")
        finally:
            await cluster.close()
    [seen] = api.requests
    assert seen.headers["Host"] == "kubernetes.test"
    assert seen.headers["Proxy-Authorization"] == "Basic dXNlcjpzZWNyZXQ="


@in_fake_time
async def test_passwords_for_other_programs_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with _connected() as (api, cluster):
        cluster.configuration.api_key["authorization"] = "bearer t"
        api.will(answer_json({}))
        await cluster.get("Pod", "ns", "a")
    assert api.requests[0].headers["Authorization"] == "bearer t"


def _moment(*seconds: int) -> datetime:
    return datetime(2026, 3, 1, 12, 0, *seconds, tzinfo=UTC)


def _date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


@in_fake_time
async def test_the_time_is_that_of_the_api_server() -> None:
    async with serving() as api:
        cluster = api.cluster(clock=ServerClock(wall=lambda: 0.0, monotonic=now))
        assert cluster.now.year == 1970
        api.will(answer_json({}, headers={"Date": _date(_moment(7))}))
        await cluster.fenced(lambda namespace: True).get("Pod", "ns", "a")
        assert cluster.now == _moment(7)
        await asyncio.sleep(3600.0)
        assert cluster.now == _moment(7) + timedelta(hours=1)
        await cluster.close()


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        pytest.param(_moment(0), 2.5, id="sent within the second"),
        pytest.param(_moment(2), 2.5, id="received within the second"),
        pytest.param(_moment(30), 30.0, id="the clock is behind"),
        pytest.param(_moment(0) + timedelta(hours=1), 3600.0, id="set forward"),
        pytest.param(_moment(0) - timedelta(hours=1), -3597.0, id="set back"),
        pytest.param("yesterday", 2.5, id="no date"),
        pytest.param(None, 2.5, id="none"),
    ],
)
def test_the_time_contradicts_no_response(date: datetime | str | None, expected: float) -> None:
    """The request was sent after half a second and answered after two more. Dates are in whole seconds."""
    seconds = 100.0
    clock = ServerClock(wall=_moment(0).timestamp, monotonic=lambda: seconds)
    seconds = 102.5
    clock.record(100.5, _date(date) if isinstance(date, datetime) else date)
    assert clock.now() - _moment(0).timestamp() == pytest.approx(expected)
