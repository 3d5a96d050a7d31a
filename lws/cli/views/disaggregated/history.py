"""Show the history of a DisaggregatedSet, and the difference between two of its revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from lws.cli.blocks import Table, Text, described, row
from lws.cli.facts.ages import age
from lws.cli.facts.disaggregated.history import DisaggregatedPast
from lws.disaggregatedset.revisions.diff import describe
from lws.disaggregatedset.revisions.record import RecordedRoles

_LINES = 3


def history_table(past: DisaggregatedPast, now: datetime, wide: bool = False) -> Table:
    """All revisions, the oldest first. wide: with their names, and every change."""
    names = ("NAME",) if wide else ()
    cause = ("CHANGE-CAUSE",) if past.causes else ()
    rows = []
    for revision in past.revisions:
        style = "bold" if revision is past.wanted else ""
        cells = [str(revision.number), revision.key, age(revision.created, now), _groups(past, revision)]
        cells[1:1] = [revision.name] if wide else []
        cells += [past.causes.get(revision.name, "<none>")] if past.causes else []
        change = (
            Text(f"broken: {revision.broken}", "red")
            if revision.broken
            else Text(_change(past, revision, wide))
        )
        rows.append(row(*(Text(cell, style) for cell in cells), change))
    return Table(("REVISION", *names, "KEY", "AGE", "GROUPS", *cause, "CHANGE"), tuple(rows))


def one_revision(
    past: DisaggregatedPast, revision: RecordedRoles, now: datetime, roles: str
) -> Iterator[Text]:
    """Everything about one revision; roles: what it holds, as YAML."""
    facts = {
        "Revision": f"{revision.number}{' (what the set asks for)' if revision is past.wanted else ''}",
        "Key": revision.key,
        "Name": revision.name,
        "Created": f"{revision.created} ({age(revision.created, now)} ago)",
        "Groups": _groups(past, revision),
        "Change-cause": past.causes.get(revision.name, "<none>"),
    }
    return described(facts, {"Change": changes(past, revision), "Roles": roles.splitlines()})


def history_data(
    past: DisaggregatedPast, revisions: Sequence[RecordedRoles], *, with_roles: bool
) -> dict[str, Any]:
    """The same as data. with_roles: what was recorded too."""
    return {"name": past.name, "revisions": [_data(past, revision, with_roles) for revision in revisions]}


def changes(past: DisaggregatedPast, revision: RecordedRoles) -> list[str]:
    """What changed against the revision before it, a line each."""
    if revision.broken:
        return []
    earlier = past.earlier(revision)
    if earlier is None:
        return ["the first revision" if revision.number == 1 else "the oldest one that is kept"]
    return describe(earlier.record, revision.record) or ["nothing that a pod depends on"]


def _groups(past: DisaggregatedPast, revision: RecordedRoles) -> str:
    return ", ".join(f"{role} {count}" for role, count in past.groups_on(revision.key).items()) or "0"


def _change(past: DisaggregatedPast, revision: RecordedRoles, wide: bool) -> str:
    lines = changes(past, revision)
    most = len(lines) if wide else _LINES
    more = f"; and {len(lines) - most} more" if len(lines) > most else ""
    return "; ".join(lines[:most]) + more


def _data(past: DisaggregatedPast, revision: RecordedRoles, with_roles: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "revision": revision.number,
        "key": revision.key,
        "name": revision.name,
        "created": revision.created,
        "wanted": revision is past.wanted,
        "groups": past.groups_on(revision.key),
        "changes": changes(past, revision),
    }
    if revision.name in past.causes:
        data["changeCause"] = past.causes[revision.name]
    if revision.broken:
        data["broken"] = revision.broken
    elif with_roles:
        data["roles"] = list(revision.record.parts)
    return data
