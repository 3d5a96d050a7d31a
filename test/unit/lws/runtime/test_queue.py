"""The queue in fake time: when passes run, which never run, and which keys are dropped."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from lws.runtime.queue import Again, OnePerIteration, Queue
from lws.timing import AT_ONCE
from test.unit.fake_time import in_fake_time, now

WINDOW = 0.3

Outcome = Callable[[Hashable], Again]


@dataclass
class _Work:
    """Passes with a given duration and given results."""

    duration: float = 0.0
    outcome: Outcome = lambda key: Again()
    began: list[tuple[Hashable, float]] = field(default_factory=list)
    running: Counter[Hashable] = field(default_factory=Counter)
    most: int = 0
    epoch: float = field(default_factory=now)

    async def __call__(self, key: Hashable) -> Again:
        self.began.append((key, round(now() - self.epoch, 6)))
        self.running[key] += 1
        assert self.running[key] == 1, "two passes of one key"
        self.most = max(self.most, self.running.total())
        try:
            await asyncio.sleep(self.duration)
            return self.outcome(key)
        finally:
            self.running[key] -= 1

    def moments(self, key: Hashable = "a") -> list[float]:
        """Return when passes over a key began."""
        return [moment for of, moment in self.began if of == key]


@dataclass
class _Meter:
    """What the queue reports: the keys that are due, the keys that run, and other calls in order."""

    waiting: set[Hashable] = field(default_factory=set)
    running: set[Hashable] = field(default_factory=set)
    words: list[tuple[str, Hashable]] = field(default_factory=list)

    def due(self, key: Hashable) -> None:
        assert key not in self.waiting | self.running
        self.waiting.add(key)
        self.words.append(("due", key))

    def dropped(self, key: Hashable) -> None:
        self.waiting.remove(key)
        self.words.append(("dropped", key))

    def begun(self, key: Hashable) -> None:
        self.waiting.remove(key)
        self.running.add(key)
        self.words.append(("begun", key))

    def ended(self, key: Hashable) -> None:
        self.running.remove(key)
        self.words.append(("ended", key))

    def retried(self, key: Hashable) -> None:
        self.words.append(("retried", key))


@dataclass
class _Bench:
    work: _Work
    meter: _Meter = field(default_factory=_Meter)
    queue: Queue = field(init=False)

    def start(self, concurrency: int) -> None:
        self.queue = Queue(self.work, WINDOW, concurrency, self.meter)
        self.queue.open()

    async def at(self, moment: float) -> None:
        """Wait until `moment`."""
        await asyncio.sleep(self.work.epoch + moment - now())

    @property
    def is_empty(self) -> bool:
        """Report whether the queue keeps nothing about any key."""
        return not self.queue._entries and not self.queue._rested and not self.queue._tasks


@asynccontextmanager
async def _bench(
    duration: float = 0.0, outcome: Outcome | None = None, concurrency: int = 8
) -> AsyncIterator[_Bench]:
    bench = _Bench(_Work(duration, outcome or (lambda key: Again())))
    bench.start(concurrency)
    yield bench
    await bench.queue.drain()
    assert bench.is_empty and not bench.meter.waiting and not bench.meter.running


@in_fake_time
async def test_the_first_event_starts_a_pass_at_once() -> None:
    async with _bench() as bench:
        bench.queue.add("a")
        await bench.at(5.0)
        assert bench.work.moments() == [0.0]


@in_fake_time
async def test_events_that_follow_within_the_window_are_one_pass_at_its_end() -> None:
    async with _bench(duration=0.01) as bench:
        for moment in (0.0, 0.05, 0.1, 0.15, 0.2, 0.29):
            await bench.at(moment)
            bench.queue.add("a")
        await bench.at(5.0)
        assert bench.work.moments() == [0.0, WINDOW]


@in_fake_time
async def test_an_urgent_event_skips_the_delay() -> None:
    async with _bench(duration=0.01) as bench:
        bench.queue.add("a")
        await bench.at(0.05)
        bench.queue.add("a")
        await bench.at(0.1)
        bench.queue.add("a", AT_ONCE)
        await bench.at(5.0)
        assert bench.work.moments() == [0.0, 0.1], "the delayed event is included"


@in_fake_time
async def test_an_urgent_event_during_a_pass_follows_it() -> None:
    async with _bench(duration=0.01) as bench:
        bench.queue.add("a")
        await bench.at(0.005)
        bench.queue.add("a", AT_ONCE)
        bench.queue.add("a")
        await bench.at(5.0)
        assert bench.work.moments() == [0.0, 0.01]


@in_fake_time
async def test_the_delay_counts_from_the_urgent_pass() -> None:
    async with _bench() as bench:
        bench.queue.add("a")
        await bench.at(0.2)
        bench.queue.add("a", AT_ONCE)
        await bench.at(0.35)
        bench.queue.add("a")
        await bench.at(5.0)
        assert bench.work.moments() == [0.0, 0.2, 0.5]


@in_fake_time
async def test_urgent_events_do_not_shorten_a_backoff() -> None:
    async with _bench(outcome=lambda key: Again(failed=True)) as bench:
        bench.queue.add("a")
        await bench.at(0.01)
        bench.queue.add("a", AT_ONCE)
        await bench.at(0.03)
        assert bench.work.moments() == [0.0]
        bench.queue.drop()


@in_fake_time
async def test_many_events_cause_one_pass_per_window() -> None:
    async with _bench(duration=0.01) as bench:
        for step in range(1000):
            await bench.at(step / 100)
            bench.queue.add("a")
        await bench.at(20.0)
        moments = bench.work.moments()
        assert len(moments) == 35 and all(
            later - sooner >= WINDOW - 1e-6 for sooner, later in pairwise(moments)
        )


@in_fake_time
async def test_the_window_begins_with_the_pass_not_with_its_end() -> None:
    async with _bench(duration=0.2) as bench:
        bench.queue.add("a")
        await bench.at(0.25)
        bench.queue.add("a")
        await bench.at(5.0)
        assert bench.work.moments() == [0.0, WINDOW]


@in_fake_time
async def test_a_quiet_key_starts_at_once_again() -> None:
    async with _bench() as bench:
        for moment in (0.0, 0.31, 10.0):
            await bench.at(moment)
            bench.queue.add("a")
        await bench.at(20.0)
        assert bench.work.moments() == [0.0, 0.31, 10.0]


@in_fake_time
async def test_a_key_that_is_added_during_its_pass_runs_again() -> None:
    async with _bench(duration=1.0) as bench:
        bench.queue.add("a")
        for moment in (0.1, 0.5, 0.9):
            await bench.at(moment)
            bench.queue.add("a")
        await bench.at(10.0)
        assert bench.work.moments() == [0.0, 1.0]


@in_fake_time
async def test_a_pass_that_adds_its_own_key_runs_again() -> None:
    async with _bench() as bench:

        def add_once(key: Hashable) -> Again:
            if len(bench.work.began) == 1:
                bench.queue.add(key)
            return Again()

        bench.work.outcome = add_once
        bench.queue.add("a")
        await bench.at(10.0)
        assert bench.work.moments() == [0.0, WINDOW]


@in_fake_time
async def test_keys_do_not_wait_for_each_other() -> None:
    async with _bench(duration=1.0) as bench:
        for key in "abc":
            bench.queue.add(key)
        await bench.at(10.0)
        assert bench.work.began == [("a", 0.0), ("b", 0.0), ("c", 0.0)]


@in_fake_time
async def test_the_number_of_concurrent_passes_is_limited_and_fifo() -> None:
    async with _bench(duration=1.0, concurrency=2) as bench:
        for key in range(6):
            bench.queue.add(key)
        await bench.at(10.0)
        assert bench.work.most == 2
        assert bench.work.began == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0)]


@in_fake_time
async def test_events_while_a_key_waits_for_a_slot_cause_no_second_pass() -> None:
    async with _bench(duration=1.0, concurrency=1) as bench:
        bench.queue.add("a")
        bench.queue.add("b")
        for moment in (0.2, 0.4, 0.6):
            await bench.at(moment)
            bench.queue.add("b")
        await bench.at(10.0)
        assert bench.work.began == [("a", 0.0), ("b", 1.0)]


@pytest.mark.parametrize(
    ("after", "event_at", "moments"),
    [
        pytest.param(5.0, None, [0.0, 5.0], id="nothing-happens"),
        pytest.param(5.0, 2.0, [0.0, 2.0], id="event-before-the-requeue"),
        pytest.param(5.0, 0.1, [0.0, WINDOW], id="event-in-the-window-before-the-requeue"),
        pytest.param(0.2, 0.1, [0.0, 0.2], id="event-does-not-delay-the-requeue"),
        pytest.param(0.0, None, [0.0, 0.0], id="at-once"),
    ],
)
@in_fake_time
async def test_requeue_after(after: float, event_at: float | None, moments: list[float]) -> None:
    async with _bench() as bench:
        bench.work.outcome = lambda key: Again(after=after if len(bench.work.began) == 1 else None)
        bench.queue.add("a")
        if event_at is not None:
            await bench.at(event_at)
            bench.queue.add("a")
        await bench.at(30.0)
        assert bench.work.moments() == moments


@in_fake_time
async def test_an_event_during_a_pass_precedes_its_requeue() -> None:
    async with _bench(duration=0.1) as bench:
        bench.work.outcome = lambda key: Again(after=60.0 if len(bench.work.began) == 1 else None)
        bench.queue.add("a")
        await bench.at(0.05)
        bench.queue.add("a")
        await bench.at(30.0)
        assert bench.work.moments() == [0.0, WINDOW]


@in_fake_time
async def test_failures_back_off_exponentially_with_jitter_up_to_a_limit() -> None:
    async with _bench(outcome=lambda key: Again(failed=True)) as bench:
        bench.queue.add("a")
        await bench.at(300.0)
        delays = [later - sooner for sooner, later in pairwise(bench.work.moments())]
        assert len(delays) > 15
        for number, delay in enumerate(delays):
            expected = min(0.05 * 2**number, 30.0)
            assert 0.8 * expected <= delay + 1e-6 and delay - 1e-6 <= 1.2 * expected
        assert len({round(delay / min(0.05 * 2**number, 30.0), 6) for number, delay in enumerate(delays)}) > 5


@in_fake_time
async def test_backoffs_of_keys_that_fail_together_differ() -> None:
    async with _bench(outcome=lambda key: Again(failed=True), concurrency=100) as bench:
        for key in range(50):
            bench.queue.add(key)
        await bench.at(1.0)
        second = {bench.work.moments(key)[1] for key in range(50)}
        assert len(second) > 25


@in_fake_time
async def test_retry_after_extends_the_backoff() -> None:
    async with _bench() as bench:
        bench.work.outcome = lambda key: Again(after=20.0, failed=len(bench.work.began) == 1)
        bench.queue.add("a")
        await bench.at(30.0)
        assert bench.work.moments() == [0.0, 20.0]


@in_fake_time
async def test_events_do_not_shorten_a_backoff_and_are_not_lost() -> None:
    async with _bench() as bench:
        bench.work.outcome = lambda key: (
            Again(after=20.0, failed=True) if len(bench.work.began) == 1 else Again()
        )
        bench.queue.add("a")
        for moment in range(1, 20):
            await bench.at(float(moment))
            bench.queue.add("a")
        await bench.at(60.0)
        assert bench.work.moments() == [0.0, 20.0]


@in_fake_time
async def test_many_events_do_not_shorten_a_backoff() -> None:
    async with _bench(outcome=lambda key: Again(failed=True)) as bench:
        for step in range(6000):
            await bench.at(step / 100)
            bench.queue.add("a")
        delays = [later - sooner for sooner, later in pairwise(bench.work.moments())]
        assert len(delays) <= 12
        for number, delay in enumerate(delays):
            assert delay + 1e-6 >= 0.8 * min(0.05 * 2**number, 30.0)


@in_fake_time
async def test_an_event_during_a_failing_pass_waits_for_the_back_off() -> None:
    async with _bench(duration=0.1) as bench:
        bench.work.outcome = lambda key: Again(after=5.0, failed=len(bench.work.began) == 1)
        bench.queue.add("a")
        await bench.at(0.05)
        bench.queue.add("a")
        await bench.at(5.2)
        assert bench.work.moments() == [0.0, 5.1]


@in_fake_time
async def test_a_pass_that_succeeds_ends_the_back_off() -> None:
    async with _bench() as bench:
        bench.work.outcome = lambda key: Again(failed=len(bench.work.began) not in (6, 7))
        bench.queue.add("a")
        await bench.at(10.0)
        assert len(bench.work.began) == 6
        for _ in range(2):
            bench.queue.add("a")
            await asyncio.sleep(0.5)
        delays = [later - sooner for sooner, later in pairwise(bench.work.moments())]
        assert len(bench.work.began) >= 8 and 0.04 - 1e-6 <= delays[7] <= 0.06 + 1e-6


@in_fake_time
async def test_a_bug_in_a_pass_is_logged_and_backs_off(caplog: pytest.LogCaptureFixture) -> None:
    def stumble(key: Hashable) -> Again:
        raise KeyError("spec")

    async with _bench(outcome=stumble) as bench:
        bench.queue.add("a")
        await bench.at(1.0)
        assert 3 <= len(bench.work.began) <= 6
    [first, *_] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert first.getMessage() == "a pass over a failed; this is a bug" and first.exc_info


@in_fake_time
async def test_no_pass_before_the_queue_opens() -> None:
    work = _Work()
    queue = Queue(work, WINDOW, 8, _Meter())
    queue.add("a")
    queue.open()
    await asyncio.sleep(1.0)
    assert work.began == []


@in_fake_time
async def test_drop_removes_waiting_keys() -> None:
    outcome = {"soon": Again(after=1.0), "failed": Again(failed=True), "done": Again(), "window": Again()}
    async with _bench(outcome=lambda key: outcome[str(key)]) as bench:
        for key in outcome:
            bench.queue.add(key)
        await bench.at(0.01)
        bench.queue.add("window")
        bench.queue.drop()
        assert bench.is_empty and not bench.meter.waiting
        bench.queue.add("late")
        await bench.at(60.0)
        assert len(bench.work.began) == 4


@in_fake_time
async def test_keys_of_lost_shards_are_dropped() -> None:
    work, shards = _Work(duration=1.0, outcome=lambda key: Again(after=2.0)), {"mine", "runs", "lost"}
    queue = Queue(work, WINDOW, 8, _Meter(), shards.__contains__)
    queue.open()
    for key in ("mine", "runs", "not mine"):
        queue.add(key)
    await asyncio.sleep(0.5)
    assert queue.is_running(lambda key: key == "runs") and not queue.is_running(lambda key: key == "lost")
    queue.add("runs")
    shards.discard("runs")
    queue.drop_untaken()
    # The running pass ends, and no other follows.
    await asyncio.sleep(1.0)
    assert not queue.is_running(lambda key: key == "runs")
    queue.add("lost")
    await asyncio.sleep(2.0)
    shards.discard("lost")
    queue.drop_untaken()
    await asyncio.sleep(10.0)
    assert work.moments("runs") == [0.0] and work.moments("not mine") == [] and len(work.moments("lost")) == 1
    assert len(work.moments("mine")) > 3
    await queue.drain()


@in_fake_time
async def test_drop_lets_running_passes_finish_and_starts_none() -> None:
    async with _bench(duration=1.0, concurrency=1, outcome=lambda key: Again(after=0.1)) as bench:
        bench.queue.add("runs")
        bench.queue.add("waits for a slot")
        await bench.at(0.5)
        bench.queue.add("runs")
        bench.queue.drop()
        await bench.at(0.9)
        assert bench.work.running["runs"] == 1
        await bench.at(30.0)
        assert bench.work.began == [("runs", 0.0)] and bench.is_empty


@in_fake_time
async def test_a_queue_that_opens_again_still_runs_one_pass_per_key() -> None:
    """The Lease is lost and acquired again while a pass runs."""
    async with _bench(duration=1.0) as bench:
        bench.queue.add("a")
        await bench.at(0.2)
        bench.queue.drop()
        bench.queue.open()
        bench.queue.add("a")
        await bench.at(10.0)
        assert bench.work.moments() == [0.0, 1.0]


@in_fake_time
async def test_drain_waits_for_passes_that_run() -> None:
    async with _bench(duration=2.0, concurrency=2) as bench:
        for key in range(5):
            bench.queue.add(key)
        await bench.at(0.5)
        await bench.queue.drain()
        assert now() - bench.work.epoch == pytest.approx(2.0)
        assert len(bench.work.began) == 2 and bench.work.running.total() == 0
        bench.queue.add("late")
        await bench.at(5.0)
        assert len(bench.work.began) == 2


@in_fake_time
async def test_drain_of_an_idle_queue_returns_at_once() -> None:
    async with _bench() as bench:
        began = now()
        await bench.queue.drain()
        assert now() == began


@in_fake_time
async def test_the_meter_follows_each_key() -> None:
    async with _bench(duration=1.0, concurrency=1) as bench:
        for key in "abc":
            bench.queue.add(key)
        await bench.at(0.5)
        assert (bench.meter.running, bench.meter.waiting) == ({"a"}, {"b", "c"})
        await bench.at(1.5)
        assert (bench.meter.running, bench.meter.waiting) == ({"b"}, {"c"})
        bench.queue.drop()
        await bench.at(3.1)
        assert bench.meter.words[-2:] == [("ended", "b"), ("dropped", "c")]


@in_fake_time
async def test_the_meter_counts_retries() -> None:
    failing = iter((True, False))
    async with _bench(outcome=lambda key: Again(failed=next(failing))) as bench:
        bench.queue.add("a")
        await bench.at(60.0)
        once = [("due", "a"), ("begun", "a"), ("ended", "a")]
        assert bench.meter.words == [*once, ("retried", "a"), *once]


@in_fake_time
async def test_a_key_that_waits_for_its_time_is_not_due() -> None:
    async with _bench(outcome=lambda key: Again(after=30.0)) as bench:
        bench.queue.add("a")
        await bench.at(10.0)
        assert not bench.meter.waiting and not bench.meter.running


@in_fake_time
async def test_idle_keys_use_no_memory() -> None:
    async with _bench(duration=0.01) as bench:
        for key in range(100):
            bench.queue.add(key)
            bench.queue.add(key)
        await bench.at(1.0)
        assert len(bench.work.began) == 100 and bench.is_empty


@pytest.mark.parametrize("early", [0.0, 0.0009], ids=["exact", "early"])
@in_fake_time
async def test_timers_may_fire_a_little_early(early: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop counts in whole milliseconds."""
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda delay, *rest: call_later(max(0.0, delay - early), *rest))
    async with _bench() as bench:
        for key in range(20):
            bench.queue.add(key)
        await bench.at(2.0)
        assert bench.is_empty


