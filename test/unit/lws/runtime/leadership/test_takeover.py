"""A new leader starts its passes only after it has seen the writes of the previous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lws.runtime.errors import ClusterError, Throttled, Unreachable
from lws.runtime.leadership.election import Scope, Takeover, everywhere
from test.unit.fake_time import in_fake_time, now


class Stream:
    """A stream that takes some seconds to list everything.

    trouble: the errors before that, which need no time. lists_at: when each list began.
    """

    def __init__(self, *trouble: ClusterError, seconds: float = 10.0) -> None:
        self.trouble = list(trouble)
        self.seconds = seconds
        self.refreshed = 0
        self.lists_at: list[float] = []

    async def refresh(self) -> None:
        self.lists_at.append(now())
        if self.trouble:
            raise self.trouble.pop(0)
        await asyncio.sleep(self.seconds)
        self.refreshed += 1


def only(namespace: str) -> Scope:
    return lambda name: name == namespace


@asynccontextmanager
async def running(*streams: Stream) -> AsyncIterator[tuple[Takeover, list[Scope]]]:
    begun: list[Scope] = []
    takeover = Takeover((stream.refresh for stream in streams), begun.append)
    task = asyncio.create_task(takeover.run())
    await asyncio.sleep(0)
    yield takeover, begun
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_new_leader_begins_after_it_has_listed_everything() -> None:
    stream = Stream()
    async with running(stream) as (takeover, begun):
        takeover.gain(everywhere)
        assert not takeover.is_done("a")
        await asyncio.sleep(9.9)
        assert not takeover.is_done("a") and begun == []
        await asyncio.sleep(0.2)
        assert takeover.is_done("a") and begun == [everywhere]


@in_fake_time
async def test_scopes_gained_together_are_listed_once_and_later_ones_again() -> None:
    stream = Stream()
    async with running(stream) as (takeover, begun):
        first, second, third = only("a"), only("b"), only("c")
        takeover.gain(first)
        takeover.gain(second)
        await asyncio.sleep(5.0)
        takeover.gain(third)
        await asyncio.sleep(5.1)
        assert begun == [first, second] and stream.refreshed == 1
        assert takeover.is_done("a") and takeover.is_done("b") and not takeover.is_done("c")
        await asyncio.sleep(10.0)
        assert begun == [first, second, third] and takeover.is_done("c")


@in_fake_time
async def test_no_pass_begins_while_a_list_fails() -> None:
    stream = Stream(*[Unreachable("connection refused")] * 6)
    async with running(Stream(), stream) as (takeover, begun):
        takeover.gain(everywhere)
        # The backoff doubles from at least 0.1 s.
        await asyncio.sleep(0.1 * (2**6 - 1) + 9.0)
        assert not takeover.is_done("a") and begun == []
        await asyncio.sleep(0.2 * (2**6 - 1) + 2.0)
        assert takeover.is_done("a") and begun == [everywhere]


@in_fake_time
async def test_only_the_list_that_failed_is_repeated_and_after_the_requested_time() -> None:
    """A list that is repeated while another runs makes an overloaded API server slower still."""
    slow, refused = Stream(seconds=100.0), Stream(*[Throttled(429, "TooManyRequests", "busy", 20.0)] * 4)
    began = now()
    async with running(slow, refused) as (takeover, begun):
        takeover.gain(everywhere)
        await asyncio.sleep(99.0)
        assert not takeover.is_done("a")
        await asyncio.sleep(2.0)
        assert takeover.is_done("a") and begun == [everywhere]
    assert [at - began for at in slow.lists_at] == [0.0]
    assert [at - began for at in refused.lists_at] == [0.0, 20.0, 40.0, 60.0, 80.0]
