"""Run one pass: observe, plan, apply. Passes of all kinds share this code."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lws import timing
from lws.runtime import costs
from lws.runtime.actions import Key, Object, Plan, Reference, Route
from lws.runtime.apply import Outcome
from lws.runtime.client.connection import MayWrite
from lws.runtime.endpoints import pass_log
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.errors import ApiError, ClusterError, NotLeading
from lws.runtime.leadership.election import Scope
from lws.runtime.queue import Again

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pass: its functions, and how metrics and logs present it.

    observe: a function from (namespace, name, now) to the snapshot; None if there is no object to reconcile.
    plan: a pure function from the snapshot to the plan. apply: a function that carries out a plan. label: the
    controller's name in metrics. due: a function that returns the part of a plan to carry out now; by
    default, all of it. fields: a function that returns the fields of a snapshot for each debug log line of
    its pass. is_linear: whether the cost of a pass grows with the number of groups. Passes of all such kinds
    share a part of a core (`lws.runtime.costs`). owner: a function that returns the workload of a snapshot,
    for which rejections by the API server are recorded.
    """

    observe: Callable[[str, str, datetime], Awaitable[Any]]
    plan: Callable[[Any], Plan]
    apply: Callable[[Plan], Awaitable[Outcome]]
    label: str
    due: Callable[[Plan], Plan] = lambda plan: plan
    fields: Callable[[Any], pass_log.Fields] = lambda snapshot: pass_log.NOTHING
    is_linear: bool = False
    owner: Callable[[Any], Object | None] = lambda snapshot: None

    def decide(self, snapshot: Any) -> Plan:
        """Return the part of the plan to carry out now, with the workload as its owner."""
        plan, owner = self.due(self.plan(snapshot)), self.owner(snapshot)
        return plan if owner is None or plan.is_empty else replace(plan, owner=Reference.to(owner))


@dataclass(frozen=True, slots=True)
class Term:
    """Passes and routes between gaining a Lease or shard and losing it, with everything that they record.

    A term is discarded as a whole, because other managers may act after it ends.

    passes: the passes by kind of key. routes: the routes by kind of the changed object. forget: functions
    that are called with each deleted object.
    """

    passes: Mapping[str, Kind]
    routes: Mapping[str, Route] = field(default_factory=dict)
    forget: tuple[Callable[[Object], None], ...] = ()


class Terms:
    """The current terms of this process.

    begin: a function that creates a term; the check that it receives fences the writes of the term.
    may_write: a check whether this process may write to a namespace.
    """

    def __init__(self, begin: Callable[[MayWrite], Term], may_write: MayWrite) -> None:
        self._make = begin
        self._may_write = may_write
        self._terms: dict[Scope, Term] = {}

    def begin(self, scope: Scope) -> None:
        """Begin a term for gained namespaces, with nothing recorded from an earlier term."""

        def may_write(namespace: str) -> bool:
            # A pass of an earlier term must not write now: another manager may have changed what it observed.
            return self._terms.get(scope, term) is term and self._may_write(namespace)

        term = self._terms[scope] = self._make(may_write)

    def end(self, scope: Scope) -> None:
        """End the term of lost namespaces. Running passes are not interrupted."""
        self._terms.pop(scope, None)

    def passes_over(self, namespace: str) -> Mapping[str, Kind]:
        """Return the passes by kind of key; empty if this process does not act on the namespace."""
        term = self._term_of(namespace)
        return term.passes if term is not None else {}

    def route_of(self, obj: Object) -> Route | None:
        """Return the route of a changed object; None if no pass of this process concerns it."""
        term = self._term_of(obj["metadata"].get("namespace", ""))
        return term.routes.get(obj["kind"]) if term is not None else None

    def forget(self, obj: Object) -> None:
        """Drop everything that was recorded about a deleted object."""
        term = self._term_of(obj["metadata"].get("namespace", ""))
        for forget in term.forget if term is not None else ():
            forget(obj)

    def _term_of(self, namespace: str) -> Term | None:
        return next((term for scope, term in self._terms.items() if scope(namespace)), None)


