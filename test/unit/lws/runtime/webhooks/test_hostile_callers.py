"""The webhook server with callers that send anything or nothing: it answers, and its memory does not grow."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import resource
import ssl
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest

from lws import timing
from test.unit.lws.runtime.webhooks.test_server import JSON, Running, review
from test.unit.lws.runtime.webhooks.test_server import running as running

BODIES = 1_000
SILENT = 2_000
AT_ONCE = 16
_VALUES: tuple[Any, ...] = (None, True, -1, 1e308, "", "\x00", "\ud800", [], {}, [[]], {"": {"": None}})


def bodies(seed: int, count: int) -> Iterator[bytes]:
    """Yield reviews with one error: a value of another type, flipped bytes, truncated, doubled, or noise."""
    draw = random.Random(seed)
    for _ in range(count):
        obj = review()
        inner = draw.choice([obj, obj["request"], obj["request"]["resource"], obj["request"]["object"]])
        if draw.random() < 0.5:
            inner[draw.choice(list(inner))] = draw.choice(_VALUES)
        body = bytearray(json.dumps(obj).encode())
        match draw.randrange(5):
            case 0:
                body[draw.randrange(len(body))] = draw.randrange(256)
            case 1:
                del body[draw.randrange(len(body)) :]
            case 2:
                body *= 2
            case 3:
                body = bytearray(draw.randbytes(draw.randrange(300)))
        yield bytes(body)


async def sent(running: Running, seed: int, count: int) -> Counter[int]:
    """Return how many bodies were answered with each status."""
    statuses: Counter[int] = Counter()
    remaining = bodies(seed, count)

    async def caller() -> None:
        for body in remaining:
            status, _ = await running.post(data=body, headers=JSON)
            statuses[status] += 1

    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    running.answers.clear()
    running.kopf.reviews.clear()
    return statuses


async def test_any_request_is_answered_without_leaks(running: Running) -> None:
    warm, half = 200, (BODIES - 200) // 2
    statuses = await sent(running, 1, warm)
    growth = []
    tracemalloc.start()
    try:
        for seed in (2, 3):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            statuses += await sent(running, seed, half)
            gc.collect()
            growth.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert statuses.total() == BODIES
    assert statuses.keys() <= {200, 400}, statuses
    assert statuses[400] > BODIES / 5 and statuses[200] > BODIES / 20, "both kinds were among them"
    assert min(growth) < 256 * 1024, growth
    assert (await running.post(json=review()))[0] == 200


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Allow `count` open file descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"the machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_silent_callers_do_not_block_others(running: Running) -> None:
    assert running.server.port is not None
    with descriptors(2 * SILENT + 500):
        async with AsyncExitStack() as stack:
            for _ in range(SILENT):
                _, writer = await asyncio.open_connection("127.0.0.1", running.server.port)
                stack.callback(writer.close)
            async with asyncio.timeout(30):
                for _ in range(20):
                    assert (await running.post(json=review()))[0] == 200


async def half_a_body(running: Running, size: int) -> asyncio.StreamWriter:
    """Open a connection that announces a body of `size` bytes and sends half of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=context)
    head = f"POST /mutate--v1-pod HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON['Content-Type']}\r\n"
    writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode() + b"x" * (size // 2))
    return writer


async def test_a_missing_body_times_out(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "CLIENT_SECONDS", 0.05)
    writer = await half_a_body(running, 1_000)
    async with asyncio.timeout(10):
        while not running.answers:
            await asyncio.sleep(0.01)
    writer.close()
    assert running.answers == [("mutate--v1-pod", 408, "")]


async def test_an_aborted_body_logs_no_error(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    writer = await half_a_body(running, 1_000)
    async with asyncio.timeout(10):
        while not running.server.in_flight("mutate--v1-pod"):
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while running.server.in_flight("mutate--v1-pod"):
            await asyncio.sleep(0.01)
    writer.close()
    assert running.answers == [], "nobody waits for an answer"
    assert caplog.records == []


async def test_concurrent_reads_of_large_bodies_are_limited(running: Running) -> None:
    """Small bodies are read meanwhile, however many large ones wait."""
    slow = [await half_a_body(running, 4_000_000) for _ in range(8)]
    async with asyncio.timeout(30):
        while running.server.in_flight("mutate--v1-pod") < len(slow):
            await asyncio.sleep(0.01)
        assert (await running.post(json=review()))[0] == 200
        large = asyncio.create_task(running.post(json=review(note="x" * 500_000)))
        await asyncio.wait([large], timeout=0.2)
        assert not large.done()
        for writer in slow:
            writer.close()
            writer.transport.abort()
        assert (await large)[0] == 200
