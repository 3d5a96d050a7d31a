"""/debug: the state of the process, for callers on the same machine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from lws.runtime.endpoints.health import DebugServer, sampled


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = DebugServer("127.0.0.1:0", lambda: {"running": 1}, lambda: {"Pod": 7})
    await server.start()
    yield f"http://127.0.0.1:{server.port}/debug"
    await server.close()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_the_index_names_every_path(url: str) -> None:
    status, text = await get(url)
    assert status == 200
    for path in ("tasks", "queue", "caches", "profile"):
        assert f"/debug/{path}" in text


async def test_queue_and_caches_are_json(url: str) -> None:
    assert await get(f"{url}/queue") == (200, '{"running":1}\n')
    assert await get(f"{url}/caches") == (200, '{"Pod":7}\n')


async def test_stacks_of_tasks_and_threads(url: str) -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(waits_for_ever(), name="the one that waits")
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="the thread that waits")
    thread.start()
    try:
        await asyncio.sleep(0)
        _, text = await get(f"{url}/tasks")
    finally:
        stop.set()
        thread.join()
        task.cancel()
    assert "the one that waits" in text and "in waits_for_ever" in text
    assert "Stack for thread the thread that waits" in text and "Stack for thread MainThread" in text


@pytest.mark.parametrize("seconds", ["0", "-1", "61", "nan", "inf", "soon"])
async def test_invalid_durations_of_a_profile_are_rejected(url: str, seconds: str) -> None:
    assert (await get(f"{url}/profile?seconds={seconds}"))[0] == 400


async def test_one_profile_at_a_time(url: str) -> None:
    answers = await asyncio.gather(*(get(f"{url}/profile?seconds=0.3") for _ in range(2)))
    assert sorted(status for status, _ in answers) == [200, 409]
    assert (await get(f"{url}/profile?seconds=0.1"))[0] == 200


def busy(until: threading.Event) -> None:
    while not until.is_set():
        time.monotonic()


async def test_a_profile_contains_busy_functions() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=busy, args=(stop,))
    thread.start()
    try:
        counts = await sampled(thread.ident or 0, 0.5)
    finally:
        stop.set()
        thread.join()
    hot = sum(count for stack, count in counts.items() if f"{__name__}.busy" in stack)
    assert hot == sum(counts.values()) > 0
    assert all(stack.startswith("threading.Thread._bootstrap;") for stack in counts)


async def test_a_profile_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    await sampled(threading.get_ident(), 0.05)
    await sampled(threading.get_ident(), 0.05)
    # The threads of the pool are kept and reused.
    assert threading.active_count() <= before + 2
