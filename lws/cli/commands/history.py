"""`lws history`: the recorded revisions of a set, who runs on them, and what changed from one to the next.

In: the name of a set. Out: a table, one revision in full, or data.
"""

from __future__ import annotations

import click

from lws.cli.arguments.candidates import complete_revisions
from lws.cli.arguments.options import cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import AnySetName, DisaggregatedName
from lws.cli.blocks import Text
from lws.cli.facts.disaggregated import find_disaggregated
from lws.cli.facts.lookup import find_history
from lws.cli.facts.revisions import past_of
from lws.cli.session import Session, Target, run
from lws.cli.views import disaggregated
from lws.cli.views.history import history_data, history_table, one_revision, template_of
from lws.cli.views.screen import dump, show, warn, yaml_text


@click.command(epilog="Exit codes: 0 success, 1 a problem with the history or an error, 2 wrong usage.")
@set_argument(type_=AnySetName())
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    metavar="N",
    shell_complete=complete_revisions,
    help="Show only this revision, with its template.",
)
@output_option("json", "yaml", "name", "wide")
@cluster_options
def history(name: str, revision: int | None, output: str | None, target: Target) -> int:
    """Show the recorded revisions of a set, the oldest first.

    GROUPS is how many groups run on a revision, and which; CHANGE is what differs from the revision before
    it.
    """
    show_history = _disaggregated if isinstance(name, DisaggregatedName) else _history
    return run(target, lambda session: show_history(session, name, revision, output))


async def _history(session: Session, name: str, number: int | None, output: str | None) -> int:
    found = await find_history(session, name)
    past = past_of(found.snapshot, found.revisions)
    chosen = past.recorded if number is None else (past.numbered(number),)
    complaints = list(past.complaints()) if number is None else []
    if output == "name":
        for each in chosen:
            click.echo(f"controllerrevision.apps/{each.name}")
    elif output in ("json", "yaml"):
        dump(history_data(past, chosen, with_spec=number is not None), output)
    elif number is not None:
        show(one_revision(past, chosen[0], session.now, yaml_text(template_of(chosen[0]))))
    elif chosen:
        table = history_table(past, session.now, output == "wide")
        show([Text(f"LeaderWorkerSet {session.namespace}/{name}"), table])
    else:
        show([Text(f"LeaderWorkerSet {session.namespace}/{name} has no recorded revision yet")])
    for complaint in complaints:
        warn(complaint)
    return 1 if complaints else 0


async def _disaggregated(session: Session, name: str, number: int | None, output: str | None) -> int:
    past = await find_disaggregated(session, name)
    chosen = past.revisions if number is None else (past.numbered(number),)
    complaints = [each.broken for each in chosen if each.broken]
    if output == "name":
        for each in chosen:
            click.echo(f"controllerrevision.apps/{each.name}")
    elif output in ("json", "yaml"):
        dump(disaggregated.history_data(past, chosen, with_roles=number is not None), output)
    elif number is not None:
        roles = yaml_text(list(chosen[0].record.parts))
        show(disaggregated.one_revision(past, chosen[0], session.now, roles))
    elif chosen:
        table = disaggregated.history_table(past, session.now, output == "wide")
        show([Text(f"DisaggregatedSet {session.namespace}/{name}"), table])
    else:
        show([Text(f"DisaggregatedSet {session.namespace}/{name} has no recorded revision yet")])
    for complaint in complaints:
        warn(complaint)
    return 1 if complaints else 0
