"""What keeps a DisaggregatedSet from getting its groups?

In: a snapshot, and what the parts of the pass ran into. Out: problems, worst first, for the condition
ReplicaFailure and for Events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lws.actions import Plan, Problem
from lws.disaggregatedset import events
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.status.status import REPLICA_FAILURE
from lws.kube.conditions import find
from lws.leaderworkerset.left_alone import reported, unreadable


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