@pytest.mark.parametrize("seed", range(10))
@in_fake_time
async def test_no_event_is_lost(seed: int) -> None:
    draw = random.Random(seed)

    def outcome(key: Hashable) -> Again:
        return draw.choice([Again(), Again(), Again(failed=True), Again(after=draw.uniform(0.0, 2.0))])

    async with _bench(outcome=outcome, concurrency=3) as bench:
        added: dict[Hashable, float] = {}
        for _ in range(300):
            bench.work.duration = draw.choice([0.0, 0.05, 0.5])
            key = draw.randrange(6)
            bench.queue.add(key, draw.choice([0.0, 0.0, 0.4]))
            added[key] = round(now() - bench.work.epoch, 6)
            await asyncio.sleep(draw.choice([0.0, 0.01, 0.2]))
        bench.work.outcome = lambda key: Again()
        await asyncio.sleep(100.0)
        assert bench.work.most <= 3
        assert all(bench.work.moments(key)[-1] >= moment for key, moment in added.items())
        assert bench.is_empty


@pytest.mark.parametrize(
    ("events", "moments"),
    [
        pytest.param([(0.0, 2.0)], [2.0], id="delayable"),
        pytest.param([(0.0, 2.0), (1.0, 2.0)], [2.0], id="two delayable events"),
        pytest.param([(0.0, 2.0), (1.0, 0.5)], [1.5], id="an urgent event follows"),
        pytest.param([(0.0, 2.0), (1.0, 0.0)], [1.0], id="an undelayable event first"),
        pytest.param([(0.0, 0.0), (0.05, 2.0)], [0.0, 2.05], id="during a pass"),
        pytest.param(
            [(0.0, 0.0), (0.05, 2.0), (0.06, 0.0)], [0.0, WINDOW], id="an urgent event during a pass"
        ),
        pytest.param([(0.0, 0.0), (0.2, 0.05)], [0.0, WINDOW], id="a delayed key"),
        pytest.param([(0.0, 0.0), (0.2, 2.0)], [0.0, 2.2], id="a shorter delay"),
    ],
)
@in_fake_time
async def test_delayable_events_are_delayed(events: list[tuple[float, float]], moments: list[float]) -> None:
    async with _bench(duration=0.1) as bench:
        for at, within in events:
            await bench.at(at)
            bench.queue.add("a", within)
        await bench.at(30.0)
        assert bench.work.moments() == moments


