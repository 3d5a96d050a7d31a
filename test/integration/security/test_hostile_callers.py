"""A manager keeps answering others, without using more memory, while hostile callers flood its ports."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.unit.lws.runtime.webhooks.test_hostile_callers import bodies, descriptors

BODIES = 10_000
CALLERS = 2_000
AT_ONCE = 16
JSON = {"Content-Type": "application/json"}
POD, SETS = "mutate--v1-pod", "validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
# Allowed growth above about 85 MB: what is served at a time, and memory that Python has not returned yet.
BODIES_MB, CALLERS_MB, AGAIN_MB = 16, 200, 80


def resident(product: Product) -> float:
    """Return the resident memory of the manager in MB."""
    status = Path(f"/proc/{product.manager.pid}/status").read_text()
    (kilobytes,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
    return int(kilobytes) / 1024


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def send_bodies(port: int, pending: Iterator[bytes]) -> Counter[int]:
    """Return how many bodies were answered with each status."""
    statuses: Counter[int] = Counter()
    connector = aiohttp.TCPConnector(ssl=trusting())
    async with aiohttp.ClientSession(connector=connector) as session:

        async def caller(path: str) -> None:
            for body in pending:
                url = f"https://127.0.0.1:{port}/{path}"
                async with session.post(url, data=body, headers=JSON) as answer:
                    statuses[answer.status] += 1

        await asyncio.gather(*(caller(SETS if number % 4 == 0 else POD) for number in range(AT_ONCE)))
    return statuses


def test_ten_thousand_bodies_do_not_grow_the_memory(product: Product) -> None:
    port = product.manager.webhook_port
    asyncio.run(send_bodies(port, bodies(1, 1_000)))
    before = resident(product)
    statuses = asyncio.run(send_bodies(port, bodies(2, BODIES)))
    growth = resident(product) - before
    print(f"{before:.0f} MB, {growth:+.1f} MB after {BODIES} bodies: {dict(statuses)}")
    assert statuses.total() == BODIES
    assert statuses.keys() <= {200, 400}, statuses
    assert statuses[400] > BODIES / 5 and statuses[200] > BODIES / 50, (
        "accepted and rejected bodies were among them"
    )
    assert growth < BODIES_MB
    assert "Traceback" not in product.log()


REQUEST = b"POST /mutate--v1-pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SLOW = {
    "sends nothing": (False, b""),
    "stops after the handshake": (True, b""),
    "stops within the head": (True, REQUEST[:-20]),
    "stops within the body": (True, REQUEST + b"Content-Length: 8000000\r\n\r\n" + b"x" * 200_000),
}


def abort(writer: asyncio.StreamWriter) -> None:
    """Abort the connection without a close message."""
    writer.close()
    writer.transport.abort()


async def flood(port: int, kind: str, held: AsyncExitStack) -> int:
    """Open 2,000 connections that stay open, and return how many were accepted."""
    speaks, words = SLOW[kind]
    accepted = 0

    async def caller() -> None:
        nonlocal accepted
        try:
            _, writer = await asyncio.open_connection(
                "127.0.0.1",
                port,
                ssl=trusting() if speaks else None,
                ssl_handshake_timeout=60 if speaks else None,
            )
        except OSError:
            return
        held.callback(abort, writer)
        accepted += 1
        writer.write(words)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return accepted


@pytest.mark.parametrize("kind", list(SLOW))
def test_two_thousand_slow_callers_do_not_block_others(product: Product, world: World, kind: str) -> None:
    port, name = product.manager.webhook_port, "meanwhile"

    async def attacked() -> tuple[float, float]:
        async with AsyncExitStack() as held:
            flooding = asyncio.create_task(flood(port, kind, held))
            # The webhooks of sets and of pods are called, and they fail closed.
            await asyncio.to_thread(world.create, a_set(name))
            await asyncio.to_thread(
                eventually,
                "it is ready",
                lambda: world.get(SET, name).get("status", {}).get("readyReplicas") == 2,
            )
            accepted = await flooding
            assert accepted > CALLERS / 20
            return resident(product), accepted

    with descriptors(2 * CALLERS + 500):
        before = resident(product)
        first, accepted = asyncio.run(attacked())
        world.delete(SET, name)
        name = "again"
        second, _ = asyncio.run(attacked())
    print(f"{kind}: {before:.0f} → {first:.0f} → {second:.0f} MB, {accepted:.0f} of {CALLERS} let in")
    assert first - before < CALLERS_MB
    assert second - first < AGAIN_MB
    assert "Traceback" not in product.log()
