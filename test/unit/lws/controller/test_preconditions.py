"""What is said while the API server cannot be used, and that the manager goes on once it can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lws.controller.preconditions import Preconditions
from test.unit.fake_api import Answer, answer_json, failure, plain, reset, serving
from test.unit.fake_time import in_fake_time


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        pytest.param(lambda: failure(401, "Unauthorized", "Unauthorized"), "does not say whether", id="401"),
        pytest.param(lambda: failure(403, "Forbidden", "may not get"), "x-k8s.io/v1: may not get", id="403"),
        pytest.param(lambda: plain(503, "<html>no backend"), "x-k8s.io/v1: <html>no backend", id="503"),
        pytest.param(reset, "is the API server up", id="no answer"),
        pytest.param(lambda: failure(404), "install the CustomResourceDefinition", id="no definition"),
    ],
)
@in_fake_time
async def test_what_is_missing_is_said_and_waited_for(trouble: Callable[[], Answer], words: str) -> None:
    async with serving() as api:
        api.will(*[trouble() for _ in range(200)], answer_json({"kind": "APIResourceList"}))
        cluster = api.cluster()
        try:
            preconditions = Preconditions(cluster, ["leaderworkerset.x-k8s.io/v1"])
            waiting = asyncio.create_task(preconditions.wait())
            await asyncio.sleep(60.0)
            assert words in (preconditions.missing() or "")
            assert not waiting.done()
            await asyncio.sleep(3600.0)
            assert waiting.done() and preconditions.missing() is None
            assert len(api.requests) == 201
        finally:
            await cluster.close()


@in_fake_time
async def test_every_kind_of_workload_is_waited_for() -> None:
    async with serving() as api:
        served = answer_json({"kind": "APIResourceList"})
        api.will(served, failure(404), served, served)
        cluster = api.cluster()
        try:
            preconditions = Preconditions(cluster, ["one.example.com/v1", "two.example.com/v1"])
            await preconditions.wait()
            assert [seen.path for seen in api.requests] == 2 * [
                "/apis/one.example.com/v1",
                "/apis/two.example.com/v1",
            ]
        finally:
            await cluster.close()
