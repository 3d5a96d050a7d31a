"""Collect what keeps a DisaggregatedSet from getting its groups, worst first.

The result goes into the condition ReplicaFailure and into Events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from lws import timing
from lws.disaggregatedset import events
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.status.status import REPLICA_FAILURE
from lws.kube.conditions import find
from lws.kube.pods import NodeWait
from lws.leaderworkerset.left_alone import reported, unreadable
from lws.runtime.actions import Plan, Problem


def problems_of(snapshot: DisaggregatedSnapshot, encountered: Iterable[Problem]) -> tuple[Problem, ...]:
    """encountered: what the pass itself ran into."""
    # Refusals come last: whatever else is wrong may be the reason for them.
    refused = (
        Problem(each.reason, each.message, each.is_reported, each.action) for each in snapshot.obstructions
    )
    return (*encountered, *_unreadable(snapshot), *_of_children(snapshot.children), *refused)


def plan_left_alone(snapshot: DisaggregatedSnapshot) -> Plan:
    """Nothing but a condition, and an Event when that is new."""
    problem = unreadable(snapshot.fault)
    plan = reported(snapshot.obj, problem, snapshot.now)
    return replace(plan, announce=events.problems(snapshot.obj, [problem]))


def _unreadable(snapshot: DisaggregatedSnapshot) -> Iterator[Problem]:
    for name, fault in sorted(snapshot.unreadable.items()):
        problem = unreadable(fault)
        yield replace(problem, message=f"LeaderWorkerSet {name}: {problem.message}", is_reported=True)


def _of_children(children: Iterable[ChildFacts]) -> Iterator[Problem]:
    """In the words of each child, which has said them in an Event of its own."""
    for each in children:
        condition = find((each.obj.get("status") or {}).get("conditions"), REPLICA_FAILURE)
        if condition is not None and condition.get("status") == "True" and not each.is_leaving:
            where = f"role {each.role} of slice {each.slice_index} ({each.name})"
            message = f"{where}: {condition.get('message', '')}"
            yield Problem(str(condition.get("reason", "")), message, is_reported=True)


def without_nodes(children: Iterable[ChildFacts], now: datetime) -> tuple[str, ...]:
    """By slice and role, those with a pod that has waited for long and still does, and what for."""
    found = {
        (each.slice_index, each.role, _awaited(wait))
        for each in children
        for wait in each.waits
        if wait.until is None and now - wait.since >= timing.NODE_WAIT_IS_LONG
    }
    return tuple(
        f"slice {index}: role {role}: pods wait for {awaited}" for index, role, awaited in sorted(found)
    )


def look_again(children: Iterable[ChildFacts]) -> float | None:
    """Seconds; None where every group serves."""
    is_awaited = any(each.ready < each.wanted for each in children)
    return timing.NODE_WAIT_IS_LONG.total_seconds() if is_awaited else None


def _awaited(wait: NodeWait) -> str:
    return f"scheduling gate {wait.gate}" if wait.gate else "nodes"
