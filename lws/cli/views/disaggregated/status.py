"""Show the state of a DisaggregatedSet: LeaderWorkerSets, conditions, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lws.cli.blocks import Bar, Block, Table, Text, row
from lws.cli.facts.ages import age
from lws.cli.facts.disaggregated.status import ChildLine, DisaggregatedReport
from lws.cli.views.conditions import condition_blocks, conditions_of, is_stalled, last_word, pace_line


def status_blocks(facts: DisaggregatedReport, most: int | None = None, wide: bool = False) -> Iterator[Block]:
    """What is shown. most: rows that there is room for; those that wait come first then. wide: with the names
    of LeaderWorkerSets.
    """
    metadata, now = facts.obj["metadata"], facts.snapshot.now
    yield Text(f"DisaggregatedSet {metadata['namespace']}/{metadata['name']}", "bold")
    yield Bar(_updated(facts), facts.groups, f"groups ready on {_revision(facts)}")
    if facts.spec.paused:
        yield Text("paused: no rollout begins or goes on before `resume`", "yellow")
    for line in facts.only_here:
        yield Text(line, "yellow")
    for line in facts.pending:
        # Whatever else waits, no restart brings.
        is_edit = line.startswith("spec.")
        yield Text(f"{line} waits for the next revision; `restart` brings it" if is_edit else line, "yellow")
    if facts.lines:
        yield Text("")
        yield from _children(facts, most, wide)
    yield from condition_blocks(facts.obj, now)
    yield Text("")
    if not facts.is_settled and not facts.spec.paused:
        yield from pace_line(facts.obj, facts.last_progress, facts.spec.progress_deadline, now)
    yield last_word(facts.waiting_for)


def status_data(facts: DisaggregatedReport) -> dict[str, Any]:
    """The same as data."""
    metadata = facts.obj["metadata"]
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "settled": facts.is_settled,
        "waitingFor": facts.waiting_for,
        "paused": facts.spec.paused,
        "key": facts.target.key,
        "revision": _number(facts, facts.target.key),
        "slices": facts.spec.slices,
        "roles": [
            {
                "name": role,
                "replicas": count,
                "ready": facts.ready(role),
                "updatedAndReady": facts.ready(role, updated=True),
            }
            for role, count in facts.wanted.items()
        ],
        "lastProgress": facts.last_progress or None,
        "stalled": is_stalled(facts.obj),
        "pending": facts.pending,
        "leaderWorkerSets": [_data(facts, line) for line in facts.lines],
        "conditions": list(conditions_of(facts.obj)),
    }


def sets_table(sets: Sequence[DisaggregatedReport], with_namespace: bool, wide: bool = False) -> Table:
    """A row for each set. wide: with the key of the target revision."""
    columns = (
        *(("NAMESPACE",) if with_namespace else ()),
        *("NAME", "SLICES", "READY", "UPDATED", "REVISION", "AGE"),
        *(("KEY",) if wide else ()),
        "WAITING",
    )
    return Table(columns, tuple(_set_row(facts, with_namespace, wide) for facts in sets))


def progress_line(facts: DisaggregatedReport) -> Text:
    """One line for those who follow along without a terminal."""
    last = last_word(facts.waiting_for).text
    return Text(f"{_updated(facts)} of {facts.groups} groups are updated and ready: {last}")


def _set_row(facts: DisaggregatedReport, with_namespace: bool, wide: bool) -> tuple[Text, ...]:
    metadata, key = facts.obj["metadata"], facts.target.key
    ready = sum(facts.ready(role) for role in facts.wanted)
    return row(
        *((metadata["namespace"],) if with_namespace else ()),
        f"disaggregatedset/{metadata['name']}",
        str(facts.spec.slices),
        Text(f"{ready}/{facts.groups}", "green" if ready == facts.groups else "yellow"),
        str(_updated(facts)),
        str(_number(facts, key) or key),
        age(metadata.get("creationTimestamp"), facts.snapshot.now),
        *((key,) if wide else ()),
        Text(facts.waiting_for, "yellow"),
    )


def _children(facts: DisaggregatedReport, most: int | None, wide: bool) -> Iterator[Block]:
    lines = facts.lines
    if most is None or len(lines) <= most:
        yield _child_table(facts, lines, wide)
        return
    urgent = sorted(lines, key=lambda line: not line.why)[:most]
    yield _child_table(facts, [line for line in lines if line in urgent], wide)
    hidden = [line for line in lines if line not in urgent]
    waiting = sum(bool(line.why) for line in hidden)
    yield Text(f"and {len(hidden)} more LeaderWorkerSets, {waiting} of them waiting")


def _child_table(facts: DisaggregatedReport, lines: Sequence[ChildLine], wide: bool) -> Table:
    rows = []
    for line in lines:
        child = line.facts
        cells = (str(child.slice_index), child.role, str(_number(facts, child.key) or child.key))
        ready = Text(f"{child.ready}/{child.wanted}", "green" if child.is_settled else "yellow")
        since = age(child.obj["metadata"].get("creationTimestamp"), facts.snapshot.now)
        names = (child.name,) if wide else ()
        rows.append(row(*cells, ready, since, *names, Text(line.why, "yellow")))
    names = ("LEADERWORKERSET",) if wide else ()
    return Table(("SLICE", "ROLE", "REVISION", "READY", "AGE", *names, "WAITING"), tuple(rows))


def _data(facts: DisaggregatedReport, line: ChildLine) -> dict[str, Any]:
    child = line.facts
    return {
        "name": child.name,
        "slice": child.slice_index,
        "role": child.role,
        "revision": _number(facts, child.key),
        "key": child.key,
        "replicas": child.wanted,
        "groups": child.existing,
        "ready": child.ready,
        "why": line.why,
    }


def _updated(facts: DisaggregatedReport) -> int:
    return sum(facts.ready(role, updated=True) for role in facts.wanted)


def _number(facts: DisaggregatedReport, key: str) -> int | None:
    """Of the newest revision of that key; None where none is recorded."""
    return max(
        (revision.number for revision in facts.snapshot.revisions if revision.key == key), default=None
    )


def _revision(facts: DisaggregatedReport) -> str:
    key = facts.target.key
    number = _number(facts, key)
    return f"revision {number} ({key})" if number is not None else f"key {key}"
