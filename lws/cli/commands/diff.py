"""`lws diff`: what is different between two revisions of a set.

In: the name of a set and two numbers. Out: one line per difference; where the terminal is wide also both
templates side by side.
"""

from __future__ import annotations

import click

from lws.cli.commands.completion import complete_revisions, complete_sets
from lws.cli.facts.lookup import find_history
from lws.cli.facts.revisions import Past, past_of
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, cluster_options, run
from lws.cli.views.blocks import Block, Text
from lws.cli.views.diff import compared, difference_lines, headline, side_by_side
from lws.cli.views.screen import is_wide, show, yaml_text
from lws.leaderworkerset.revisions.history import Recorded

_NUMBER = click.IntRange(min=1)


@click.command()
@click.argument("name", shell_complete=complete_sets)
@click.option(
    "--from", "old", type=_NUMBER, shell_complete=complete_revisions, help="The one before --to without it."
)
@click.option(
    "--to", "new", type=_NUMBER, shell_complete=complete_revisions, help="What the set asks for without it."
)
@cluster_options
def diff(name: str, old: int | None, new: int | None, target: Target) -> int:
    """Show what is different between two revisions of a set.

    Only what means something is shown: another spelling of the same template is no difference.
    """
    return run(target, lambda session: _diff(session, name, old, new))


async def _diff(session: Session, name: str, old: int | None, new: int | None) -> int:
    found = await find_history(session, name)
    show(_blocks(*_chosen(past_of(found.snapshot, found.revisions), old, new)))
    return 0


def _chosen(past: Past, old: int | None, new: int | None) -> tuple[Recorded, Recorded]:
    if new is not None:
        later = past.numbered(new)
    elif past.wanted is not None:
        later = past.numbered(past.wanted.number)
    else:
        raise Refusal(f"what set {past.name} asks for is not recorded yet: say --to, or wait a moment")
    return (past.numbered(old) if old is not None else past.before(later)), later


def _blocks(old: Recorded, new: Recorded) -> list[Block]:
    lines = list(difference_lines(old, new))
    if not lines:
        return [headline(old, new), Text("no difference that a pod depends on")]
    blocks: list[Block] = [headline(old, new), *lines]
    if is_wide():
        texts = yaml_text(compared(old)), yaml_text(compared(new))
        headings = f"revision {old.number}", f"revision {new.number}"
        blocks += [Text(""), side_by_side(headings, texts)]
    return blocks
