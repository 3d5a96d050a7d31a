"""A new leader starts its passes only after it has seen the writes of the previous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lws.runtime.errors import Unreachable
from lws.runtime.leadership.election import Scope, Takeover, everywhere
from test.unit.fake_time import in_fake_time


class Streams:
    """Streams that take ten seconds to list everything. trouble: the number of failures before that."""

    def __init__(self, trouble: int = 0) -> None:
        self.trouble = trouble
        self.refreshed = 0

    async def refresh(self) -> None:
        await asyncio.sleep(10.0)
        if self.trouble:
            self.trouble -= 1
            raise Unreachable("connection refused")
        self.refreshed += 1


def only(namespace: str) -> Scope:
    return lambda name: name == namespace


@asynccontextmanager
async def running(streams: Streams) -> AsyncIterator[tuple[Takeover, list[Scope]]]:
    begun: list[Scope] = []
    takeover = Takeover(streams.refresh, begun.append)
    task = asyncio.create_task(takeover.run())
    await asyncio.sleep(0)
    yield takeover, begun
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_new_leader_begins_after_it_has_listed_everything() -> None:
    streams = Streams()
    async with running(streams) as (takeover, begun):
        takeover.gain(everywhere)
        assert not takeover.is_done("a")
        await asyncio.sleep(9.9)
        assert not takeover.is_done("a") and begun == []
        await asyncio.sleep(0.2)
        assert takeover.is_done("a") and begun == [everywhere]


@in_fake_time
async def test_scopes_gained_together_are_listed_once_and_later_ones_again() -> None:
    streams = Streams()
    async with running(streams) as (takeover, begun):
        first, second, third = only("a"), only("b"), only("c")
        takeover.gain(first)
        takeover.gain(second)
        await asyncio.sleep(5.0)
        takeover.gain(third)
        await asyncio.sleep(5.1)
        assert begun == [first, second] and streams.refreshed == 1
        assert takeover.is_done("a") and takeover.is_done("b") and not takeover.is_done("c")
        await asyncio.sleep(10.0)
        assert begun == [first, second, third] and takeover.is_done("c")


@in_fake_time
async def test_no_pass_begins_while_the_lists_fail() -> None:
    streams = Streams(trouble=3)
    async with running(streams) as (takeover, begun):
        takeover.gain(everywhere)
        await asyncio.sleep(33.0)
        assert not takeover.is_done("a") and begun == []
        await asyncio.sleep(11.0)
        assert takeover.is_done("a") and begun == [everywhere]
