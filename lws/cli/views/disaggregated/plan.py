"""Show what an apply would do to a DisaggregatedSet, and the steps of its rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lws.cli.blocks import Block, Table, Text, row
from lws.cli.facts.disaggregated.impact import DisaggregatedImpact
from lws.cli.facts.disaggregated.steps_ahead import Change, Counts, StepAhead, StepsAhead


def steps_blocks(ahead: StepsAhead, key: str) -> Iterator[Block]:
    """A row for each slice that a pass of the controller changes. key: of the revision that is wanted."""
    if not ahead.steps:
        yield Text("no steps: everything is as the set asks")
    else:
        yield Text("steps, if every new group gets ready:")
        numbers = {revision.key: revision.number for revision in ahead.end.revisions}
        rows = tuple(_row(number, step, key, numbers) for number, step in enumerate(ahead.steps, start=1))
        yield Table(("STEP", "SLICE", "OLD", "NEW", "WHAT"), rows)
    if ahead.waiting_for:
        yield Text(f"and then waits for {ahead.waiting_for}", "yellow")


def steps_data(ahead: StepsAhead) -> dict[str, Any]:
    """The same as data."""
    steps = [
        {
            "slice": step.slice_index,
            "changes": [
                {"role": each.role, "key": each.key, "before": each.before, "after": each.after}
                for each in step.changes
            ],
            "groups": {key: dict(counts) for key, counts in step.counts.items()},
        }
        for step in ahead.steps
    ]
    return {"steps": steps, "waitingFor": ahead.waiting_for}


def effect_data(effect: DisaggregatedImpact) -> dict[str, Any]:
    """What an apply would do, as data."""
    return {
        "replicas": {role: after for role, (_, after) in effect.counts.items()},
        "restarts": dict(effect.restarts),
        "changes": list(effect.template),
        "changesAtOnce": list(effect.at_once),
        "changesLater": list(effect.waiting),
    }


def _row(number: int, step: StepAhead, key: str, numbers: Mapping[str, int]) -> tuple[Text, ...]:
    of_key: dict[str, list[Change]] = {}
    for change in step.changes:
        of_key.setdefault(change.key, []).append(change)
    what = "; ".join(f"revision {numbers.get(name, name)}: {_moves(moves)}" for name, moves in of_key.items())
    old = {name: counts for name, counts in step.counts.items() if name != key}
    return row(
        str(number), str(step.slice_index), _summed(old), _summed({key: step.counts.get(key, {})}), what
    )


def _moves(changes: Sequence[Change]) -> str:
    return ", ".join(f"{change.role} {change.before} → {change.after}" for change in changes)


def _summed(counts: Counts) -> str:
    """`prefill 2, decode 1`, over all revisions."""
    sums: dict[str, int] = {}
    for roles in counts.values():
        for role, groups in roles.items():
            sums[role] = sums.get(role, 0) + groups
    return ", ".join(f"{role} {groups}" for role, groups in sums.items()) or "-"
