"""Tests of when the Events of a namespace are read, and of what is concluded from them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from lws.leaderworkerset.observe.failed_creates import FailedCreates
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ClusterError, Forbidden
from test.unit.lws.leaderworkerset.observe.fake_events import WORDS, Background, Events, at, event


class Bench:
    """A reader of Events whose requests end before `ask` returns, unless the API server waits."""

    def __init__(self, events: Events) -> None:
        self.background = Background()
        self.seconds = 0.0
        start, wake = self.background.start, self.background.wake
        self.failed = FailedCreates(cast(Cluster, events), start, wake, lambda: self.seconds)

    def request(self, seconds: float, namespace: str = "default", about: str = "demo") -> None:
        self.seconds = seconds
        self.failed.request_read(namespace, f"set-{about}", [f"uid-of-{about}"])

    def note(self, seconds: float, namespace: str = "default", about: str = "demo") -> str:
        """Return what is known about a StatefulSet; empty if nothing is."""
        known = self.failed.last_failures(namespace, [f"uid-of-{about}"], at(seconds))
        return known[f"uid-of-{about}"][1] if known else ""

    async def ask(self, seconds: float, namespace: str = "default", about: str = "demo") -> str:
        """Ask about a StatefulSet, and return what is known afterwards."""
        self.request(seconds, namespace, about)
        await self.background.over()
        return self.note(seconds, namespace, about)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([], "", id="no Event"),
        pytest.param([event("old", -60), event("new", -1)], "new", id="the newest counts"),
        pytest.param([event("new", -1), event("old", -60)], "new", id="the newest counts, in any order"),
        pytest.param([event("b", -1), event("a", -1)], "a", id="equal times"),
        pytest.param([event("a", -1), event("b", -1)], "a", id="equal times, in any order"),
        pytest.param([event("long ago", -3600)], "", id="too old"),
        pytest.param([event("")], "", id="empty message"),
        pytest.param([event("", -1), event("w", -9)], "w", id="an empty message after a message"),
        pytest.param([event("s", series={"lastObservedTime": "2026-03-01T12:00:00.5Z"})], "s", id="series"),
        pytest.param([event("e", eventTime="2026-03-01T12:00:00.5Z")], "e", id="event time"),
        pytest.param(
            [event("y", deprecatedLastTimestamp="0000-01-01T00:00:00Z"), event("z")], "z", id="year 0"
        ),
        pytest.param([event("other", about="other")], "", id="about another object"),
        pytest.param([{**event(), "regarding": None}], "", id="about no object"),
    ],
)
async def test_the_newest_recent_event_is_used(items: list[dict[str, Any]], expected: str) -> None:
    assert await Bench(Events(*items)).ask(0) == expected


async def test_one_read_serves_a_namespace_for_some_seconds() -> None:
    events = Events(event("one", about="one"), event("two", about="two"))
    bench = Bench(events)
    queries = [("one", 0), ("two", 0), ("one", 0), ("two", 3)]
    assert [await bench.ask(seconds, about=name) for name, seconds in queries] == ["one", "two", "one", "two"]
    selector = "regarding.kind!=LeaderWorkerSet,type=Warning,reason=FailedCreate"
    assert events.requests == [("default", {"fieldSelector": selector, "limit": "500"})]
    await bench.ask(3, "other")
    await bench.ask(4)
    assert [namespace for namespace, _ in events.requests] == ["default", "other", "default"]


async def test_reads_are_asynchronous_and_wake_sets_whose_message_changed() -> None:
    events = Events(event("one", about="one"), event("two", about="two"))
    bench = Bench(events)
    woken = bench.background.woken
    events.answers.clear()
    for name in ("one", "two", "silent", "one"):
        bench.request(0, about=name)
        assert bench.note(0, about=name) == ""
    await asyncio.sleep(0)
    assert (len(events.requests), woken) == (1, [])
    events.answers.set()
    await bench.background.over()
    assert sorted(woken) == [("default", "set-one"), ("default", "set-two")]
    assert bench.note(0, about="two") == "two"
    woken.clear()
    events.items.append(event("more of two", 3, about="two"))
    for name in ("one", "two"):
        bench.request(5, about=name)
    await bench.background.over()
    assert woken == [("default", "set-two")], "the other StatefulSet has no new message"
    events.error = ClusterError("unreachable")
    bench.request(60, about="one")
    await bench.background.over()
    assert woken == [("default", "set-two")]


async def test_a_slow_namespace_does_not_block_others() -> None:
    events = Events(event())
    events.answers.clear()
    events.served.add("quick")
    bench = Bench(events)
    for name in ("slow", "quick"):
        bench.request(0, name)
    async with asyncio.timeout(5.0):
        while not bench.background.woken:
            await asyncio.sleep(0)
    assert bench.background.woken == [("quick", "set-demo")]
    events.answers.set()
    await bench.background.over()
    assert bench.background.woken[1:] == [("slow", "set-demo")]


async def test_only_a_few_namespaces_are_read_at_a_time() -> None:
    events = Events(event())
    events.answers.clear()
    bench = Bench(events)
    for number in range(9):
        bench.request(0, f"ns-{number}")
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(events.requests) == 4
    events.answers.set()
    await bench.background.over()
    assert len(bench.background.woken) == len(events.requests) == 9


@pytest.mark.parametrize(
    ("took", "pause"),
    [
        pytest.param(0.01, 4, id="quick"),
        pytest.param(0.7, 14, id="slow"),
        pytest.param(9.0, 30, id="longest"),
    ],
)
async def test_slow_reads_are_repeated_less_often(took: float, pause: int) -> None:
    events = Events(event())
    bench = Bench(events)

    def read() -> None:
        bench.seconds += took

    events.on_list = read
    for seconds in (0, pause - 1, pause):
        await bench.ask(seconds)
    assert len(events.requests) == 2
    events.error = ClusterError("unreachable")
    for seconds in (2 * pause, 3 * pause - 1, 3 * pause):
        await bench.ask(seconds)
    assert len(events.requests) == 4


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_set_delays_no_read(hours: int) -> None:
    """Reasons were unknown for an hour after the clock had been set back by an hour."""
    events = Events(event())
    bench = Bench(events)
    await bench.ask(0)
    events.items = [event("new", 3600 * hours)]
    bench.request(5)
    await bench.background.over()
    assert bench.note(3600 * hours + 5) == "new"


async def test_the_time_of_a_message_is_known_without_another_read() -> None:
    events = Events(event(seconds=-60), event(seconds=-7), event("long ago", -3600, about="other"))
    bench = Bench(events)
    failed = bench.failed
    uids = ("uid-of-demo", "uid-of-other", "uid-of-unknown")
    assert failed.last_failures("default", uids, at(0)) == {}
    await bench.ask(0)
    assert failed.last_failures("default", uids, at(100)) == {"uid-of-demo": (at(-7), WORDS)}
    assert failed.last_failures("default", uids, at(1200)) == {}
    assert failed.last_failures("other", uids, at(0)) == {}
    assert len(events.requests) == 1


async def test_old_messages_expire() -> None:
    events = Events(event())
    bench = Bench(events)
    assert await bench.ask(0) == WORDS
    events.items = []
    assert await bench.ask(5) == ""


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), ClusterError("unreachable")])
async def test_unreadable_events_block_nothing(error: ClusterError) -> None:
    events = Events(event())
    bench = Bench(events)
    assert await bench.ask(0) == WORDS
    events.error = error
    assert await bench.ask(5) == WORDS, "the known message is kept"
    assert await bench.ask(6) == WORDS
    assert len(events.requests) == 2, "a rejected read is not repeated for each StatefulSet"


async def test_unused_namespaces_are_forgotten() -> None:
    events = Events(event())
    bench = Bench(events)
    await bench.ask(0)
    await bench.ask(61, "other")
    events.error = ClusterError("unreachable")
    assert await bench.ask(62) == ""
    assert await bench.ask(66, "other") == WORDS
