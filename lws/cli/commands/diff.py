"""`lws diff`: show how revisions differ, side by side if there is room, with exit codes of `kubectl diff`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import click

from lws.cli.arguments import cluster_options, output_option, revision_option, set_argument
from lws.cli.histories import History, history_of
from lws.cli.screen import Block, Table, Text, dump, is_wide, show, yaml_text
from lws.cli.session import ClusterOptions, Refusal, Session, run
from lws.cli.sets import NamedSet, find
from lws.history.revision import Revision

_CONTEXT = 2
_GAP = Text("⋮", "bright_black")
_DIFFERENCE = 1


class _Error(Refusal):
    """An error with exit code 2, because exit code 1 means a difference, as in `kubectl diff`."""

    exit_code = 2


@click.command(epilog="Exit codes: 0 no difference, 1 a difference, 2 error or wrong usage.")
@set_argument()
@revision_option("--from", "old", help="Older revision (default: the one before --to).")
@revision_option("--to", "new", help="Newer revision (default: the one that the set asks for).")
@output_option("json", "yaml")
@cluster_options
def diff(name: NamedSet, old: int | None, new: int | None, output: str | None, target: ClusterOptions) -> int:
    """Show the differences between two revisions of a set.

    Only differences that pods depend on are shown; notation is ignored.
    """
    try:
        return run(target, lambda session: _diff(session, name, (old, new), output))
    except Refusal as refusal:
        raise _Error(refusal.message, refusal.opening) from refusal
    except OSError as error:
        raise _Error(str(error)) from error


async def _diff(
    session: Session, name: NamedSet, numbers: tuple[int | None, int | None], output: str | None
) -> int:
    history = await history_of(session, await find(session, name))
    older, newer = _chosen(history, *numbers)
    differences = history.differences(older, newer)
    if output is None:
        show(_blocks(history, (older, newer), differences))
    else:
        dump(diff_data(name, older, newer, differences), output)
    return _DIFFERENCE if differences else 0


def _chosen(history: History[Any], old: int | None, new: int | None) -> tuple[Any, Any]:
    if new is not None:
        later = history.numbered(new)
    elif history.target is not None:
        later = history.numbered(history.target.number)
    else:
        raise Refusal(f"what set {history.name} asks for is not recorded yet: use --to, or wait a moment")
    return (history.numbered(old) if old is not None else history.before(later)), later


def _blocks(history: History[Any], both: tuple[Any, Any], differences: Sequence[str]) -> list[Block]:
    old, new = both
    if not differences:
        return [headline(old, new), Text("no difference that a pod depends on")]
    blocks: list[Block] = [headline(old, new), *difference_lines(differences)]
    if is_wide():
        texts = yaml_text(history.compared(old)), yaml_text(history.compared(new))
        headings = f"revision {old.number}", f"revision {new.number}"
        blocks += [Text(""), side_by_side(headings, texts)]
    return blocks


def difference_lines(differences: Iterable[str]) -> Iterator[Text]:
    """Yield one line per difference: additions are green, removals red and changes yellow."""
    for line in differences:
        yield Text(line, _style(line))


def diff_data(
    name: str, old: Revision[Any], new: Revision[Any], differences: Iterable[str]
) -> dict[str, Any]:
    older, newer = (
        {"revision": entry.number, "key": entry.key, "name": entry.reference.name} for entry in (old, new)
    )
    return {"name": str(name), "from": older, "to": newer, "changes": list(differences)}


def headline(old: Revision[Any], new: Revision[Any]) -> Text:
    return Text(f"revision {old.number} ({old.key}) → revision {new.number} ({new.key})", "bold")


def side_by_side(headings: tuple[str, str], texts: tuple[str, str]) -> Table:
    """Show both texts next to each other: only the lines that differ, and the lines around them."""
    left, right = (text.splitlines() for text in texts)
    rows: list[tuple[Text, ...]] = []
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if number:
            rows.append((_GAP, _GAP))
        for kind, i1, i2, j1, j2 in group:
            styles = ("", "") if kind == "equal" else ("red", "green")
            for lines in zip_longest(left[i1:i2], right[j1:j2]):
                pairs = zip(lines, styles, strict=True)
                rows.append(
                    tuple(Text(line, style) if line is not None else Text("") for line, style in pairs)
                )
    return Table(headings, tuple(rows), is_even=True)


def _style(line: str) -> str:
    # The wording is that of lws.kube.comparison.explain.
    if line.endswith(" added") or " added: " in line:
        return "green"
    if line.endswith(" removed") or " removed, was " in line:
        return "red"
    return "yellow"