@in_fake_time
async def test_delayable_events_do_not_delay_a_due_pass() -> None:
    async with _bench(duration=0.1) as bench:
        bench.work.outcome = lambda key: Again(after=0.5 if len(bench.work.began) == 1 else None)
        bench.queue.add("a")
        await bench.at(0.05)
        bench.queue.add("a", 2.0)
        await bench.at(30.0)
        assert bench.work.moments() == [0.0, 0.6]


@pytest.mark.parametrize(("rest", "second"), [(0.1, 0.1), (0.8, 0.8), (0.0, 0.05)])
@in_fake_time
async def test_a_pass_sets_the_delay_of_its_key(rest: float, second: float) -> None:
    async with _bench(outcome=lambda key: Again(rest=rest)) as bench:
        bench.queue.add("a")
        await bench.at(0.05)
        bench.queue.add("a")
        await bench.at(5.0)
        assert bench.work.moments() == [0.0, second]


class _Iterations:
    """A counter of the event loop's iterations."""

    def __init__(self) -> None:
        self.count = 0
        self._next()

    def _next(self) -> None:
        self.count += 1
        self.next = asyncio.get_running_loop().call_soon(self._next)


async def test_one_pass_starts_per_iteration_in_fifo_order() -> None:
    turns, counter = OnePerIteration(), _Iterations()
    began: list[tuple[int, int]] = []

    async def work(number: int) -> None:
        await turns.turn()
        began.append((number, counter.count))

    await asyncio.gather(*map(work, range(20)))
    counter.next.cancel()
    assert [number for number, _ in began] == list(range(20))
    assert all(later - earlier == 1 for (_, earlier), (_, later) in pairwise(began)), began


