"""`lws undo`: back to an earlier revision; groups that still run it are not restarted.

In: the name of a set and a number. Out: the set changed, and what follows from it in words.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import click

from lws.cli.arguments.candidates import complete_revisions
from lws.cli.arguments.options import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.facts.changes.retry import write_unless_changed
from lws.cli.facts.changes.role_of import caution
from lws.cli.facts.changes.undo_patch import FIELD_MANAGER, appliers
from lws.cli.kinds.registry import kind_of
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import warn
from lws.cli.writing import changed, report
from lws.runtime.actions import Object, Reference

_NO_DRY_RUN, _DRY_RUN = "none", "server"


@dataclass(frozen=True, slots=True)
class UndoOptions:
    """How it is undone. number: of the revision, None for the one before the current one."""

    number: int | None
    dry_run: bool
    output: str | None


class _Command(click.Command):
    """Takes `--dry-run` without a value, as kubectl does; what follows it is no value then."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{arg}={_DRY_RUN}" if arg == "--dry-run" else arg for arg in args])


@click.command(cls=_Command, epilog=EXIT_CODES)
@set_argument()
@click.option(
    "--to-revision",
    "number",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    shell_complete=complete_revisions,
    help="Revision to go back to (default: the one before the current revision).",
)
@click.option(
    "--dry-run",
    type=click.Choice((_NO_DRY_RUN, _DRY_RUN)),
    default=_NO_DRY_RUN,
    help="Show what would happen; nothing is changed. Without a value: server.",
)
@output_option(*OBJECT_FORMATS)
@cluster_options
def undo(name: NamedSet, number: int, dry_run: str, output: str | None, target: Target) -> int:
    """Go back to an earlier revision of a set.

    Groups that still run that revision are not restarted; the others follow in a rollout.
    """
    manner = UndoOptions(number or None, dry_run == _DRY_RUN, output)
    return run(target, lambda session: _undo(session, name, manner))


async def _undo(session: Session, name: NamedSet, manner: UndoOptions) -> int:
    history = await kind_of(name).history(session, name)
    obj, number = history.obj, manner.number
    target = history.numbered(number) if number is not None else history.before(history.wanted)
    history.check(target)
    if history.is_wanted(target):
        skipped = f"skipped rollback (current template already matches revision {target.number})"
        report(obj, manner.output, [changed(obj, skipped)])
        return 0
    if message := caution(obj, "undo"):
        warn(message)
    for manager in appliers(obj):
        warn(
            f"{manager} applies the template of this set: its next apply will undo this undo. Change it "
            f"there too"
        )

    def go_back(read: Object) -> Awaitable[dict[str, Any]]:
        operations = history.operations(read, target)
        return session.cluster.json_patch(
            Reference.to(read), operations, FIELD_MANAGER, dry_run=manner.dry_run
        )

    after = await write_unless_changed(session, obj, go_back)
    headline = changed(after, f"rolled back to revision {target.number}", manner.dry_run)
    report(after, manner.output, [headline, *history.consequences(after, target)])
    return 0
