"""`lws status`: how a set stands and what it waits for, once or until it is settled; or a line for each set.

In: the name of a set, or none. Out: a picture; exit code 0 if everything is as the sets ask.
"""

from __future__ import annotations

import asyncio

import click

from lws import timing
from lws.actions import Object
from lws.cli.arguments.duration import Duration
from lws.cli.arguments.options import all_namespaces_option, cluster_options, output_option, set_argument
from lws.cli.facts.lookup import all_of, find_all, find_sets
from lws.cli.facts.set_status import StatusReport, report_on
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import dump, live, room_for, show, warn
from lws.cli.views.status import progress_line, sets_table, status_blocks, status_data
from lws.cli.writing import print_names

# Headings, conditions and the last word; a picture that is higher than the terminal cannot be drawn anew.
_LINES_BESIDE_GROUPS = 20
_AT_ONCE = 8


@click.command(
    short_help="Show groups, rollout, and what a set waits for.",
    epilog="Exit codes: 0 settled, 1 not settled or an error, 2 wrong usage.",
)
@set_argument(required=False)
@all_namespaces_option
@click.option("-w", "--watch", is_flag=True, help="Follow until the set is settled.")
@click.option(
    "--timeout",
    type=Duration(),
    metavar="DURATION",
    help="How long --watch may take, such as 90s or 30m (default: no limit).",
)
@output_option("json", "yaml", "name", "wide")
@cluster_options
def status(name: str | None, watch: bool, timeout: float | None, output: str | None, target: Target) -> int:
    """Show the groups of a set, its rollout, and what it waits for; without NAME, a line for each set.

    A set is settled when every group is ready and on the revision that it should have, and there are none
    too many.
    """
    if name is not None and target.all_namespaces:
        raise click.UsageError("a resource cannot be retrieved by name across all namespaces")
    if timeout is not None and not watch:
        raise click.UsageError("--timeout requires --watch")
    if name is None:
        if watch:
            raise click.UsageError("--watch requires NAME")
        return run(target, lambda session: _list(session, output))
    if not watch:
        return run(target, lambda session: _look_once(session, name, output))
    if output not in (None, "wide"):
        raise click.UsageError(f"--watch and -o {output} cannot be used together")
    return run(target, lambda session: _follow(session, name, timeout, output == "wide"))


async def _list(session: Session, output: str | None) -> int:
    sets = await find_sets(session)
    slots = asyncio.Semaphore(_AT_ONCE)
    judged = await asyncio.gather(*(_judged(session, lws, slots) for lws in sets))
    readable = [facts for facts in judged if facts is not None]
    if output in ("json", "yaml"):
        dump({"items": [status_data(facts) for facts in readable]}, output)
    elif output == "name":
        print_names(sets)
    elif readable:
        show([sets_table(readable, not session.namespace, output == "wide")])
    elif not sets:
        where = f" in {session.namespace} namespace" if session.namespace else ""
        click.echo(f"No resources found{where}.", err=True)
    return 0 if all(facts is not None and facts.is_settled for facts in judged) else 1


async def _judged(session: Session, lws: Object, slots: asyncio.Semaphore) -> StatusReport | None:
    try:
        async with slots:
            return report_on(await all_of(session, lws))
    except Refusal as refusal:
        # One set that cannot be read does not hide the others.
        warn(refusal.message)
        return None


async def _look_once(session: Session, name: str, output: str | None) -> int:
    facts = report_on(await find_all(session, name))
    if output == "name":
        print_names([facts.objects.lws])
    elif output in ("json", "yaml"):
        dump(status_data(facts), output)
    else:
        show(status_blocks(facts, wide=output == "wide"))
    return 0 if facts.is_settled else 1


async def _follow(session: Session, name: str, timeout: float | None, wide: bool) -> int:
    try:
        async with asyncio.timeout(timeout):
            with live() as draw:
                while True:
                    facts = report_on(await find_all(session, name))
                    room = room_for(_LINES_BESIDE_GROUPS)
                    draw([progress_line(facts)] if room is None else list(status_blocks(facts, room, wide)))
                    if facts.is_settled:
                        return 0
                    await asyncio.sleep(timing.SCREEN_SECONDS)
    except TimeoutError:
        raise Refusal(f"set {name} is not settled after {timeout:g} s") from None
