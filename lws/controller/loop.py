"""One pass: observe, plan, apply. The same lines for every kind.

In: a key from the queue. Out: what the queue should do with it next.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from lws import costs, timing
from lws.actions import Object, Plan, Reference
from lws.cluster.client.connection import MayWrite
from lws.cluster.errors import ApiError, ClusterError, NotLeading
from lws.cluster.write.apply import Outcome
from lws.controller.election.election import Scope
from lws.controller.endpoints import pass_log
from lws.controller.endpoints.metrics import Metrics
from lws.controller.queue import Again
from lws.controller.triggers.keys import Key, Route

log = logging.getLogger(__name__)


def _all_of(plan: Plan) -> Plan:
    return plan


def _nobody(snapshot: Any) -> None:
    return None


def _none(snapshot: Any) -> pass_log.Fields:
    return pass_log.NOTHING


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pass. observe: (namespace, name, now) → snapshot or None; plan: pure; apply: carries a plan
    out; label: its name in metrics; due: the part of a plan that is carried out now, all of it by default.
    fields: what the debug log says of a snapshot on each line. owner: the workload that a snapshot belongs
    to, which is told what the API server refuses. is_linear: a pass takes the longer the more
    groups there are, so that those of the kind share what they may take (`lws.costs`).
    """

    observe: Callable[[str, str, datetime], Awaitable[Any]]
    plan: Callable[[Any], Plan]
    apply: Callable[[Plan], Awaitable[Outcome]]
    label: str
    due: Callable[[Plan], Plan] = _all_of
    fields: Callable[[Any], pass_log.Fields] = _none
    is_linear: bool = False
    owner: Callable[[Any], Object | None] = _nobody

    def decide(self, snapshot: Any) -> Plan:
        """What is carried out now, in the name of its owner."""
        plan, owner = self.due(self.plan(snapshot)), self.owner(snapshot)
        return plan if owner is None or plan.is_empty else replace(plan, owner=Reference.to(owner))


@dataclass(frozen=True, slots=True)
class Term:
    """One time of acting on some namespaces, from the gain of a Lease or a shard to its loss: the passes, by
    kind of key, with all that they remember. It goes as a whole: meanwhile others have acted.

    routes: by kind of the object that changes. forget: who is told of each object that is not there any more.
    """

    passes: Mapping[str, Kind]
    routes: Mapping[str, Route] = field(default_factory=dict)
    forget: tuple[Callable[[Object], None], ...] = ()


class Terms:
    """Those that go on. begin: makes one, whose writes are refused where the call that it is given says so;
    may_write: whether this process acts at all.
    """

    def __init__(self, begin: Callable[[MayWrite], Term], may_write: MayWrite) -> None:
        self._make = begin
        self._may_write = may_write
        self._terms: dict[Scope, Term] = {}

    def begin(self, scope: Scope) -> None:
        """These namespaces were gained: nothing is remembered of an earlier time."""

        def may_write(namespace: str) -> bool:
            # A pass of an earlier term, which saw what others have changed since, writes nothing in this one.
            return self._terms.get(scope, term) is term and self._may_write(namespace)

        term = self._terms[scope] = self._make(may_write)

    def end(self, scope: Scope) -> None:
        """They were lost. Passes that run come to their end."""
        self._terms.pop(scope, None)

    def passes_over(self, namespace: str) -> Mapping[str, Kind]:
        """By kind of key; none where nobody acts."""
        term = self._term_of(namespace)
        return term.passes if term is not None else {}

    def route_of(self, obj: Object) -> Route | None:
        """Which passes a change of it starts; None where nobody acts, or it concerns none."""
        term = self._term_of(obj["metadata"].get("namespace", ""))
        return term.routes.get(obj["kind"]) if term is not None else None

    def forget(self, obj: Object) -> None:
        """There is no such object any more."""
        term = self._term_of(obj["metadata"].get("namespace", ""))
        for forget in term.forget if term is not None else ():
            forget(obj)

    def _term_of(self, namespace: str) -> Term | None:
        return next((term for scope, term in self._terms.items() if scope(namespace)), None)


