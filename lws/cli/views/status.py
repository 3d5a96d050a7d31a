"""Show the state of a set: groups, rollout, conditions, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lws.cli.blocks import Bar, Block, Table, Text, row
from lws.cli.facts.ages import age
from lws.cli.facts.set_status import GroupLine, StatusReport, revision_number
from lws.cli.views.conditions import condition_blocks, conditions_of, is_stalled, last_word, pace_line


def status_blocks(facts: StatusReport, most: int | None = None, wide: bool = False) -> Iterator[Block]:
    """What is shown. most: rows of groups that there is room for; those that wait come first then. wide: with
    leader pods and their nodes.
    """
    metadata, now = facts.objects.lws["metadata"], facts.objects.snapshot.now
    yield Text(f"LeaderWorkerSet {metadata['namespace']}/{metadata['name']}", "bold")
    yield Bar(facts.updated, facts.replicas, f"groups ready on {_revision(facts)}")
    if facts.assessment.rollout.paused:
        yield Text("paused: no group is updated before `resume`", "yellow")
    for line in (*facts.live_only, *facts.at_risk):
        yield Text(line, "yellow")
    if facts.groups:
        yield Text("")
        yield from _groups(facts.groups, most, wide)
    yield from condition_blocks(facts.objects.lws, now)
    yield Text("")
    if not facts.is_settled:
        yield from _pace(facts)
    yield last_word(facts.waiting_for)


def status_data(facts: StatusReport) -> dict[str, Any]:
    """The same as data."""
    wanted = facts.past.wanted
    return {
        "name": facts.objects.name,
        "namespace": facts.objects.lws["metadata"]["namespace"],
        "settled": facts.is_settled,
        "waitingFor": facts.waiting_for,
        "paused": facts.assessment.rollout.paused,
        "key": facts.assessment.target.key,
        "revision": wanted.number if wanted is not None else None,
        "replicas": facts.replicas,
        "ready": facts.ready,
        "updatedAndReady": facts.updated,
        "counts": dict(facts.summary.counts),
        "lastProgress": facts.last_progress or None,
        "stalled": is_stalled(facts.objects.lws),
        "groups": [
            {
                "index": line.index,
                "revision": line.revision,
                "leader": line.leader,
                "workersReady": line.workers[0],
                "workers": line.workers[1],
                "pod": line.pod,
                "node": line.node,
                "why": line.why,
            }
            for line in facts.groups
        ],
        "conditions": list(conditions_of(facts.objects.lws)),
    }


def sets_table(sets: Sequence[StatusReport], with_namespace: bool, wide: bool = False) -> Table:
    """A row for each set. wide: with the key of the target revision."""
    columns = (
        *(("NAMESPACE",) if with_namespace else ()),
        *("NAME", "READY", "UPDATED", "REVISION", "AGE"),
        *(("KEY",) if wide else ()),
        "WAITING",
    )
    return Table(columns, tuple(_set_row(facts, with_namespace, wide) for facts in sets))


def progress_line(facts: StatusReport) -> Text:
    """One line for those who follow along without a terminal."""
    last = last_word(facts.waiting_for).text
    return Text(f"{facts.updated} of {facts.replicas} groups are updated and ready: {last}")


def _revision(facts: StatusReport) -> str:
    key = facts.assessment.target.key
    number = revision_number(facts.past, key)
    return f"revision {number} ({key})" if number != key else f"key {key}"


def _pace(facts: StatusReport) -> Iterator[Text]:
    """What there is instead of settled groups, and for how long nothing has moved."""
    counts = ", ".join(f"{count} {state}" for state, count in facts.summary.counts.items())
    if counts:
        yield Text(f"groups: {counts}", "yellow")
    if not facts.assessment.rollout.paused:
        snapshot = facts.objects.snapshot
        deadline = snapshot.spec.progress_deadline
        yield from pace_line(facts.objects.lws, facts.last_progress, deadline, snapshot.now)


def _groups(lines: Sequence[GroupLine], most: int | None, wide: bool) -> Iterator[Block]:
    if most is None or len(lines) <= most:
        yield _group_table(lines, wide)
        return
    urgent = sorted(lines, key=lambda line: (line.is_settled, line.index))
    shown, hidden = sorted(urgent[:most], key=lambda line: line.index), urgent[most:]
    yield _group_table(shown, wide)
    waiting = sum(not line.is_settled for line in hidden)
    yield Text(f"and {len(hidden)} more groups, {waiting} of them waiting")


def _group_table(lines: Sequence[GroupLine], wide: bool) -> Table:
    rows = tuple(
        row(
            str(line.index),
            line.revision,
            Text(line.leader, "green" if line.leader == "Ready" else "yellow"),
            Text(
                f"{line.workers[0]}/{line.workers[1]}",
                "green" if line.workers[0] == line.workers[1] else "yellow",
            ),
            line.age,
            *((line.pod or "<none>", line.node or "<none>") if wide else ()),
            Text(line.why, "" if line.is_settled else "yellow"),
        )
        for line in lines
    )
    leader = ("POD", "NODE") if wide else ()
    return Table(("GROUP", "REVISION", "LEADER", "WORKERS", "AGE", *leader, "WAITING"), rows)


def _set_row(facts: StatusReport, with_namespace: bool, wide: bool) -> tuple[Text, ...]:
    metadata, key = facts.objects.lws["metadata"], facts.assessment.target.key
    return row(
        *((metadata["namespace"],) if with_namespace else ()),
        metadata["name"],
        Text(f"{facts.ready}/{facts.replicas}", "green" if facts.ready == facts.replicas else "yellow"),
        str(facts.updated),
        revision_number(facts.past, key),
        age(metadata.get("creationTimestamp"), facts.objects.snapshot.now),
        *((key,) if wide else ()),
        Text(facts.waiting_for, "yellow"),
    )
