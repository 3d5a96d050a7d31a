"""`lws restart`: every group anew, by one rollout.

In: the name of a set. Out: the set with an annotation in its pod templates, that of `kubectl rollout
restart`.
"""

from __future__ import annotations

import click

from lws.cli.arguments.options import EXIT_CODES, OBJECT_FORMATS, cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.facts.changes.retry import write_unless_changed
from lws.cli.facts.changes.role_of import caution
from lws.cli.kinds.registry import kind_of
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import warn
from lws.cli.writing import changed, report
from lws.runtime.actions import Reference

FIELD_MANAGER = "lws-restart"


@click.command(epilog=EXIT_CODES)
@set_argument()
@output_option(*OBJECT_FORMATS)
@cluster_options
def restart(name: NamedSet, output: str | None, target: Target) -> int:
    """Restart all groups of a set in a rollout within its limits.

    The roles of a DisaggregatedSet are rolled in step, so all of them restart.
    """
    return run(target, lambda session: _restart(session, name, output))


async def _restart(session: Session, name: NamedSet, output: str | None) -> int:
    kind = kind_of(name)
    obj = await kind.find(session, name)
    patch = kind.restart_patch(obj, session.now)
    if message := caution(obj, "restart"):
        warn(message)
    after = await write_unless_changed(
        session,
        obj,
        lambda read: session.cluster.merge_patch(Reference.to(read), patch, FIELD_MANAGER),
    )
    report(after, output, [changed(after, "restarted")])
    return 0
