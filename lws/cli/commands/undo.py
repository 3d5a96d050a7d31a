"""`lws undo`: back to an earlier revision; groups that still run it are not restarted.

In: the name of a set and a number. Out: the set changed, and what follows from it in words.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import click

from lws.actions import Object, Reference
from lws.cli.arguments.candidates import complete_revisions
from lws.cli.arguments.options import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import AnySetName, DisaggregatedName
from lws.cli.blocks import Text
from lws.cli.facts import disaggregated
from lws.cli.facts.impact import impact, impact_lines
from lws.cli.facts.lookup import find_history
from lws.cli.facts.retry import write_unless_changed
from lws.cli.facts.revisions import past_of
from lws.cli.facts.undo_patch import FIELD_MANAGER, appliers, check, operations, target_of
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import warn
from lws.cli.writing import changed, report

_NO_DRY_RUN, _DRY_RUN = "none", "server"


@dataclass(frozen=True, slots=True)
class Manner:
    """How it is undone. number: of the revision, None for the one before the current one."""

    number: int | None
    dry_run: bool
    output: str | None


class _Command(click.Command):
    """Takes `--dry-run` without a value, as kubectl does; what follows it is no value then."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{arg}={_DRY_RUN}" if arg == "--dry-run" else arg for arg in args])


@click.command(cls=_Command, epilog=EXIT_CODES)
@set_argument(type_=AnySetName())
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
def undo(name: str, number: int, dry_run: str, output: str | None, target: Target) -> int:
    """Go back to an earlier revision of a set.

    Groups that still run that revision are not restarted; the others follow in a rollout.
    """
    undo_set = _undo_disaggregated if isinstance(name, DisaggregatedName) else _undo
    return run(
        target, lambda session: undo_set(session, name, Manner(number or None, dry_run == _DRY_RUN, output))
    )


async def _undo(session: Session, name: str, manner: Manner) -> int:
    found = await find_history(session, name)
    lws, past = found.lws, past_of(found.snapshot, found.revisions)
    target = target_of(past, manner.number)
    check(lws, past, target)
    for manager in appliers(lws):
        warn(
            f"{manager} applies the template of this set: its next apply will undo this undo. Change it "
            f"there too"
        )
    after = await write_unless_changed(
        session,
        lws,
        lambda read: session.cluster.json_patch(
            Reference.to(read), operations(read, target), FIELD_MANAGER, dry_run=manner.dry_run
        ),
    )
    effect = impact(found.snapshot, {}, after)
    headline = changed(after, f"rolled back to revision {target.number}", manner.dry_run)
    report(after, manner.output, [headline, *impact_lines(effect)])
    return 0


async def _undo_disaggregated(session: Session, name: str, manner: Manner) -> int:
    past = await disaggregated.find_disaggregated(session, name)
    target = past.numbered(manner.number) if manner.number is not None else past.before(past.wanted)
    disaggregated.check(past, target)
    for manager in appliers(past.obj):
        warn(
            f"{manager} applies the roles of this set: its next apply will undo this undo. Change them there "
            f"too"
        )

    def go_back(read: Object) -> Awaitable[dict[str, Any]]:
        operations = disaggregated.operations(past, read, target)
        return session.cluster.json_patch(
            Reference.to(read), operations, FIELD_MANAGER, dry_run=manner.dry_run
        )

    after = await write_unless_changed(session, past.obj, go_back)
    headline = changed(after, f"rolled back to revision {target.number}", manner.dry_run)
    returned = (
        Text(f"role {role} comes back; look at its replicas")
        for role in disaggregated.returning(past, target)
    )
    report(after, manner.output, [headline, *returned])
    return 0
