"""Show the history of a set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from lws.cli.blocks import Table, Text, described, row
from lws.cli.facts.ages import age
from lws.cli.facts.revisions import Past
from lws.leaderworkerset.revisions.history import Recorded, describe
from lws.leaderworkerset.rollout.reasons import runs

_LINES = 3


def history_table(past: Past, now: datetime, wide: bool = False) -> Table:
    """All revisions, the oldest first. wide: with their names, and every change."""
    has_causes = bool(past.causes)
    names, cause = ("NAME",) if wide else (), ("CHANGE-CAUSE",) if has_causes else ()
    columns = ("REVISION", *names, "KEY", "AGE", "GROUPS", *cause, "CHANGE")
    rows = []
    for revision in past.recorded:
        style = "bold" if revision is past.wanted else ""
        cells = [
            str(revision.number),
            revision.key or "<none>",
            age(revision.created, now),
            groups_on(past, revision),
        ]
        if wide:
            cells.insert(1, revision.name)
        if has_causes:
            cells.append(past.causes.get(revision.uid, "<none>"))
        change = (
            Text(f"broken: {revision.broken}", "red")
            if revision.broken
            else Text(_joined(changes(past, revision), None if wide else _LINES))
        )
        rows.append(row(*(Text(cell, style) for cell in cells), change))
    return Table(columns, tuple(rows))


def one_revision(past: Past, revision: Recorded, now: datetime, template: str) -> Iterator[Text]:
    """Everything about one revision; template: what it holds, as YAML."""
    facts = {
        "Revision": f"{revision.number}{' (what the set asks for)' if revision is past.wanted else ''}",
        "Key": revision.key,
        "Name": revision.name,
        "Created": f"{revision.created} ({age(revision.created, now)} ago)",
        "Groups": groups_on(past, revision),
        "Change-cause": past.causes.get(revision.uid, "<none>"),
    }
    return described(facts, {"Change": changes(past, revision), "Template": template.splitlines()})


def history_data(past: Past, revisions: Sequence[Recorded], *, with_spec: bool) -> dict[str, Any]:
    """The same as data. with_spec: the recorded templates too."""
    return {"name": past.name, "revisions": [_data(past, revision, with_spec) for revision in revisions]}


def changes(past: Past, revision: Recorded) -> list[str]:
    """What changed against the revision before it, a line each."""
    position = past.recorded.index(revision)
    earlier = [other for other in past.recorded[:position] if not other.broken]
    if revision.broken:
        return []
    if not earlier:
        return ["the first revision" if revision.number == 1 else "the oldest one that is kept"]
    return describe(earlier[-1], revision) or ["nothing that a pod depends on"]


def groups_on(past: Past, revision: Recorded) -> str:
    """How many groups, and which: `3 (0-1, 4)`."""
    indices = past.groups.get(revision.key, ()) if revision.key else ()
    return f"{len(indices)} ({', '.join(runs(indices, '-'))})" if indices else "0"


def _joined(lines: Sequence[str], most: int | None) -> str:
    more = f"; and {len(lines) - most} more" if most is not None and len(lines) > most else ""
    return "; ".join(lines[:most]) + more


def _data(past: Past, revision: Recorded, with_spec: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "revision": revision.number,
        "key": revision.key,
        "name": revision.name,
        "created": revision.created,
        "wanted": revision is past.wanted,
        "groups": list(past.groups.get(revision.key, ())) if revision.key else [],
        "changes": changes(past, revision),
    }
    if revision.uid in past.causes:
        data["changeCause"] = past.causes[revision.uid]
    if revision.broken:
        data["broken"] = revision.broken
    if with_spec and not revision.broken:
        data["spec"] = template_of(revision)
    return data


def template_of(revision: Recorded) -> dict[str, Any]:
    """What it holds; the annotations are those that it records beside the template."""
    annotations = dict(revision.topology or {})
    return {**revision.spec, **({"annotations": annotations} if annotations else {})}
