"""lws.runtime.loop: the calls of one pass, and what it reports to the queue."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from lws.runtime.actions import Announce, Create, Figures, Key, Plan, Reference, Tally
from lws.runtime.apply import Outcome
from lws.runtime.endpoints import pass_log
from lws.runtime.endpoints.metrics import KeyState, Metrics
from lws.runtime.endpoints.workloads import WorkloadSeries
from lws.runtime.errors import (
    ApiError,
    ClusterError,
    Conflict,
    Forbidden,
    NotLeading,
    Throttled,
    Unreachable,
    api_error,
)
from lws.runtime.leadership.election import everywhere
from lws.runtime.loop import Kind, Loop, Term, Terms
from lws.runtime.queue import Again

KEY = Key("set", "ns", "demo")
SET = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "ns", "demo", "u-1")
TOLD = (Announce(SET, "Reason", "Action", "note"),)
CREATE = Create({"kind": "Service", "metadata": {"name": "a"}}, why="because")


def wall_time() -> datetime:
    return datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class _Bench:
    """Stand-ins for observe, plan and apply; exceptions given as results are raised."""

    snapshot: Any = "the snapshot"
    plan: Any = field(default_factory=Plan)
    due: Plan | None = None
    errors: list[ClusterError] = field(default_factory=list)
    overtaken: bool = False
    observed: list[tuple[str, str, datetime]] = field(default_factory=list)
    planned: list[Any] = field(default_factory=list)
    carried_out: list[Plan] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    meanwhile: Callable[[], None] = lambda: None

    async def observe(self, namespace: str, name: str, now: datetime) -> Any:
        self.observed.append((namespace, name, now))
        self.meanwhile()
        if isinstance(self.snapshot, Exception):
            raise self.snapshot
        return self.snapshot

    def make_plan(self, snapshot: Any) -> Plan:
        self.planned.append(snapshot)
        if isinstance(self.plan, Exception):
            raise self.plan
        plan: Plan = self.plan
        return plan

    async def apply(self, plan: Plan) -> Outcome:
        self.carried_out.append(plan)
        forced = len(plan.sequences) if plan.stuck_pods else 0
        return Outcome(self.errors, forced, self.overtaken)

    async def work(self) -> Again:
        def due(plan: Plan) -> Plan:
            return self.due if self.due is not None else plan

        kinds = {"set": Kind(self.observe, self.make_plan, self.apply, "leaderworkerset", due)}
        return await Loop(lambda namespace: kinds, self.metrics, wall_time).work(KEY)

    def loop_of_sets(self) -> Loop:
        """Return a loop for passes over sets, which several passes can share."""
        kind = Kind(self.observe, self.make_plan, self.apply, "leaderworkerset")
        return Loop(lambda namespace: {"set": kind}, self.metrics, wall_time)

    def results(self) -> list[str]:
        """Return the results of passes as the metrics show them."""
        start = 'controller_runtime_reconcile_total{controller="leaderworkerset",result="'
        lines = self.metrics.text().decode().splitlines()
        values = [line.removeprefix(start) for line in lines if line.startswith(start)]
        return [line.partition('"')[0] for line in values if not line.endswith(" 0.0")]


@pytest.fixture
def bench() -> _Bench:
    return _Bench()


async def test_observe_plan_apply(bench: _Bench) -> None:
    bench.plan = Plan(sequences=((CREATE,),))
    assert await bench.work() == Again()
    assert bench.observed == [("ns", "demo", wall_time())]
    assert bench.planned == ["the snapshot"] and bench.carried_out == [bench.plan]
    assert bench.results() == ["success"]


async def test_no_snapshot(bench: _Bench) -> None:
    bench.snapshot = None
    again = await bench.work()
    assert again == Again()
    assert again.rest == 0.0, "the next leader of a group must not wait because of its predecessor"
    assert bench.planned == [] and bench.carried_out == [] and bench.results() == ["success"]


@pytest.mark.parametrize(
    ("plan", "is_carried_out"),
    [
        pytest.param(Plan(), False, id="empty"),
        pytest.param(Plan(sequences=((),)), False, id="empty-sequence"),
        pytest.param(Plan(announce=TOLD), True, id="only-a-word"),
        pytest.param(Plan(sequences=((CREATE,),)), True, id="actions"),
    ],
)
@pytest.mark.parametrize("after", [None, 30.0])
async def test_requeue_delay(bench: _Bench, plan: Plan, is_carried_out: bool, after: float | None) -> None:
    bench.plan = Plan(plan.sequences, plan.statuses, plan.announce, again_after=after)
    assert await bench.work() == Again(after=after)
    assert bool(bench.carried_out) is is_carried_out
    assert bench.results() == (["success"] if after is None else ["requeue_after"])


@pytest.mark.parametrize("after", [None, 30.0])
async def test_a_conflict_requeues_soon_without_an_error(
    bench: _Bench, caplog: pytest.LogCaptureFixture, after: float | None
) -> None:
    bench.plan, bench.overtaken = Plan(sequences=((CREATE,),), again_after=after), True
    assert await bench.work() == Again(after=1.0)
    assert bench.results() == ["requeue_after"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    bench.errors = [Unreachable("gone")]
    assert (await bench.work()).failed


async def test_waiting_reasons_are_logged(bench: _Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench.plan = Plan(waiting_for="the pods to be ready")
    await bench.work()
    assert "set ns/demo waits for the pods to be ready" in caplog.messages


def _terminating() -> ApiError:
    causes = [{"reason": "NamespaceTerminating"}]
    return api_error(403, {"reason": "Forbidden", "message": "m", "details": {"causes": causes}}, "m", None)


def _namespace_gone() -> ApiError:
    details = {"name": "ns", "kind": "namespaces"}
    return api_error(404, {"reason": "NotFound", "message": "m", "details": details}, "m", None)


RESTMAPPING = Forbidden(403, "Forbidden", "cannot find RESTMapping for LeaderWorkerSet")

FAILURES = [
    pytest.param([Unreachable("m")], Again(after=0.0, failed=True), ["m"], id="unreachable"),
    pytest.param([ApiError(500, "InternalError", "m")], Again(after=0.0, failed=True), ["m"], id="500"),
    pytest.param(
        [Throttled(429, "TooManyRequests", "m", 7.0)], Again(after=7.0, failed=True), ["m"], id="429"
    ),
    pytest.param([Conflict(409, "Conflict", "m")], Again(after=0.0, failed=True), ["m"], id="conflict"),
    pytest.param([NotLeading("m")], Again(), [], id="not-leading"),
    pytest.param([Unreachable("m"), NotLeading("n")], Again(), [], id="not-leading-any-more"),
    pytest.param([_terminating()], Again(after=60.0), [], id="namespace-terminating"),
    pytest.param([_terminating(), _terminating()], Again(after=60.0), [], id="namespace-terminating-for-all"),
    pytest.param(
        [_terminating(), Unreachable("n")],
        Again(after=0.0, failed=True),
        ["m", "n"],
        id="namespace-terminating-and-more",
    ),
    pytest.param(
        [_terminating(), Conflict(409, "Conflict", "no object of this UID")],
        Again(after=60.0),
        [],
        id="namespace-terminating-and-object-deleted",
    ),
    pytest.param([_namespace_gone()], Again(after=60.0), [], id="namespace-deleted"),
]


@pytest.mark.parametrize(("errors", "again", "messages"), FAILURES)
async def test_actions_that_fail(
    bench: _Bench,
    errors: list[ClusterError],
    again: Again,
    messages: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench.plan, bench.errors = Plan(sequences=((CREATE,),), again_after=99.0), errors
    assert await bench.work() == again
    assert caplog.messages == [f"set ns/demo: {message}" for message in messages]
    expected = "error" if again.failed else "requeue_after" if again.after is not None else "success"
    assert bench.results() == [expected]


async def test_an_unknown_kind_is_retried(bench: _Bench) -> None:
    bench.plan, bench.errors = Plan(sequences=((CREATE,),)), [RESTMAPPING]
    assert await bench.work() == Again(after=2.0)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        pytest.param(Unreachable("m"), Again(failed=True), id="unreachable"),
        pytest.param(Throttled(503, "ServiceUnavailable", "m", 3.0), Again(after=3.0, failed=True), id="503"),
        pytest.param(ApiError(500, "InternalError", "m"), Again(failed=True), id="500"),
        pytest.param(NotLeading("m"), Again(), id="not-leading"),
    ],
)
async def test_failed_observation(bench: _Bench, error: ClusterError, again: Again) -> None:
    bench.snapshot = error
    assert await bench.work() == again
    assert bench.planned == []


async def test_exceptions_are_not_hidden(bench: _Bench) -> None:
    bench.plan = KeyError("spec")
    with pytest.raises(KeyError):
        await bench.work()
    panics = 'controller_runtime_reconcile_panics_total{controller="leaderworkerset"} 1.0'
    assert bench.results() == ["error"] and panics in bench.metrics.text().decode()


async def test_durations_are_measured(bench: _Bench) -> None:
    await bench.work()
    assert (
        'controller_runtime_reconcile_time_seconds_count{controller="leaderworkerset"} 1.0'
        in bench.metrics.text().decode()
    )


@pytest.mark.parametrize(
    ("seconds", "rest"),
    [
        pytest.param(0.0001, 0.02, id="quick"),
        pytest.param(0.01, 0.5, id="slow"),
        pytest.param(1.0, 1.0, id="huge"),
    ],
)
async def test_the_delay_of_a_key_follows_the_duration_of_its_passes(
    bench: _Bench, seconds: float, rest: float
) -> None:
    moments = itertools.count()
    kinds = {"set": Kind(bench.observe, bench.make_plan, bench.apply, "leaderworkerset")}
    loop = Loop(lambda namespace: kinds, bench.metrics, wall_time, clock=lambda: next(moments) * seconds)
    assert (await loop.work(KEY)).rest == pytest.approx(rest)


async def test_set_passes_are_delayed_longer_with_many_sets(bench: _Bench) -> None:
    moment = 0.0

    def clock() -> float:
        nonlocal moment
        moment += 0.001
        return moment

    def kind(*, is_linear: bool) -> Kind:
        return Kind(bench.observe, bench.make_plan, bench.apply, "leaderworkerset", is_linear=is_linear)

    for is_linear in (False, True):
        kinds = {"set": kind(is_linear=is_linear)}
        loop = Loop(lambda namespace, kinds=kinds: kinds, bench.metrics, wall_time, clock)
        rests = [(await loop.work(Key("set", f"ns-{number}", "demo"))).rest for number in range(1000)]
        assert rests[0] == pytest.approx(0.05)
        assert (rests[-1] > 2 * rests[0]) is is_linear


async def test_pods_on_lost_nodes_are_counted_over_all_groups(bench: _Bench) -> None:
    def value_of(series: str) -> float:
        (line,) = [
            line for line in bench.metrics.text().decode().splitlines() if line.startswith(f"{series} ")
        ]
        return float(line.rpartition(" ")[2])

    loop = Loop(
        lambda namespace: {"group": Kind(bench.observe, bench.make_plan, bench.apply, "pod")},
        bench.metrics,
        wall_time,
    )
    first, second = Key("group", "ns", "demo-0"), Key("group", "ns", "demo-1")
    bench.plan = Plan(stuck_pods=2)
    await loop.work(first)
    bench.plan = Plan(sequences=((CREATE,),), stuck_pods=1)
    await loop.work(second)
    await loop.work(second)
    assert (value_of("lws_pods_held_by_lost_nodes"), value_of("lws_pods_deleted_by_force_total")) == (3, 2)
    bench.snapshot = None
    await loop.work(first)
    assert value_of("lws_pods_held_by_lost_nodes") == 1
    bench.snapshot = object()
    await loop.work(Key("group", "elsewhere", "demo-0"))
    loop.forget(lambda namespace: namespace == "ns")
    assert value_of("lws_pods_held_by_lost_nodes") == 1
    loop.forget(lambda namespace: True)
    assert value_of("lws_pods_held_by_lost_nodes") == 0


_READY = WorkloadSeries("Fleet", "ready", "fleet_ready", "Ships.")
_FIGURES = Figures("Fleet", KEY.name, {("ready", ""): 1})


async def test_a_pass_that_lost_its_lease_updates_no_gauge(bench: _Bench) -> None:
    metrics = bench.metrics
    loop = bench.loop_of_sets()
    metrics.workloads.serve((_READY,))
    bench.plan = Plan(stuck_pods=2, standing=frozenset({"Stalled"}), figures=_FIGURES)
    bench.meanwhile = lambda: loop.forget(lambda namespace: True)
    await loop.work(KEY)
    text = metrics.text().decode()
    assert "lws_pods_held_by_lost_nodes 0.0" in text
    assert "fleet_ready{" not in text


async def test_a_workload_that_is_left_alone_has_no_series(bench: _Bench) -> None:
    """Its last values would otherwise stay as long as this process runs."""
    metrics = bench.metrics
    loop = bench.loop_of_sets()
    metrics.workloads.serve((_READY,))
    for plan, is_shown in (
        (Plan(figures=_FIGURES), True),
        (Plan(is_left_alone=True), False),
        (Plan(figures=_FIGURES), True),
    ):
        bench.plan = plan
        await loop.work(KEY)
        assert ("fleet_ready{" in metrics.text().decode()) == is_shown


async def test_a_pass_updates_gauges_when_another_shard_is_lost(bench: _Bench) -> None:
    metrics = bench.metrics
    loop = bench.loop_of_sets()
    bench.plan = Plan(stuck_pods=2)
    bench.meanwhile = lambda: loop.forget(lambda namespace: namespace != KEY.namespace)
    await loop.work(KEY)
    assert "lws_pods_held_by_lost_nodes 2.0" in metrics.text().decode()


async def test_writes_after_losing_the_lease_are_counted_in_sums_only(bench: _Bench) -> None:
    bench.metrics = metrics = Metrics(is_each_set_shown=False)
    lost = WorkloadSeries("Fleet", "lost", "fleet_lost_total", "Lost.")
    metrics.workloads.serve((lost,))

    async def apply(plan: Plan) -> Outcome:
        loop.forget(lambda namespace: True)
        return Outcome([], tallies=[Tally("Fleet", "demo", "lost")])

    loop = Loop(
        lambda namespace: {"set": Kind(bench.observe, bench.make_plan, apply, "leaderworkerset")},
        metrics,
        wall_time,
    )
    bench.plan = Plan(sequences=((CREATE,),))
    await loop.work(KEY)
    assert 'fleet_lost_total{fleet="",namespace=""} 1.0' in metrics.text().decode()
    assert not metrics.workloads._records


async def test_keys_are_counted_by_state(bench: _Bench) -> None:
    def fleet_lines() -> list[str]:
        lines = bench.metrics.text().decode().splitlines()
        return [line for line in lines if line.startswith("fleets_")]

    words = ("Late", "Lost")
    bench.metrics.count(KeyState("fleet", word, f"fleets_{word.lower()}", word) for word in words)
    kinds = {"fleet": Kind(bench.observe, bench.make_plan, bench.apply, "fleet")}
    loop = Loop(lambda namespace: kinds, bench.metrics, wall_time)
    first, second = Key("fleet", "ns", "one"), Key("fleet", "elsewhere", "two")
    bench.plan = Plan(standing=frozenset({"Late"}))
    for key in (first, first, second):
        await loop.work(key)
    assert fleet_lines() == ["fleets_late 2.0", "fleets_lost 0.0"]
    bench.plan = Plan(sequences=((CREATE,),), standing=frozenset({"Lost"}))
    await loop.work(first)
    assert fleet_lines() == ["fleets_late 1.0", "fleets_lost 1.0"]
    loop.forget(lambda namespace: namespace == "elsewhere")
    assert fleet_lines() == ["fleets_late 0.0", "fleets_lost 1.0"]
    bench.snapshot = None
    await loop.work(first)
    assert fleet_lines() == ["fleets_late 0.0", "fleets_lost 0.0"]


async def test_the_throttled_plan_is_applied(bench: _Bench) -> None:
    bench.plan, bench.due = Plan(sequences=((CREATE,),)), Plan(again_after=4.0)
    assert await bench.work() == Again(after=4.0)
    assert bench.carried_out == []


async def test_debug_lines_of_a_pass_identify_it(bench: _Bench, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[dict[str, Any]] = []
    caplog.set_level(logging.DEBUG, "lws.runtime.loop")
    caplog.handler.addFilter(lambda record: seen.append(dict(pass_log.fields())) or True)
    bench.plan = Plan(sequences=((CREATE,),), waiting_for="group 1 to be ready")
    kind = Kind(
        bench.observe,
        bench.make_plan,
        bench.apply,
        "leaderworkerset",
        fields=lambda snapshot: {"revision": "abc"},
    )
    loop = Loop(lambda namespace: {"set": kind}, bench.metrics, wall_time)
    await loop.work(KEY)
    await loop.work(KEY)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:3] == ["pass begins", "planned 1 writes", "set ns/demo waits for group 1 to be ready"]
    assert lines[3].startswith("pass ended after ") and lines[3].endswith(
        ": next pass when something changes"
    )
    first, second = seen[:4], seen[4:]
    assert {line["pass"] for line in first} == {first[0]["pass"]} != {line["pass"] for line in second}
    assert first[0] == {
        "pass": first[0]["pass"],
        "controller": "leaderworkerset",
        "namespace": "ns",
        "name": "demo",
    }
    assert first[3]["revision"] == "abc"
    assert pass_log.fields() == {}


async def test_passes_are_logged_only_at_debug_level(bench: _Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lws.runtime.loop")

    def never(snapshot: Any) -> pass_log.Fields:
        raise AssertionError("it costs time")

    kind = Kind(bench.observe, bench.make_plan, bench.apply, "leaderworkerset", fields=never)
    assert await Loop(lambda namespace: {"set": kind}, bench.metrics, wall_time).work(KEY) == Again()


async def test_a_failing_debug_log_does_not_affect_the_pass(
    bench: _Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(snapshot: Any) -> pass_log.Fields:
        raise KeyError("spec")

    bench.plan = Plan(sequences=((CREATE,),), again_after=4.0)
    kind = Kind(bench.observe, bench.make_plan, bench.apply, "leaderworkerset", fields=broken)
    for level in (logging.INFO, logging.DEBUG):
        caplog.set_level(level, "lws.runtime.loop")
        assert await Loop(lambda namespace: {"set": kind}, bench.metrics, wall_time).work(KEY) == Again(
            after=4.0
        )
    assert bench.carried_out == [bench.plan] * 2
    assert "cannot compute the fields of this pass" in caplog.text


def test_a_pass_of_a_former_term_does_not_write_in_the_next_one() -> None:
    """Another manager may have been active in between. Within its own term, a pass runs to its end."""
    may_write: list[Callable[[str], bool]] = []
    leads = [True]

    def begin(permission: Callable[[str], bool]) -> Term:
        may_write.append(permission)
        return Term({})

    terms = Terms(begin, lambda namespace: leads[0])
    terms.begin(everywhere)
    terms.end(everywhere)
    assert may_write[0]("ns"), "the Lease is still held and about to be released"
    leads[0] = False
    assert not may_write[0]("ns")
    leads[0] = True
    terms.begin(everywhere)
    assert (may_write[0]("ns"), may_write[1]("ns")) == (False, True)


def test_deleted_objects_are_forgotten() -> None:
    forgotten: list[Any] = []
    terms = Terms(lambda asks: Term({}, forget=(forgotten.append, forgotten.append)), lambda namespace: True)
    obj = {"kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}}
    terms.forget(obj)
    terms.begin(lambda namespace: namespace == "ns")
    terms.forget(obj)
    terms.forget({"kind": "Pod", "metadata": {"name": "a", "namespace": "elsewhere"}})
    assert forgotten == [obj, obj]


async def test_no_pass_without_the_lease(bench: _Bench) -> None:
    assert await Loop(lambda namespace: {}, bench.metrics, wall_time).work(KEY) == Again()
    assert bench.results() == []
