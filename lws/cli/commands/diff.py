"""`lws diff`: what is different between two revisions of a set.

In: the name of a set and two numbers. Out: one line per difference; where the terminal is wide also both
templates side by side; exit codes as those of `kubectl diff`.
"""

from __future__ import annotations

import click

from lws.cli.arguments.candidates import complete_revisions
from lws.cli.arguments.options import cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import AnySetName, DisaggregatedName
from lws.cli.blocks import Block, Text
from lws.cli.facts.disaggregated import DisaggregatedPast, find_disaggregated
from lws.cli.facts.lookup import find_history
from lws.cli.facts.revisions import Past, past_of
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.views import disaggregated
from lws.cli.views.diff import compared, diff_data, difference_lines, headline, side_by_side, styled
from lws.cli.views.screen import dump, is_wide, show, yaml_text
from lws.disaggregatedset.revisions.diff import describe
from lws.disaggregatedset.revisions.record import Recorded as DisaggregatedRevision
from lws.leaderworkerset.revisions.history import Recorded

_DIFFERENCE = 1
_NUMBER = click.IntRange(min=1)


class _Error(Refusal):
    """As in `kubectl diff`, 1 is a difference."""

    exit_code = 2


@click.command(epilog="Exit codes: 0 no difference, 1 a difference, 2 error or wrong usage.")
@set_argument(type_=AnySetName())
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
def diff(name: str, old: int | None, new: int | None, output: str | None, target: Target) -> int:
    """Show the differences between two revisions of a set.

    Only differences that a pod depends on are shown: another spelling of the same template is none.
    """
    try:
        compare = _disaggregated if isinstance(name, DisaggregatedName) else _diff
        return run(target, lambda session: compare(session, name, (old, new), output))
    except Refusal as refusal:
        raise _Error(refusal.message, refusal.opening) from refusal


async def _diff(
    session: Session, name: str, numbers: tuple[int | None, int | None], output: str | None
) -> int:
    found = await find_history(session, name)
    older, newer = _chosen(past_of(found.snapshot, found.revisions), *numbers)
    lines = list(difference_lines(older, newer))
    if output is None:
        show(_blocks(older, newer, lines))
    else:
        dump(diff_data(name, older, newer), output)
    return _DIFFERENCE if lines else 0


async def _disaggregated(
    session: Session, name: str, numbers: tuple[int | None, int | None], output: str | None
) -> int:
    past = await find_disaggregated(session, name)
    older, newer = _disaggregated_pair(past, *numbers)
    lines = describe(older.record, newer.record)
    if output is None:
        none = [Text("no difference that a pod depends on")]
        show([headline(older, newer), *(map(styled, lines) if lines else none)])
    else:
        dump(disaggregated.diff_data(past, older, newer), output)
    return _DIFFERENCE if lines else 0


def _disaggregated_pair(
    past: DisaggregatedPast, old: int | None, new: int | None
) -> tuple[DisaggregatedRevision, DisaggregatedRevision]:
    later = past.numbered(new) if new is not None else past.wanted
    if later is None:
        raise Refusal(f"what set {past.name} asks for is not recorded yet: say --to, or wait a moment")
    return (past.numbered(old) if old is not None else past.before(later)), later


def _chosen(past: Past, old: int | None, new: int | None) -> tuple[Recorded, Recorded]:
    if new is not None:
        later = past.numbered(new)
    elif past.wanted is not None:
        later = past.numbered(past.wanted.number)
    else:
        raise Refusal(f"what set {past.name} asks for is not recorded yet: say --to, or wait a moment")
    return (past.numbered(old) if old is not None else past.before(later)), later


def _blocks(old: Recorded, new: Recorded, lines: list[Text]) -> list[Block]:
    if not lines:
        return [headline(old, new), Text("no difference that a pod depends on")]
    blocks: list[Block] = [headline(old, new), *lines]
    if is_wide():
        texts = yaml_text(compared(old)), yaml_text(compared(new))
        headings = f"revision {old.number}", f"revision {new.number}"
        blocks += [Text(""), side_by_side(headings, texts)]
    return blocks
