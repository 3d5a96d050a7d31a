"""Webhooks withstand malformed, oversized and very many reviews."""

from __future__ import annotations

import asyncio
import http.client
import io
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from test.harness.groups import settle
from test.harness.manifests import a_set, pod_template
from test.harness.product import Product
from test.harness.proxied import Stage
from test.harness.world import SET, World
from test.integration.bad_days.reviews import (
    MUTATE_SET,
    VALIDATE_SET,
    Review,
    address_of,
    pod_review,
    set_review,
    trust,
)
from tools.deployment import ManagerProcess
from tools.localcluster import LocalCluster

pytestmark = pytest.mark.local_only

GOOD = set_review(VALIDATE_SET, 1).body
JSON = {"Content-Type": "application/json"}
MEBIBYTE = 2**20


@pytest.fixture
async def webhooks(product: Product, cluster: LocalCluster) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that calls the manager's webhooks as the API server does."""
    async with client_of(product.manager, cluster) as session:
        yield session


def client_of(manager: ManagerProcess, cluster: LocalCluster) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=trust(cluster), limit=16)
    return aiohttp.ClientSession(address_of(manager), connector=connector)


def changed(**request: Any) -> bytes:
    return json.dumps({**GOOD, "request": {**GOOD["request"], **request}}).encode()


NO_REVIEWS = {
    "empty": b"",
    "not JSON": b"review, please",
    "truncated": json.dumps(GOOD).encode()[:-20],
    "not UTF-8": b'"\xff\xfe"',
    "a list": b"[1, 2]",
    "another kind": json.dumps({**GOOD, "kind": "Pod"}).encode(),
    "another version": json.dumps({**GOOD, "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
    "no request": json.dumps({**GOOD, "request": None}).encode(),
    "no UID": changed(uid=""),
    "another resource": changed(resource={"group": "", "version": "v1", "resource": "pods"}),
    "no object": changed(object=None, oldObject=None),
    "a string for an object": changed(object="me"),
    "deeply nested": b"[" * 100_000,
}


@pytest.mark.parametrize("body", NO_REVIEWS.values(), ids=NO_REVIEWS.keys())
async def test_invalid_reviews_are_rejected(
    webhooks: aiohttp.ClientSession, product: Product, body: bytes
) -> None:
    async with webhooks.post(VALIDATE_SET, data=body, headers=JSON) as answer:
        assert answer.status == 400
        assert len((await answer.text()).strip().splitlines()) == 1
    await serves(webhooks)
    assert product.manager.is_running


def test_a_body_with_a_too_large_content_length_is_rejected_unread(
    product: Product, cluster: LocalCluster
) -> None:
    with closing(connection_to(product.manager, cluster)) as connection:
        connection.putrequest("POST", VALIDATE_SET)
        for name, value in {**JSON, "Content-Length": str(8 * MEBIBYTE + 1)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 413


async def test_a_too_large_chunked_body_is_rejected(webhooks: aiohttp.ClientSession) -> None:
    body = json.dumps(GOOD).encode().ljust(9 * MEBIBYTE)
    async with webhooks.post(VALIDATE_SET, data=in_chunks(body), headers=JSON) as answer:
        assert answer.status == 413
    await serves(webhooks)


async def test_a_body_of_the_maximum_size_is_answered(webhooks: aiohttp.ClientSession) -> None:
    body = json.dumps(GOOD).encode().ljust(8 * MEBIBYTE)
    async with webhooks.post(VALIDATE_SET, data=io.BytesIO(body), headers=JSON) as answer:
        assert answer.status == 200


# 10,000 reviews that each leave a quarter of a kilobyte behind would exceed this.
LEAK = 2.5 * MEBIBYTE


# This test runs before the next one, whose large reviews leave traces in the heap.
async def test_memory_does_not_grow_with_reviews(stage: Stage, cluster: LocalCluster) -> None:
    manager = stage.start()
    numbers = itertools.count(1)
    async with client_of(manager, cluster) as webhooks:
        await answered(webhooks, numbers, 1_000)
        growth = [await grown_by(manager.pid, answered(webhooks, numbers, 10_000))]
        # On a busy machine, a heap may grow once for a while; a leak grows every time.
        while growth[-1] >= LEAK and len(growth) < 5:
            growth.append(await grown_by(manager.pid, answered(webhooks, numbers, 10_000)))
    assert min(growth) < LEAK


async def grown_by(pid: int, work: Awaitable[object]) -> int:
    """Return the bytes by which a process grows during the work."""
    before = resident_bytes(pid)
    await work
    return resident_bytes(pid) - before


def test_a_set_of_one_mebibyte_is_created_and_updated(product: Product, world: World) -> None:
    template = pod_template()
    template["spec"]["containers"][0]["args"] = ["x" * (MEBIBYTE - 4096)]
    world.create(a_set("large", replicas=1, size=1, workers=template))
    settle(world, "large")
    world.patch(SET, "large", {"metadata": {"labels": {"changed": "yes"}}, "spec": {"replicas": 2}})
    settle(world, "large")
    assert product.manager.is_running


async def serves(webhooks: aiohttp.ClientSession) -> None:
    async with webhooks.post(VALIDATE_SET, json=GOOD) as answer:
        assert (await answer.json())["response"]["allowed"] is True


def connection_to(manager: ManagerProcess, cluster: LocalCluster) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", manager.webhook_port, timeout=60, context=trust(cluster))


async def answered(webhooks: aiohttp.ClientSession, numbers: Iterator[int], count: int) -> None:
    """Send `count` different reviews, 16 at a time."""
    reviews = map(a_review, itertools.islice(numbers, count))

    async def send() -> None:
        for review in reviews:
            async with webhooks.post(review.path, json=review.body) as answer:
                assert (await answer.json())["response"]["allowed"] is True

    await asyncio.gather(*(send() for _ in range(16)))


def a_review(number: int) -> Review:
    kinds = (set_review(MUTATE_SET, number), set_review(VALIDATE_SET, number), pod_review(number))
    return kinds[number % 3]


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), MEBIBYTE):
        yield body[start : start + MEBIBYTE]


def resident_bytes(pid: int) -> int:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024
