"""Tests of when to find out why a StatefulSet lacks pods, and of what is concluded from the answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

from lws.kube.conditions import timestamp
from lws.leaderworkerset.observe.failed_creates import FailedCreates, Shortage, Shortages
from lws.runtime.client.connection import Cluster
from test.unit.builders import make_leader_statefulset
from test.unit.lws.leaderworkerset.observe.fake_events import WORDS, Background, Events, at, event


def short(name: str = "demo", existing: int = 1, **more: Any) -> dict[str, Any]:
    statefulset = make_leader_statefulset(replicas=2, status={"replicas": existing}, **more)
    statefulset["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    return statefulset


class Bench:
    """Shortages of one set. Requests end before the next question."""

    def __init__(self, events: Events) -> None:
        self.background = Background()
        self.seconds = 0.0
        start, wake = self.background.start, self.background.wake
        failed = FailedCreates(cast(Cluster, events), start, wake, lambda: self.seconds)
        self.shortages = Shortages(failed)

    async def look(self, seconds: float, *statefulsets: dict[str, Any]) -> Shortage:
        """Return the shortage as seen by the pass that the read has enqueued, if there was a read."""
        self.seconds = seconds
        of_set = partial(self.shortages.of_set, "default", "demo", statefulsets or (short(),))
        shortage = of_set(at(seconds))
        if not self.background.tasks:
            return shortage
        await self.background.over()
        return of_set(at(seconds))


async def ask(bench: Bench, seconds: float, *statefulsets: dict[str, Any]) -> tuple[list[str], Any]:
    shortage = await bench.look(seconds, *statefulsets)
    return [rejection.message for rejection in shortage.rejections], shortage.recheck_after


async def test_no_reads_while_all_pods_exist() -> None:
    events = Events(event())
    assert await ask(Bench(events), 0, short(existing=2)) == ([], None)
    assert events.requests == []


async def test_events_are_read_periodically_while_pods_are_missing() -> None:
    events = Events(event())
    bench = Bench(events)
    messages = [f"StatefulSet demo is short of pods: {WORDS}"]
    assert await ask(bench, 0) == ([], 5)
    assert await ask(bench, 3) == ([], 2)
    assert events.requests == []
    assert await ask(bench, 5) == (messages, 30)
    assert len(events.requests) == 1
    assert await ask(bench, 25) == (messages, 10)
    assert len(events.requests) == 1
    assert await ask(bench, 35) == (messages, 30)
    assert len(events.requests) == 2
    assert await ask(bench, 40, short(existing=2)) == ([], None)
    assert await ask(bench, 50) == ([], 5), "a new shortage starts a new delay"


async def test_a_statefulset_that_its_controller_has_not_observed_is_not_short() -> None:
    events = Events(event())
    assert await ask(Bench(events), 0, short(generation=2, observed_generation=1)) == ([], None)


async def test_few_of_many_statefulsets_are_read() -> None:
    events = Events(*(event(about=f"demo-{index}") for index in range(9)))
    bench = Bench(events)
    many = [short(f"demo-{index}") for index in range(9)]
    await ask(bench, 0, *many)
    messages, _ = await ask(bench, 5, *many)
    assert (len(events.requests), len(messages)) == (1, 3)


async def test_time_of_the_last_rejection_is_known_for_all() -> None:
    events = Events(*(event(about=f"demo-{index}", seconds=index - 9) for index in range(8)))
    bench = Bench(events)
    many = [short(f"demo-{index}") for index in range(9)]
    before = await bench.look(0, *many[:8])
    assert before.pods_refused_at == {}
    shortage = await bench.look(5, *many)
    assert shortage.pods_refused_at == {f"uid-of-demo-{index}": at(index - 9) for index in range(8)}
    assert len(events.requests) == 1
    served = [short(f"demo-{index}", existing=2) for index in range(9)]
    assert (await bench.look(6, *served)).pods_refused_at == {}
    again = await bench.look(7, *many)
    assert again.pods_refused_at == {}, "a new shortage starts a new delay"


async def test_deleted_sets_are_forgotten() -> None:
    bench = Bench(Events(event()))
    await ask(bench, 0)
    bench.shortages.forget("default", "demo")
    bench.shortages.forget("default", "other")
    assert await ask(bench, 9) == ([], 5)


async def test_passes_do_not_wait_for_events() -> None:
    """The Events of a namespace with forty sets never arrive: no pass of any namespace waits for them."""
    events = Events(event())
    events.answers.clear()
    bench = Bench(events)
    for seconds in (0, 5, 6):
        for namespace, sets in (("crowded", 40), ("other", 1)):
            for number in range(sets):
                bench.seconds = seconds
                shortage = bench.shortages.of_set(namespace, f"demo-{number}", (short(),), at(seconds))
                assert shortage.rejections == ()
    await asyncio.sleep(0)
    assert [namespace for namespace, _ in events.requests] == ["crowded", "other"]
    events.answers.set()
    await bench.background.over()
    assert len(bench.background.woken) == 41
    messages = [f"StatefulSet demo is short of pods: {WORDS}"]
    shortage = bench.shortages.of_set("crowded", "demo-39", (short(),), at(7))
    assert [rejection.message for rejection in shortage.rejections] == messages


def a_job(name: str, created: float = 0, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": timestamp(at(created))}
    return {"kind": "Job", "metadata": metadata, "status": status}


async def test_events_of_jobs_without_pods_are_read() -> None:
    failed = [{"type": "Failed", "status": "True"}]
    jobs = [a_job("idle"), a_job("new", 4), a_job("busy", active=1), a_job("over", conditions=failed)]
    events = Events(*(event("no", about=job["metadata"]["name"]) for job in jobs))
    bench = Bench(events)
    ask = partial(bench.shortages.of_jobs, "default", "demo", jobs)
    assert ask(at(4)) == {}
    assert events.requests == []
    assert ask(at(5)) == {}
    await bench.background.over()
    assert bench.background.woken == [("default", "demo")]
    assert ask(at(6)) == {"uid-of-idle": "no"}


async def test_a_set_that_waits_for_jobs_still_waits_for_its_statefulsets() -> None:
    bench = Bench(Events(event()))
    for seconds in (0, 5):
        bench.seconds = seconds
        bench.shortages.of_set("default", "demo", (short(),), at(seconds))
    assert bench.shortages.of_jobs("default", "demo", [a_job("idle")], at(5)) == {}
    await bench.background.over()
    assert bench.background.woken == [("default", "demo")]
