"""`lws history`: the recorded revisions of a set, who runs on them, and what changed from one to the next.

In: the name of a set. Out: a table, one revision in full, or data.
"""

from __future__ import annotations

import click

from lws.cli.arguments.candidates import complete_revisions
from lws.cli.arguments.options import cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.blocks import Text
from lws.cli.kinds.registry import kind_of
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import dump, show, warn


@click.command(epilog="Exit codes: 0 success, 1 a problem with the history or an error, 2 wrong usage.")
@set_argument()
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    metavar="N",
    shell_complete=complete_revisions,
    help="Show only this revision, with its template.",
)
@output_option("json", "yaml", "name", "wide")
@cluster_options
def history(name: NamedSet, revision: int | None, output: str | None, target: Target) -> int:
    """Show the recorded revisions of a set, the oldest first.

    GROUPS is how many groups run on a revision, and which; CHANGE is what differs from the revision before
    it.
    """
    return run(target, lambda session: _history(session, name, revision, output))


async def _history(session: Session, name: NamedSet, number: int | None, output: str | None) -> int:
    history = await kind_of(name).history(session, name)
    chosen = history.revisions if number is None else (history.numbered(number),)
    complaints = history.complaints if number is None else ()
    title = f"{name.type.resource.kind} {session.namespace}/{name}"
    if output == "name":
        for revision in chosen:
            click.echo(f"controllerrevision.apps/{revision.name}")
    elif output in ("json", "yaml"):
        dump(history.data(chosen, whole=number is not None), output)
    elif number is not None:
        show(history.one(chosen[0], session.now))
    elif chosen:
        show([Text(title), history.table(session.now, output == "wide")])
    else:
        show([Text(f"{title} has no recorded revision yet")])
    for complaint in complaints:
        warn(complaint)
    return 1 if complaints else 0
