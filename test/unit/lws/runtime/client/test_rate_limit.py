"""The token bucket, in fake time."""

from __future__ import annotations

import asyncio

from lws.runtime.client.connection import RateLimit, renewal_rate
from test.unit.fake_time import in_fake_time, now


def _limit(qps: float, burst: int) -> RateLimit:
    return RateLimit(qps, burst, clock=now)


async def _takes(limit: RateLimit, count: int) -> list[float]:
    """Return when each of `count` simultaneous callers gets its token."""
    began = now()
    order: list[int] = []

    async def take(number: int) -> float:
        await limit.acquire()
        order.append(number)
        return round(now() - began, 6)

    moments = await asyncio.gather(*(take(number) for number in range(count)))
    assert order == list(range(count)), "callers are out of order"
    return moments


@in_fake_time
async def test_a_burst_is_immediate_and_the_rest_follows_at_the_rate() -> None:
    assert await _takes(_limit(10, 3), 6) == [0, 0, 0, 0.1, 0.2, 0.3]


@in_fake_time
async def test_saved_tokens_never_exceed_the_burst() -> None:
    limit = _limit(10, 3)
    await asyncio.sleep(3600)
    assert await _takes(limit, 4) == [0, 0, 0, 0.1]


@in_fake_time
async def test_the_bucket_refills_while_idle() -> None:
    limit = _limit(10, 3)
    await _takes(limit, 3)
    await asyncio.sleep(0.2)
    assert await _takes(limit, 3) == [0, 0, 0.1]


@in_fake_time
async def test_burst_0_allows_one_request() -> None:
    assert await _takes(_limit(2, 0), 2) == [0, 0.5]


@in_fake_time
async def test_all_leases_of_a_manager_are_renewed_in_each_period_without_a_wait() -> None:
    limit = renewal_rate(shards=64, retry_period=2.0, clock=now)
    for _ in range(10):
        assert await _takes(limit, 64 + 5) == [0] * 69
        await asyncio.sleep(2.0)