class Loop:
    """Runs passes. `work` is what the queue calls. passes_over: those of a namespace, by kind of key."""

    def __init__(
        self,
        passes_over: Callable[[str], Mapping[str, Kind]],
        metrics: Metrics,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._passes_over = passes_over
        self._metrics = metrics
        self._stuck_pods: dict[Key, int] = {}
        self._standing: dict[Key, frozenset[str]] = {}
        self._standings: Counter[tuple[str, str]] = Counter()
        # Keys whose pass runs, and whose namespace was not forgotten since it began.
        self._current: set[Key] = set()
        self._looks = costs.Looks()

    async def work(self, key: Key) -> Again:
        """One pass over a key; never raises for anything that a cluster can do to us."""
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
            log.debug("pass ended after %.1f ms: %s", 1e3 * (self._clock() - began), _next(again))
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
            again = Again(after=_retry_after(error), failed=True)
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
        snapshot = await kind.observe(key.namespace, key.name, datetime.now(UTC))
        if snapshot is None:
            self._count_stuck(key, 0)
            self._count_standing(key, frozenset())
            self._metrics.workloads.gone(key)
            log.debug("there is nothing of that name")
            # What comes back under this name, such as the next leader of a group, is new.
            return Again(rest=0.0)
        plan = kind.decide(snapshot)
        _describe(kind, snapshot)
        log.debug("planned %d writes", sum(map(len, plan.sequences)))
        # What was forgotten meanwhile another leader shows, and no pass of ours would take it back.
        if key in self._current:
            self._count_stuck(key, plan.stuck_pods)
            self._count_standing(key, plan.standing)
            self._metrics.workloads.observe(key, plan.figures)
        rest = self._rest(kind, began)
        if plan.waiting_for:
            log.debug("%s %s/%s waits for %s", key.kind, key.namespace, key.name, plan.waiting_for)
        if plan.is_empty:
            return Again(after=plan.again_after, rest=rest)
        outcome = await kind.apply(plan)
        if outcome.forced:
            self._metrics.observe_forced(outcome.forced)
        if key in self._current:
            self._metrics.workloads.count(key.namespace, outcome.tallies)
        else:
            self._metrics.workloads.count_for_others(outcome.tallies)
        return replace(_again(key, plan, outcome), rest=rest)

    def _rest(self, kind: Kind, began: float) -> float:
        """Seconds from the beginning of a pass that has just decided until events may start the next one."""
        now = self._clock()
        look = now - began
        rest = self._looks.rest_after(look, now) if kind.is_linear else costs.rest_after(look)
        return min(max(timing.SHORTEST_REST_SECONDS, rest), timing.LONGEST_REST_SECONDS)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """The next leader of these namespaces counts what is held there, and how keys stand."""
        self._current = {key for key in self._current if not is_meant(key.namespace)}
        for key in [key for key in self._stuck_pods if is_meant(key.namespace)]:
            del self._stuck_pods[key]
        self._metrics.observe_stuck_pods(sum(self._stuck_pods.values()))
        for key in [key for key in self._standing if is_meant(key.namespace)]:
            self._count_standing(key, frozenset())
        self._metrics.workloads.forget(is_meant)

    def _count_stuck(self, key: Key, pods: int) -> None:
        if pods == self._stuck_pods.get(key, 0):
            return
        self._stuck_pods[key] = pods
        if not pods:
            del self._stuck_pods[key]
        self._metrics.observe_stuck_pods(sum(self._stuck_pods.values()))

    def _count_standing(self, key: Key, standing: frozenset[str]) -> None:
        former = self._standing.pop(key, frozenset())
        if standing:
            self._standing[key] = standing
        if standing != former:
            self._standings.update((key.kind, word) for word in standing - former)
            self._standings.subtract((key.kind, word) for word in former - standing)
            self._metrics.observe_standings(self._standings)


def _describe(kind: Kind, snapshot: Any) -> None:
    """Only the debug log asks for it: a pass must end as it does without."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    try:
        pass_log.add(kind.fields(snapshot))
    except Exception:
        log.debug("the fields of this pass cannot be told", exc_info=True)


def _again(key: Key, plan: Plan, outcome: Outcome) -> Again:
    if outcome.overtaken and not outcome.errors:
        return Again(after=timing.OVERTAKEN_SECONDS)
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
    """Writes to what has gone with it meanwhile are refused too, each in its own way."""
    refusals = [error for error in errors if isinstance(error, ApiError)]
    return len(refusals) == len(errors) and any(each.is_namespace_terminating for each in refusals)


def _next(again: Again) -> str:
    what = "failed, tried again" if again.failed else "looked at again"
    when = "when something changes" if again.after is None else f"after {again.after:g} s"
    return f"{what} after a back-off" if again.failed and again.after is None else f"{what} {when}"


def _retry_after(error: ClusterError) -> float | None:
    return error.retry_after if isinstance(error, ApiError) else None