class Loop:
    """Runs the passes that are due. The queue calls `work`.

    passes_over: a function that returns the passes of a namespace. now: a function that returns the time of a
    pass. clock: a clock in seconds that measures how long passes take.
    """

    def __init__(
        self,
        passes_over: Callable[[str], Mapping[str, Kind]],
        metrics: Metrics,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._now = now
        self._clock = clock
        self._passes_over = passes_over
        self._metrics = metrics
        # By key, if its last plan had any.
        self._stuck_pods: dict[Key, int] = {}
        self._standing: dict[Key, frozenset[str]] = {}
        metrics.watch(lambda: sum(self._stuck_pods.values()), self._count_keys)
        # Keys with a running pass whose namespace has not been lost since the pass began.
        self._current: set[Key] = set()
        self._pass_load = costs.PassLoad()

    async def work(self, key: Key) -> Again:
        """Run a pass over a key, and return when the next one runs. Cluster errors are logged, not raised."""
        kind = self._passes_over(key.namespace).get(key.kind)
        if kind is None:
            return Again()
        if not log.isEnabledFor(logging.DEBUG):
            return await self._work(kind, key)
        about = {"controller": kind.label, "namespace": key.namespace, "name": key.name}
        with pass_log.numbered(about):
            log.debug("pass begins")
            began = self._clock()
            again = await self._work(kind, key)
            log.debug("pass ended after %.1f ms: %s", 1e3 * (self._clock() - began), _describe_requeue(again))
            return again

    async def _work(self, kind: Kind, key: Key) -> Again:
        passes = self._metrics.passes
        started = self._clock()
        passes.begun(kind.label)
        self._current.add(key)
        try:
            again = await self._reconcile(kind, key)
        except NotLeading:
            again = Again()
        except ClusterError as error:
            log.warning("%s %s/%s: %s", key.kind, key.namespace, key.name, error.message)
            again = Again(error.retry_after, failed=True)
        except Exception:
            passes.crashed(kind.label, self._clock() - started)
            raise
        finally:
            self._current.discard(key)
        result = "error" if again.failed else "requeue_after" if again.after is not None else "success"
        passes.ended(kind.label, result, self._clock() - started)
        return again

    async def _reconcile(self, kind: Kind, key: Key) -> Again:
        began = self._clock()
        snapshot = await kind.observe(key.namespace, key.name, self._now())
        if snapshot is None:
            self._record(key, 0, frozenset())
            self._metrics.workloads.gone(key)
            log.debug("no object of that name")
            # No delay for an object that is recreated under this name, such as the next leader of a group.
            return Again(rest=0.0)
        plan = kind.decide(snapshot)
        _describe(kind, snapshot, plan)
        # If the namespace was lost meanwhile, another manager shows these figures; nothing here resets them.
        if key in self._current:
            self._record(key, plan.stuck_pods, plan.standing)
            if plan.is_left_alone:
                self._metrics.workloads.gone(key)
            else:
                self._metrics.workloads.observe(key, plan.figures)
        rest_seconds = self._seconds_of_rest(kind, began)
        if plan.waiting_for:
            log.debug("%s %s/%s waits for %s", key.kind, key.namespace, key.name, plan.waiting_for)
        if plan.is_empty:
            return Again(after=plan.again_after, rest=rest_seconds)
        outcome = await kind.apply(plan)
        if outcome.forced:
            self._metrics.observe_forced(outcome.forced)
        if key in self._current:
            self._metrics.workloads.count(key.namespace, outcome.tallies)
        else:
            self._metrics.workloads.count_for_others(outcome.tallies)
        return replace(_requeue(key, plan, outcome), rest=rest_seconds)

    def _seconds_of_rest(self, kind: Kind, began: float) -> float:
        """Return the seconds from the beginning of this pass until events may start the next one."""
        now = self._clock()
        duration = now - began
        delay = self._pass_load.delay_after(duration, now) if kind.is_linear else costs.delay_after(duration)
        return min(max(timing.MIN_PASS_DELAY_SECONDS, delay), timing.MAX_PASS_DELAY_SECONDS)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Stop counting stuck pods and states of lost namespaces, because their next leader counts them."""
        self._current = {key for key in self._current if not is_meant(key.namespace)}
        for key in [key for key in (*self._stuck_pods, *self._standing) if is_meant(key.namespace)]:
            self._record(key, 0, frozenset())
        self._metrics.workloads.forget(is_meant)

    def _record(self, key: Key, stuck_pods: int, standing: frozenset[str]) -> None:
        self._stuck_pods.pop(key, None)
        self._standing.pop(key, None)
        if stuck_pods:
            self._stuck_pods[key] = stuck_pods
        if standing:
            self._standing[key] = standing

    def _count_keys(self, kind: str, word: str) -> int:
        return sum(key.kind == kind and word in standing for key, standing in self._standing.items())


def _describe(kind: Kind, snapshot: Any, plan: Plan) -> None:
    """Log the size of a plan at debug level, and add the snapshot's fields to all log lines from now on.

    An error in computing the fields must not change the result of the pass.
    """
    if not log.isEnabledFor(logging.DEBUG):
        return
    try:
        pass_log.add(kind.fields(snapshot))
    except Exception:
        log.debug("cannot compute the fields of this pass", exc_info=True)
    log.debug("planned %d writes", sum(map(len, plan.sequences)))


def _requeue(key: Key, plan: Plan, outcome: Outcome) -> Again:
    if outcome.overtaken and not outcome.errors:
        return Again(after=timing.AFTER_OVERTAKEN_SECONDS)
    if not outcome.errors:
        return Again(after=plan.again_after)
    if any(isinstance(error, NotLeading) for error in outcome.errors):
        return Again()
    if _is_namespace_terminating(outcome.errors):
        return Again(after=timing.TERMINATING_NAMESPACE_SECONDS)
    if all(isinstance(error, ApiError) and error.is_kind_unknown_yet for error in outcome.errors):
        log.info("%s %s/%s waits: %s", key.kind, key.namespace, key.name, outcome.errors[0].message)
        return Again(after=timing.UNKNOWN_KIND_SECONDS)
    for error in outcome.errors:
        log.warning("%s %s/%s: %s", key.kind, key.namespace, key.name, error.message)
    return Again(after=outcome.retry_after, failed=True)


def _is_namespace_terminating(errors: Sequence[ClusterError]) -> bool:
    """Return whether writes failed because their namespace is terminating.

    Writes to objects that were already deleted with the namespace fail with other errors of the API server.
    """
    refusals = [error for error in errors if isinstance(error, ApiError)]
    return len(refusals) == len(errors) and any(error.is_namespace_terminating for error in refusals)


def _describe_requeue(again: Again) -> str:
    if again.after is None:
        return "failed, next pass after a backoff" if again.failed else "next pass when something changes"
    return f"{'failed, ' if again.failed else ''}next pass after {again.after:g} s"
