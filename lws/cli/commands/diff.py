"""`lws diff`: what is different between two revisions of a set.

In: the name of a set and two numbers. Out: one line per difference; where the terminal is wide also both
templates side by side; exit codes as those of `kubectl diff`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from lws.cli.arguments.candidates import complete_revisions
from lws.cli.arguments.options import cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.blocks import Block, Text
from lws.cli.kinds.kind import History
from lws.cli.kinds.registry import kind_of
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.views.diff import diff_data, difference_lines, headline, side_by_side
from lws.cli.views.screen import dump, is_wide, show, yaml_text

_DIFFERENCE = 1
_NUMBER = click.IntRange(min=1)


class _Error(Refusal):
    """As in `kubectl diff`, 1 is a difference."""

    exit_code = 2


@click.command(epilog="Exit codes: 0 no difference, 1 a difference, 2 error or wrong usage.")
@set_argument()
@click.option(
    "--from",
    "old",
    type=_NUMBER,
    metavar="N",
    shell_complete=complete_revisions,
    help="Older revision (default: the one before --to).",
)
@click.option(
    "--to",
    "new",
    type=_NUMBER,
    metavar="N",
    shell_complete=complete_revisions,
    help="Newer revision (default: the one that the set asks for).",
)
@output_option("json", "yaml")
@cluster_options
def diff(name: NamedSet, old: int | None, new: int | None, output: str | None, target: Target) -> int:
    """Show the differences between two revisions of a set.

    Only differences that a pod depends on are shown: the same template written in another way is none.
    """
    try:
        return run(target, lambda session: _diff(session, name, (old, new), output))
    except Refusal as refusal:
        raise _Error(refusal.message, refusal.opening) from refusal


async def _diff(
    session: Session, name: NamedSet, numbers: tuple[int | None, int | None], output: str | None
) -> int:
    history = await kind_of(name).history(session, name)
    older, newer = _chosen(history, *numbers)
    differences = history.differences(older, newer)
    if output is None:
        show(_blocks(history, (older, newer), differences))
    else:
        dump(diff_data(name, older, newer, differences), output)
    return _DIFFERENCE if differences else 0


def _chosen(history: History, old: int | None, new: int | None) -> tuple[Any, Any]:
    if new is not None:
        later = history.numbered(new)
    elif history.wanted is not None:
        later = history.numbered(history.wanted.number)
    else:
        name = history.obj["metadata"]["name"]
        raise Refusal(f"what set {name} asks for is not recorded yet: say --to, or wait a moment")
    return (history.numbered(old) if old is not None else history.before(later)), later


def _blocks(history: History, both: tuple[Any, Any], differences: Sequence[str]) -> list[Block]:
    old, new = both
    if not differences:
        return [headline(old, new), Text("no difference that a pod depends on")]
    blocks: list[Block] = [headline(old, new), *difference_lines(differences)]
    if is_wide():
        texts = yaml_text(history.compared(old)), yaml_text(history.compared(new))
        headings = f"revision {old.number}", f"revision {new.number}"
        blocks += [Text(""), side_by_side(headings, texts)]
    return blocks
