"""A manager whose API server is unreachable keeps running, answers its probes, and waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from lws.config import Settings, load
from lws.registrations import REGISTRATIONS
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.manager import Manager
from test.unit.fake_api import FakeApi
from test.unit.fake_time import in_fake_time

NOBODY = "http://127.0.0.1:1"
HOUR = 3600.0


def settings(port: int, debug: str = "0") -> Settings:
    flags = {
        "metrics-bind-address": "0",
        "health-probe-bind-address": f"127.0.0.1:{port}",
        "debug-bind-address": debug,
    }
    return load(None, flags, {"ENABLE_WEBHOOKS": "false"}, namespace_file=Path("there-is-none"))


@asynccontextmanager
async def running(url: str, port: int) -> AsyncIterator[asyncio.Task[int]]:
    cluster = FakeApi(url).cluster()
    task = asyncio.create_task(Manager(settings(port), cluster, Metrics(), REGISTRATIONS).run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.close()


async def probe(port: int, endpoint: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/{endpoint}?verbose") as answer,
    ):
        return answer.status, await answer.text()


@in_fake_time
async def test_a_long_api_server_outage_does_not_restart_the_manager(unused_tcp_port: int) -> None:
    async with running(NOBODY, unused_tcp_port) as manager:
        await asyncio.sleep(0.1)
        assert (await probe(unused_tcp_port, "healthz"))[0] == 200, "before the first answer"
        for _ in range(2):
            await asyncio.sleep(HOUR)
            assert not manager.done()
            assert (await probe(unused_tcp_port, "healthz"))[0] == 200
            status, text = await probe(unused_tcp_port, "readyz")
            assert status == 500
            assert NOBODY in text and "is the API server up" in text


async def test_debug_endpoints_are_off_by_default(unused_tcp_port_factory: Callable[[], int]) -> None:
    health, debug = unused_tcp_port_factory(), unused_tcp_port_factory()
    cluster = FakeApi(NOBODY).cluster()
    with_debug = settings(health, debug=f"127.0.0.1:{debug}")
    task = asyncio.create_task(Manager(with_debug, cluster, Metrics(), REGISTRATIONS).run())
    try:
        async with asyncio.timeout(30):
            status, text = await _first_answer(debug, "debug/queue")
        assert status == 200 and json.loads(text)["running"] == 0
        assert json.loads((await probe(debug, "debug/caches"))[1]) == {}
        assert (await probe(health, "debug/queue"))[0] == 404
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.close()


async def _first_answer(port: int, endpoint: str) -> tuple[int, str]:
    while True:
        try:
            return await probe(port, endpoint)
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.01)