async def test_a_cancelled_waiter_costs_no_iteration() -> None:
    turns, counter = OnePerIteration(), _Iterations()
    began: list[int] = []

    async def work() -> None:
        await turns.turn()
        began.append(counter.count)

    tasks = [asyncio.create_task(work()) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[1:4]:
        task.cancel()
    await asyncio.wait(tasks)
    counter.next.cancel()
    first, last = began
    assert last - first == 1


async def test_the_queue_continues_after_being_empty() -> None:
    turns, counter = OnePerIteration(), _Iterations()
    began: list[int] = []
    for _ in range(3):
        await asyncio.wait_for(turns.turn(), 5)
        began.append(counter.count)
    counter.next.cancel()
    assert all(later > earlier for earlier, later in pairwise(began)), began


@in_fake_time
async def test_keys_are_counted_by_state() -> None:
    def outcome(key: Hashable) -> Again:
        return Again(failed=True) if key == "bad" else Again(after=60.0)

    async with _bench(duration=1.0, outcome=outcome) as bench:
        bench.queue.add("good")
        bench.queue.add("bad")
        await asyncio.sleep(0.5)
        assert bench.queue.counts() == {"running": 2, "waiting": 0, "failing": 0, "resting": 0}
        # Just after both have ended, and before the back-off of the failed one is over.
        await asyncio.sleep(0.501)
        assert bench.queue.counts() == {"running": 0, "waiting": 2, "failing": 1, "resting": 0}
