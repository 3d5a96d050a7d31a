"""`lws history`: show the recorded revisions of a set, the groups on each, and the changes between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click

from lws.cli.arguments import cluster_options, output_option, revision_option, set_argument
from lws.cli.histories import History, history_of
from lws.cli.screen import Table, Text, age, described, dump, row, show, warn, yaml_text
from lws.cli.session import ClusterOptions, Session, run
from lws.cli.sets import NamedSet, find

_CHANGES = 3


@click.command(epilog="Exit codes: 0 success, 1 a problem with the history or an error, 2 wrong usage.")
@set_argument()
@revision_option("--revision", help="Show only this revision, with its template.")
@output_option("json", "yaml", "name", "wide")
@cluster_options
def history(name: NamedSet, revision: int | None, output: str | None, target: ClusterOptions) -> int:
    """Show the recorded revisions of a set, the oldest first.

    GROUPS is how many groups run on a revision, and which; CHANGE is what differs from the revision before
    it.
    """
    return run(target, lambda session: _history(session, name, revision, output))


async def _history(session: Session, name: NamedSet, number: int | None, output: str | None) -> int:
    history = await history_of(session, await find(session, name))
    chosen = history.revisions if number is None else (history.numbered(number),)
    complaints = list(history.complaints()) if number is None else ()
    title = f"{name.kind.resource.kind} {session.namespace}/{name}"
    if output == "name":
        for revision in chosen:
            click.echo(f"controllerrevision.apps/{revision.name}")
    elif output in ("json", "yaml"):
        dump(history_data(history, chosen, with_content=number is not None), output)
    elif number is not None:
        show(one_revision(history, chosen[0], session.now))
    elif chosen:
        show([Text(title), history_table(history, session.now, output == "wide")])
    else:
        show([Text(f"{title} has no recorded revision yet")])
    for complaint in complaints:
        warn(complaint)
    return 1 if complaints else 0


def history_table(history: History[Any], now: datetime, wide: bool = False) -> Table:
    """Return a table of all revisions, oldest first. wide: whether to show their names and every change."""
    has_causes = bool(history.causes)
    rows = []
    for revision in history.revisions:
        style = "bold" if revision is history.target else ""
        cells = [
            str(revision.number),
            *((revision.name,) if wide else ()),
            revision.key or "<none>",
            age(revision.created, now),
            history.groups_text(revision.key),
            *((history.causes.get(revision.name, "<none>"),) if has_causes else ()),
        ]
        change = (
            Text(f"broken: {revision.broken}", "red")
            if revision.broken
            else Text(_joined(changes(history, revision), wide))
        )
        rows.append(row(*(Text(cell, style) for cell in cells), change))
    names, causes = ("NAME",) if wide else (), ("CHANGE-CAUSE",) if has_causes else ()
    return Table(("REVISION", *names, "KEY", "AGE", "GROUPS", *causes, "CHANGE"), tuple(rows))


def one_revision(history: History[Any], revision: Any, now: datetime) -> Iterator[Text]:
    """Yield everything about one revision."""
    facts = {
        "Revision": f"{revision.number}{' (what the set asks for)' if revision is history.target else ''}",
        "Key": revision.key,
        "Name": revision.name,
        "Created": f"{revision.created} ({age(revision.created, now)} ago)",
        "Groups": history.groups_text(revision.key),
        "Change-cause": history.causes.get(revision.name, "<none>"),
    }
    heading, _ = history.recorded_as
    recorded = yaml_text(history.recorded(revision)).splitlines()
    return described(facts, {"Change": changes(history, revision), heading: recorded})


def history_data(history: History[Any], revisions: Sequence[Any], *, with_content: bool) -> dict[str, Any]:
    """Return revisions as data. with_content: whether to include the content that they record."""
    return {
        "name": history.name,
        "revisions": [_data(history, revision, with_content) for revision in revisions],
    }


def _data(history: History[Any], revision: Any, with_content: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "revision": revision.number,
        "key": revision.key,
        "name": revision.name,
        "created": revision.created,
        "wanted": revision is history.target,
        "groups": history.groups_on(revision.key),
        "changes": changes(history, revision),
    }
    if revision.name in history.causes:
        data["changeCause"] = history.causes[revision.name]
    if revision.broken:
        data["broken"] = revision.broken
    elif with_content:
        _, name = history.recorded_as
        data[name] = history.recorded(revision)
    return data


def changes(history: History[Any], revision: Any) -> list[str]:
    """Return the changes since the previous revision, one line each."""
    if revision.broken:
        return []
    position = history.revisions.index(revision)
    earlier = [previous for previous in history.revisions[:position] if not previous.broken]
    if not earlier:
        return ["the first revision" if revision.number == 1 else "the oldest one that is kept"]
    return history.differences(earlier[-1], revision) or ["no change that affects pods"]


def _joined(lines: Sequence[str], wide: bool) -> str:
    hidden = 0 if wide else max(0, len(lines) - _CHANGES)
    return "; ".join(lines[: len(lines) - hidden]) + (f"; and {hidden} more" if hidden else "")
