"""When the Events of a StatefulSet are read, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from lws.cluster.connection import Cluster
from lws.cluster.errors import ClusterError, Forbidden
from lws.cluster.shortages import Shortages
from lws.kube.conditions import timestamp
from test.unit.builders import NOW, make_leader_statefulset

WORDS = 'create Pod demo-0 in StatefulSet demo failed error: pods "demo-0" is forbidden: exceeded quota: few'


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def event(words: str = WORDS, seconds: float = 0, **how: Any) -> dict[str, Any]:
    moment = how or {"deprecatedLastTimestamp": timestamp(at(seconds))}
    return {"metadata": {"name": "e", "creationTimestamp": timestamp(at(-9000))}, "note": words, **moment}


class Events:
    """An API server with Events. asked: the selectors of each question."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)
        self.asked: list[str] = []
        self.error: ClusterError | None = None

    async def list_page(self, resource: Any, query: Mapping[str, str], namespace: str) -> dict[str, Any]:
        assert (resource.plural, namespace) == ("events", "default")
        self.asked.append(query["fieldSelector"])
        if self.error is not None:
            raise self.error
        return {"items": self.items}


def short(name: str = "demo", existing: int = 1, **more: Any) -> dict[str, Any]:
    made = make_leader_statefulset(replicas=2, status={"replicas": existing}, **more)
    made["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    return made


async def ask(shortages: Shortages, seconds: float, *statefulsets: dict[str, Any]) -> tuple[list[str], Any]:
    found = await shortages.of_set("default", "demo", statefulsets or (short(),), at(seconds))
    return [each.message for each in found.obstructions], found.look_again


def of(events: Events) -> Shortages:
    return Shortages(cast(Cluster, events))


async def test_nothing_is_read_where_all_pods_are_there() -> None:
    events = Events(event())
    assert await ask(of(events), 0, short(existing=2)) == ([], None)
    assert events.asked == []


async def test_it_is_read_when_pods_are_missing_for_a_while_and_then_now_and_again() -> None:
    events = Events(event())
    shortages = of(events)
    said = [f"StatefulSet demo is short of pods: {WORDS}"]
    assert await ask(shortages, 0) == ([], 5)
    assert await ask(shortages, 3) == ([], 2)
    assert events.asked == []
    assert await ask(shortages, 5) == (said, 30)
    assert events.asked == ["regarding.uid=uid-of-demo,type=Warning,reason=FailedCreate"]
    assert await ask(shortages, 25) == (said, 10)
    assert len(events.asked) == 1
    assert await ask(shortages, 35) == (said, 30)
    assert len(events.asked) == 2
    assert await ask(shortages, 40, short(existing=2)) == ([], None)
    assert await ask(shortages, 50) == ([], 5), "a new shortage has its own patience"


async def test_a_statefulset_that_its_controller_has_not_seen_is_not_short() -> None:
    events = Events(event())
    assert await ask(of(events), 0, short(generation=2, observed_generation=1)) == ([], None)


async def told(*items: dict[str, Any]) -> list[str]:
    shortages = of(Events(*items))
    await ask(shortages, 0)
    said, _ = await ask(shortages, 5)
    return [each.removeprefix("StatefulSet demo is short of pods: ") for each in said]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([], [], id="nothing was said"),
        pytest.param([event("old", -60), event("new", -1)], ["new"], id="the newest counts"),
        pytest.param([event("b", -1), event("a", -1)], ["a"], id="of the same moment always the same one"),
        pytest.param([event("long ago", -3600)], [], id="too long ago to be true"),
        pytest.param([event("")], [], id="no words"),
        pytest.param([event("s", series={"lastObservedTime": "2026-03-01T12:00:00.5Z"})], ["s"], id="series"),
        pytest.param([event("e", eventTime="2026-03-01T12:00:00.5Z")], ["e"], id="event time"),
    ],
)
async def test_which_event_counts(items: list[dict[str, Any]], expected: list[str]) -> None:
    assert await told(*items) == expected


async def test_only_a_few_of_many_are_asked() -> None:
    events = Events(event())
    shortages = of(events)
    many = [short(f"demo-{index}") for index in range(9)]
    await ask(shortages, 0, *many)
    said, _ = await ask(shortages, 5, *many)
    assert (len(events.asked), len(said)) == (3, 3)


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), ClusterError("unreachable")])
async def test_events_that_cannot_be_read_hold_nothing_up(error: ClusterError) -> None:
    events = Events(event())
    shortages = of(events)
    await ask(shortages, 0)
    said, _ = await ask(shortages, 5)
    events.error = error
    assert await ask(shortages, 40) == (said, 30), "what was known stays known"


async def test_a_set_that_is_gone_is_forgotten() -> None:
    shortages = of(Events(event()))
    await ask(shortages, 0)
    shortages.forget("default", "demo")
    shortages.forget("default", "other")
    assert await ask(shortages, 9) == ([], 5)
