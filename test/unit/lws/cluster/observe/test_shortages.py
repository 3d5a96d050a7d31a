"""When it is asked why a StatefulSet is short of pods, and what is made of the answer."""

from __future__ import annotations

from typing import Any, cast

from lws.cluster.client.connection import Cluster
from lws.cluster.observe.shortages import Shortages
from test.unit.builders import make_leader_statefulset
from test.unit.lws.cluster.observe.told_events import WORDS, Events, at, event


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
    assert len(events.asked) == 1
    assert await ask(shortages, 25) == (said, 10)
    assert len(events.asked) == 1
    assert await ask(shortages, 35) == (said, 30)
    assert len(events.asked) == 2
    assert await ask(shortages, 40, short(existing=2)) == ([], None)
    assert await ask(shortages, 50) == ([], 5), "a new shortage has its own patience"


async def test_a_statefulset_that_its_controller_has_not_seen_is_not_short() -> None:
    events = Events(event())
    assert await ask(of(events), 0, short(generation=2, observed_generation=1)) == ([], None)


async def test_only_a_few_of_many_are_asked() -> None:
    events = Events(*(event(about=f"demo-{index}") for index in range(9)))
    shortages = of(events)
    many = [short(f"demo-{index}") for index in range(9)]
    await ask(shortages, 0, *many)
    said, _ = await ask(shortages, 5, *many)
    assert (len(events.asked), len(said)) == (1, 3)


async def test_it_is_known_of_all_when_they_were_refused() -> None:
    events = Events(*(event(about=f"demo-{index}", seconds=index - 9) for index in range(8)))
    shortages = of(events)
    many = [short(f"demo-{index}") for index in range(9)]
    before = await shortages.of_set("default", "demo", many[:8], at(0))
    assert before.refused_at == {}
    found = await shortages.of_set("default", "demo", many, at(5))
    assert found.refused_at == {f"uid-of-demo-{index}": at(index - 9) for index in range(8)}
    assert len(events.asked) == 1
    served = [short(f"demo-{index}", existing=2) for index in range(9)]
    assert (await shortages.of_set("default", "demo", served, at(6))).refused_at == {}
    again = await shortages.of_set("default", "demo", many, at(7))
    assert again.refused_at == {}, "a new shortage has its own patience"


async def test_a_set_that_is_gone_is_forgotten() -> None:
    shortages = of(Events(event()))
    await ask(shortages, 0)
    shortages.forget("default", "demo")
    shortages.forget("default", "other")
    assert await ask(shortages, 9) == ([], 5)
