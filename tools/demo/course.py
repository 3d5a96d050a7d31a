"""Answers: what was true at every moment while something went on, and in which order did it happen?

In: moments, one for every change of a pod. Out: checks. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tools.demo.check import Check, equal, none_of
from tools.demo.groups import groups_of
from tools.demo.record import Moment


def verify_least_ready(moments: Sequence[Moment], leaders: Mapping[str, str], least: int) -> Check:
    """At no moment were fewer than `least` groups ready."""
    counts = [sum(group.is_ready for group in groups_of(moment, leaders)) for moment in moments]
    lowest = min(counts)
    claim = f"at no time were fewer than {least} groups ready {_looked_at(moments)}"
    where = f"{lowest}, in state {counts.index(lowest) + 1} of {len(counts)}"
    return Check(claim, lowest >= least, f"at least {least}", where)


def verify_always_ready(
    moments: Sequence[Moment], leaders: Mapping[str, str], indices: Collection[int]
) -> Check:
    """Some groups were ready in every moment."""
    missed = set[str]()
    for moment in moments:
        ready = {group.index for group in groups_of(moment, leaders) if group.is_ready}
        missed |= {f"group {index}" for index in indices if index not in ready}
    named = ", ".join(map(str, sorted(indices)))
    claim = f"groups {named} were ready all the time {_looked_at(moments)}"
    return none_of(claim, missed, len(indices))


def verify_only_went(moments: Sequence[Moment]) -> Check:
    """Pods went, and not one was made meanwhile."""
    known = {pod.uid for pod in moments[0]}
    made = {pod.name for moment in moments for pod in moment if pod.uid not in known}
    claim = f"{len(known)} pods went, and not one was made meanwhile {_looked_at(moments)}"
    return none_of(claim, made, len(known))


def verify_order(moments: Sequence[Moment], revision: str, expected: Sequence[int]) -> Check:
    """Leaders of a revision appeared group by group, in this order."""
    order: list[int] = []
    for moment in moments:
        fresh = [pod.group for pod in moment if pod.is_leader and pod.revision == revision]
        order += sorted((index for index in fresh if index not in order), reverse=True)
    named = ", ".join(map(str, expected))
    return equal(f"groups moved to the new revision in the order {named}", list(expected), order)


def _looked_at(moments: Sequence[Moment]) -> str:
    return f"({len(moments)} state{'' if len(moments) == 1 else 's'} of the watch on pods)"
