"""What is deleted of a DisaggregatedSet, beside what a rollout drains: slices that are not wanted any more,
and LeaderWorkerSets of the first slice whose names know no slices.

In: a snapshot. Out: a part of the plan, one sequence for each slice. Their Services follow them.
"""

from __future__ import annotations

from collections.abc import Iterable

from lws.disaggregatedset import events
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec
from lws.runtime.actions import Delete, Plan, Reference


def plan_removed_slices(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec) -> Plan:
    """The slices above those that are wanted."""
    removed = sorted({each.slice_index for each in snapshot.children if each.slice_index >= spec.slices})
    return Plan(tuple(sequence for index in removed if (sequence := _removed(snapshot, index))))


def legacy_children(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec, key: str) -> list[ChildFacts]:
    """Children on the target revision that have to be made anew: without the label that their pods lack,
    those of several slices cannot be told apart.
    """
    if spec.slices == 1:
        return []
    wanted = {role.name for role in spec.roles}
    return [
        each
        for each in snapshot.children
        if each.is_legacy and each.key == key and each.role in wanted and not each.is_leaving
    ]


def plan_legacy(snapshot: DisaggregatedSnapshot, children: Iterable[ChildFacts]) -> Plan:
    """They go; the next pass makes them anew."""
    why = "its name and labels know no slices"
    actions = tuple(
        Delete(Reference.to(each.obj), "Background", why, (events.deleted_legacy(snapshot.obj, each),))
        for each in children
    )
    return Plan((actions,) if actions else ())


def _removed(snapshot: DisaggregatedSnapshot, index: int) -> tuple[Delete, ...]:
    why = "its slice is not wanted any more"
    return tuple(
        Delete(Reference.to(each.obj), "Background", why, (events.deleted_with_slice(snapshot.obj, each),))
        for each in snapshot.of_slice(index)
        if not each.is_leaving
    )
