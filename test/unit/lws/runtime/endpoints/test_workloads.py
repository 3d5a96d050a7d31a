"""Series of workloads: updated by passes, counted per write, and removed with their object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lws.runtime.actions import ROLLING, Figures, Key, Tally
from lws.runtime.endpoints.workloads import (
    LAST_START,
    ROLLOUT_START,
    Workloads,
    WorkloadSeries,
    series_of_rollouts,
)

SERIES = (
    WorkloadSeries("Fleet", "ready", "fleet_ready", "Ships."),
    WorkloadSeries("Fleet", "state", "fleet_ships", "Ships.", "state", ("Afloat", "Sunk")),
    WorkloadSeries("Fleet", "crew", "fleet_crew", "Crew.", "ship"),
    WorkloadSeries("Fleet", "late", "fleet_late", "Late."),
    WorkloadSeries("Fleet", "late", "fleet_late_total", "Late."),
    WorkloadSeries("Fleet", "lost", "fleet_lost_total", "Lost.", "reason", ("Storm", "Reef")),
    WorkloadSeries("Fleet", LAST_START, "fleet_last_start", "Seconds."),
    *series_of_rollouts("Fleet", "stalled"),
)
ONE, TWO, PART = Key("fleet", "ns", "one"), Key("fleet", "ns", "two"), Key("ship", "ns", "one-0")
EPOCH = 1_767_225_600.0
CREATED = "2026-01-01T00:00:00Z"


class Bench:
    """Series of Fleets, and a clock in seconds since `CREATED`."""

    def __init__(self, is_each_shown: bool = True) -> None:
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.workloads = Workloads(self.registry, is_each_shown, lambda: EPOCH + self.now)
        self.workloads.serve(SERIES)

    def find(self, key: Key = ONE, /, **more: Any) -> None:
        """Run a pass over a Fleet."""
        numbers: Mapping[tuple[str, str], float] = more.pop("numbers", {})
        self.workloads.observe(key, Figures("Fleet", key.name, numbers, **more))

    def roll(self, **more: Any) -> None:
        """Run a pass over a Fleet in a rollout."""
        self.find(numbers={(ROLLING, ""): 1}, **more)

    def value(self, name: str, fleet: str = "one", **labels: str) -> float | None:
        sample = self.registry.get_sample_value(name, {"namespace": "ns", "fleet": fleet, **labels})
        return sample

    def total(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def names(self) -> list[tuple[str, dict[str, str]]]:
        """Return the samples of single workloads."""
        samples = [sample for family in self.registry.collect() for sample in family.samples]
        return [(sample.name, sample.labels) for sample in samples if "fleet" in sample.labels]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_gauges_show_the_last_pass(bench: Bench) -> None:
    bench.find(numbers={("ready", ""): 3})
    assert bench.value("fleet_ready") == 3
    bench.find(numbers={("ready", ""): 2})
    assert bench.value("fleet_ready") == 2
    assert bench.value("fleet_ready", "two") is None


def test_series_of_all_label_values_exist_from_the_start(bench: Bench) -> None:
    bench.find(numbers={("state", "Sunk"): 1, ("crew", "mary"): 7})
    assert [bench.value("fleet_ships", state=state) for state in ("Afloat", "Sunk")] == [0, 1]
    assert [bench.value("fleet_lost_total", reason=reason) for reason in ("Storm", "Reef")] == [0, 0]
    assert (bench.value("fleet_crew", ship="mary"), bench.value("fleet_ready")) == (7, 0)


def test_writes_are_counted_per_workload(bench: Bench) -> None:
    bench.find()
    bench.find(TWO)
    bench.workloads.count("ns", [Tally("Fleet", "one", "lost", "Reef")] * 2)
    assert bench.value("fleet_lost_total", reason="Reef") == 2
    assert bench.value("fleet_lost_total", "two", reason="Reef") == 0


def test_writes_before_the_first_pass_are_counted(bench: Bench) -> None:
    bench.workloads.count("ns", [Tally("Fleet", "one", "lost", "Reef")])
    assert bench.names() == []
    bench.find()
    assert bench.value("fleet_lost_total", reason="Reef") == 1


def test_states_are_summed_and_their_starts_counted(bench: Bench) -> None:
    bench.find()
    late = Figures("Fleet", "one", {("late", ""): 1})
    for key in (PART, PART, Key("ship", "ns", "one-1")):
        bench.workloads.observe(key, late)
    assert (bench.value("fleet_late"), bench.value("fleet_late_total")) == (2, 2)
    bench.workloads.observe(PART, None)
    assert (bench.value("fleet_late"), bench.value("fleet_late_total")) == (1, 2)
    bench.workloads.observe(PART, late)
    bench.workloads.gone(PART)
    assert (bench.value("fleet_late"), bench.value("fleet_late_total")) == (1, 3)


def test_series_of_deleted_workloads_are_removed(bench: Bench) -> None:
    for key in (ONE, TWO):
        bench.find(key, numbers={("ready", ""): 3, ("crew", "mary"): 7})
    bench.workloads.observe(PART, Figures("Fleet", "one", {("late", ""): 1}))
    bench.workloads.count("ns", [Tally("Fleet", "one", "lost", "Reef")])
    bench.workloads.gone(ONE)
    assert {labels["fleet"] for _, labels in bench.names()} == {"two"}
    bench.workloads.gone(PART)
    bench.workloads.gone(TWO)
    assert bench.names() == [] and not bench.workloads._records and not bench.workloads._owner_of


def test_series_of_workloads_of_another_leader_are_removed(bench: Bench) -> None:
    bench.find()
    bench.workloads.observe(PART, Figures("Fleet", "one", {("late", ""): 1}))
    bench.workloads.forget(lambda namespace: namespace == "elsewhere")
    assert bench.value("fleet_late") == 1
    bench.workloads.forget(lambda namespace: namespace == "ns")
    assert bench.names() == []
    bench.workloads.observe(PART, None)
    bench.workloads.gone(PART)


LOST = Tally("Fleet", "one", "lost", "Storm")
LATE = Figures("Fleet", "one", {("late", ""): 1})


def test_late_reports_of_deleted_workloads_add_no_series(bench: Bench) -> None:
    bench.find()
    bench.workloads.gone(ONE)
    bench.workloads.count("ns", [LOST])
    bench.workloads.observe(PART, LATE)
    assert bench.names() == []
    assert not bench.workloads._records and not bench.workloads._owner_of
    # The next Fleet of that name begins at 0.
    bench.find()
    assert (bench.value("fleet_lost_total", reason="Storm"), bench.value("fleet_late_total")) == (0, 0)
    bench.workloads.observe(PART, LATE)
    bench.workloads.count("ns", [LOST])
    assert (bench.value("fleet_lost_total", reason="Storm"), bench.value("fleet_late_total")) == (1, 1)


def test_few_deleted_workloads_are_remembered(bench: Bench) -> None:
    for number in range(3_000):
        key = Key("fleet", "ns", f"fleet-{number}")
        bench.find(key)
        bench.workloads.gone(key)
    assert len(bench.workloads._lately_deleted) == 1_000


def test_late_reports_are_in_the_sums(summed: Bench) -> None:
    summed.find()
    summed.workloads.gone(ONE)
    summed.workloads.count("ns", [LOST])
    summed.workloads.count_for_others([LOST])
    assert summed.total("fleet_lost_total", namespace="", fleet="", reason="Storm") == 2


def test_a_state_found_by_another_engine_is_not_counted_again(summed: Bench) -> None:
    late = {"namespace": "", "fleet": ""}
    summed.find()
    summed.workloads.observe(PART, LATE)
    for _ in range(2):
        summed.workloads.forget(lambda namespace: True)
        summed.find()
        summed.workloads.observe(PART, LATE)
        assert summed.total("fleet_late_total", **late) == 1
    summed.workloads.observe(PART, None)
    summed.workloads.observe(PART, LATE)
    assert summed.total("fleet_late_total", **late) == 2


def test_a_pass_without_changes_keeps_the_series(bench: Bench) -> None:
    bench.find(numbers={("ready", ""): 3})
    bench.workloads.observe(ONE, None)
    assert bench.value("fleet_ready") == 3


def test_changes_of_the_revision_are_counted(bench: Bench) -> None:
    for revision in ("", "a", "a", "b", "", "a"):
        bench.find(revision=revision)
    assert bench.value("lws_fleet_revision_changes_total") == 2, (
        "a to b and b to a; an empty value is no revision"
    )


def test_a_rollout_is_measured_from_its_start(bench: Bench) -> None:
    bench.now = 400.0
    bench.roll(rolling_since=CREATED)
    assert bench.value("lws_fleet_rollout_start_timestamp_seconds") == EPOCH
    assert bench.value("lws_fleet_rollout_in_progress") == 1
    bench.now = 500.0
    bench.find(numbers={(ROLLING, ""): 0})
    assert bench.value("lws_fleet_rollout_start_timestamp_seconds") is None
    assert bench.total("lws_rollout_duration_seconds_sum", kind="Fleet") == 500
    bench.find(numbers={(ROLLING, ""): 0})
    assert bench.total("lws_rollout_duration_seconds_count", kind="Fleet") == 1


def test_a_rollout_without_a_start_time_is_measured_from_the_first_pass(bench: Bench) -> None:
    for bench.now in (100.0, 200.0):
        bench.roll()
    assert bench.value("lws_fleet_rollout_start_timestamp_seconds") == EPOCH + 100
    bench.now = 300.0
    bench.find()
    assert bench.total("lws_rollout_duration_seconds_sum", kind="Fleet") == 200


def test_the_first_start_of_each_group_is_measured_once(bench: Bench) -> None:
    bench.find()
    for bench.now, created in ((10.0, ""), (20.0, CREATED), (30.0, ""), (40.0, CREATED)):
        bench.find(groups={"u-1": created})
    assert bench.total("lws_group_start_duration_seconds_sum") == 20
    assert bench.total("lws_group_start_duration_seconds_count") == 1
    assert bench.value("fleet_last_start") == 20
    bench.now = 50.0
    bench.find(groups={"u-2": "2026-01-01T00:00:45Z"})
    assert bench.value("fleet_last_start") == 5


def test_groups_that_existed_before_are_not_measured(bench: Bench) -> None:
    bench.now = 9_000.0
    for created in ("", CREATED):
        bench.find(groups={"u-1": created})
    assert bench.total("lws_group_start_duration_seconds_count") == 0
    assert bench.value("fleet_last_start") is None


@pytest.fixture
def summed() -> Bench:
    bench = Bench(is_each_shown=False)
    for key in (ONE, TWO):
        numbers = {("ready", ""): 3, ("state", "Sunk"): 1, ("crew", key.name): 7, (ROLLING, ""): 1}
        bench.find(key, numbers=numbers)
        bench.workloads.count("ns", [Tally("Fleet", key.name, "lost", "Reef")])
    return bench


def test_counter_sums_never_decrease(summed: Bench) -> None:
    lost = {"namespace": "", "fleet": "", "reason": "Reef"}
    summed.workloads.gone(TWO)
    assert summed.total("fleet_lost_total", **lost) == 2
    summed.workloads.forget(lambda namespace: True)
    assert summed.total("fleet_lost_total", **lost) == 2
    assert summed.total("fleet_ready", namespace="", fleet="") == 0


def test_the_number_of_sum_series_is_constant(summed: Bench) -> None:
    nothing = {"namespace": "", "fleet": ""}
    assert summed.total("fleet_ready", **nothing) == 6
    assert summed.total("fleet_crew", **nothing, ship="") == 14
    assert summed.total("fleet_ships", **nothing, state="Sunk") == 2
    assert summed.total("fleet_lost_total", **nothing, reason="Reef") == 2
    assert summed.total("lws_fleet_rollout_in_progress", **nothing) == 2
    before = summed.names()
    summed.workloads.forget(lambda namespace: True)
    assert summed.names() == before and summed.total("fleet_ready", **nothing) == 0


def test_series_without_a_sum_are_absent(summed: Bench) -> None:
    words = {series.series for series in SERIES if series.word in (ROLLOUT_START, LAST_START)}
    assert len(words) == 2 and words.isdisjoint(name for name, _ in summed.names())
