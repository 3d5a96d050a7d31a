"""When the Events of a namespace are read, and what is made of them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, cast

import pytest

from lws.cluster.client.connection import Cluster
from lws.cluster.errors import ClusterError, Forbidden
from lws.cluster.observe.failed_creates import FailedCreates
from test.unit.lws.cluster.observe.told_events import WORDS, Events, at, event


def of(events: Events) -> FailedCreates:
    return FailedCreates(cast(Cluster, events))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([], "", id="nothing was said"),
        pytest.param([event("old", -60), event("new", -1)], "new", id="the newest counts"),
        pytest.param([event("new", -1), event("old", -60)], "new", id="the newest counts, in any order"),
        pytest.param([event("b", -1), event("a", -1)], "a", id="of the same moment always the same one"),
        pytest.param([event("a", -1), event("b", -1)], "a", id="of the same moment, in any order"),
        pytest.param([event("long ago", -3600)], "", id="too long ago to be true"),
        pytest.param([event("")], "", id="no words"),
        pytest.param([event("", -1), event("w", -9)], "w", id="words count, and no silence after them"),
        pytest.param([event("s", series={"lastObservedTime": "2026-03-01T12:00:00.5Z"})], "s", id="series"),
        pytest.param([event("e", eventTime="2026-03-01T12:00:00.5Z")], "e", id="event time"),
        pytest.param([event("other", about="other")], "", id="about another one"),
        pytest.param([{**event(), "regarding": None}], "", id="about nobody"),
    ],
)
async def test_which_event_counts(items: list[dict[str, Any]], expected: str) -> None:
    assert await of(Events(*items)).words_about("default", "uid-of-demo", at(0)) == expected


async def test_one_read_serves_a_namespace_for_some_seconds() -> None:
    events = Events(event("one", about="one"), event("two", about="two"))
    failed = of(events)
    asked = [("one", 0), ("two", 0), ("one", 0), ("two", 3)]
    said = await asyncio.gather(
        *(failed.words_about("default", f"uid-of-{name}", at(seconds)) for name, seconds in asked)
    )
    assert said == ["one", "two", "one", "two"]
    selector = "regarding.kind=StatefulSet,type=Warning,reason=FailedCreate"
    assert events.asked == [("default", {"fieldSelector": selector, "limit": "500"})]
    await failed.words_about("other", "uid-of-one", at(3))
    await failed.words_about("default", "uid-of-one", at(4))
    assert [namespace for namespace, _ in events.asked] == ["default", "other", "default"]


@pytest.mark.parametrize(
    ("took", "pause"),
    [
        pytest.param(0.01, 4, id="quick"),
        pytest.param(0.7, 14, id="slow"),
        pytest.param(9.0, 30, id="longest"),
    ],
)
async def test_the_longer_a_read_takes_the_later_comes_the_next(took: float, pause: int) -> None:
    moments = itertools.count()
    events = Events(event())
    failed = FailedCreates(cast(Cluster, events), clock=lambda: took * next(moments))
    for seconds in (0, pause - 1, pause):
        await failed.words_about("default", "uid-of-demo", at(seconds))
    assert len(events.asked) == 2
    events.error = ClusterError("unreachable")
    for seconds in (2 * pause, 3 * pause - 1, 3 * pause):
        await failed.words_about("default", "uid-of-demo", at(seconds))
    assert len(events.asked) == 4


async def test_when_it_was_said_is_known_without_another_read() -> None:
    events = Events(event(seconds=-60), event(seconds=-7), event("long ago", -3600, about="other"))
    failed = of(events)
    assert failed.last_about("default", "uid-of-demo", at(0)) is None
    await failed.words_about("default", "uid-of-demo", at(0))
    assert failed.last_about("default", "uid-of-demo", at(100)) == at(-7)
    for uid, seconds in (("uid-of-demo", 1200), ("uid-of-other", 0), ("uid-of-nobody", 0)):
        assert failed.last_about("default", uid, at(seconds)) is None
    assert failed.last_about("other", "uid-of-demo", at(0)) is None
    assert len(events.asked) == 1


async def test_words_that_are_not_said_any_more_are_forgotten() -> None:
    events = Events(event())
    failed = of(events)
    assert await failed.words_about("default", "uid-of-demo", at(0)) == WORDS
    events.items = []
    assert await failed.words_about("default", "uid-of-demo", at(5)) == ""


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), ClusterError("unreachable")])
async def test_events_that_cannot_be_read_hold_nothing_up(error: ClusterError) -> None:
    events = Events(event())
    failed = of(events)
    assert await failed.words_about("default", "uid-of-demo", at(0)) == WORDS
    events.error = error
    assert await failed.words_about("default", "uid-of-demo", at(5)) == WORDS, "what was known stays known"
    assert await failed.words_about("default", "uid-of-demo", at(6)) == WORDS
    assert len(events.asked) == 2, "who may not read is not asked by everybody"


async def test_namespaces_that_nobody_asks_about_are_forgotten() -> None:
    events = Events(event())
    failed = of(events)
    await failed.words_about("default", "uid-of-demo", at(0))
    await failed.words_about("other", "uid-of-demo", at(61))
    events.error = ClusterError("unreachable")
    assert await failed.words_about("default", "uid-of-demo", at(62)) == ""
    assert await failed.words_about("other", "uid-of-demo", at(66)) == WORDS
