"""`lws undo`: back to an earlier revision; groups that still run it are not restarted.

In: the name of a set and a number. Out: the set changed, and what follows from it in words.
"""

from __future__ import annotations

import click

from lws.actions import Reference
from lws.cli.candidates import complete_revisions
from lws.cli.facts.impact import impact, impact_lines
from lws.cli.facts.lookup import find_history
from lws.cli.facts.retry import write_unless_changed
from lws.cli.facts.revisions import past_of
from lws.cli.facts.undo_patch import FIELD_MANAGER, appliers, check, operations, target_of
from lws.cli.options import EXIT_CODES, cluster_options, set_argument
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import show, warn
from lws.cli.writing import changed


@click.command(epilog=EXIT_CODES)
@set_argument
@click.option(
    "--to-revision",
    "number",
    type=click.IntRange(min=0),
    default=0,
    shell_complete=complete_revisions,
    help="Revision to go back to (default: the one before the current revision).",
)
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@cluster_options
def undo(name: str, number: int, dry_run: bool, target: Target) -> int:
    """Go back to an earlier revision of a set.

    Groups that still run that revision are not restarted; the others follow in a rollout.
    """
    return run(target, lambda session: _undo(session, name, number or None, dry_run))


async def _undo(session: Session, name: str, number: int | None, dry_run: bool) -> int:
    found = await find_history(session, name)
    lws, past = found.lws, past_of(found.snapshot, found.revisions)
    target = target_of(past, number)
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
            Reference.to(read), operations(read, target), FIELD_MANAGER, dry_run=dry_run
        ),
    )
    effect = impact(found.snapshot, {}, after)
    show([changed(lws, f"rolled back to revision {target.number}", dry_run), *impact_lines(effect)])
    return 0
