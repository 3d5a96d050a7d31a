"""Series of the queue, with upstream's names for its work queues."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from lws.runtime.actions import Key
from lws.runtime.endpoints.metrics import QueueSeries
from test.unit.lws.runtime.endpoints.samples import value_of

SET, GROUP, OTHER = Key("set", "ns", "demo"), Key("group", "ns", "demo-0"), Key("group", "ns", "demo-1")


class Bench:
    """The series and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.registry = CollectorRegistry()
        self.queue = QueueSeries(self.registry, lambda: self.now)
        self.queue.serve({"set": "leaderworkerset", "group": "pod"})

    def value(self, name: str, controller: str = "pod", **labels: str) -> float:
        return value_of(self.registry, f"workqueue_{name}", name=controller, controller=controller, **labels)

    def depth(self, controller: str = "pod") -> float:
        return self.value("depth", controller, priority="")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_everything_starts_at_zero(bench: Bench) -> None:
    for controller in ("leaderworkerset", "pod"):
        assert bench.depth(controller) == 0
        for name in ("adds_total", "retries_total", "queue_duration_seconds_count"):
            assert bench.value(name, controller) == 0
        for name in ("work_duration_seconds_count", "unfinished_work_seconds"):
            assert bench.value(name, controller) == 0
        assert bench.value("longest_running_processor_seconds", controller) == 0


def test_a_pass_waits_runs_and_ends(bench: Bench) -> None:
    bench.queue.due(GROUP)
    assert (bench.depth(), bench.depth("leaderworkerset"), bench.value("adds_total")) == (1, 0, 1)
    bench.now += 2
    bench.queue.begun(GROUP)
    assert (bench.depth(), bench.value("queue_duration_seconds_sum")) == (0, 2)
    bench.now += 3
    assert bench.value("unfinished_work_seconds") == 3
    bench.queue.ended(GROUP)
    assert bench.value("work_duration_seconds_sum") == 3
    assert (bench.value("unfinished_work_seconds"), bench.value("work_duration_seconds_count")) == (0, 1)


def test_concurrent_passes(bench: Bench) -> None:
    bench.queue.due(GROUP)
    bench.queue.begun(GROUP)
    bench.now += 5
    bench.queue.due(OTHER)
    bench.queue.begun(OTHER)
    bench.now += 1
    assert bench.value("unfinished_work_seconds") == 7
    assert bench.value("longest_running_processor_seconds") == 6


def test_dropped_keys_are_not_measured(bench: Bench) -> None:
    bench.queue.due(SET)
    bench.queue.dropped(SET)
    assert bench.depth("leaderworkerset") == 0
    assert bench.value("work_duration_seconds_count", "leaderworkerset") == 0


def test_retries(bench: Bench) -> None:
    bench.queue.retried(SET)
    assert (bench.value("retries_total", "leaderworkerset"), bench.value("retries_total")) == (1, 0)


def test_counters_continue_in_a_new_engine(bench: Bench) -> None:
    bench.queue.due(GROUP)
    bench.queue.serve({"set": "leaderworkerset", "group": "pod", "fleet": "fleet"})
    assert (bench.depth(), bench.value("adds_total"), bench.depth("fleet")) == (1, 1, 0)
