"""`lws status`: how a set stands and what it waits for, once or until it is settled.

In: the name of a set. Out: a picture; exit code 0 if everything is as the set asks.
"""

from __future__ import annotations

import asyncio

import click

from lws.cli.facts.lookup import find_all
from lws.cli.facts.set_status import report_on
from lws.cli.options import cluster_options, set_argument
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run
from lws.cli.views.screen import FORMATS, dump, live, room_for, show
from lws.cli.views.status import progress_line, status_blocks, status_data

_LOOK_AGAIN_SECONDS = 1.0
# Headings, conditions and the last word; a picture that is higher than the terminal cannot be drawn anew.
_LINES_BESIDE_GROUPS = 20


@click.command(epilog="Exit codes: 0 settled, 1 not settled or an error, 2 wrong usage.")
@set_argument
@click.option("-w", "--watch", is_flag=True, help="Follow until the set is settled.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long --watch may take (default: no limit).",
)
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Data instead of a picture.")
@cluster_options
def status(name: str, watch: bool, timeout: float | None, output: str | None, target: Target) -> int:
    """Show the groups of a set, its rollout, and what it waits for.

    A set is settled when every group is ready and on the revision that it should have, and there are none
    too many.
    """
    if watch and output is not None:
        raise click.UsageError("--watch and -o cannot be used together")
    if timeout is not None and not watch:
        raise click.UsageError("--timeout requires --watch")
    if watch:
        return run(target, lambda session: _follow(session, name, timeout))
    return run(target, lambda session: _look_once(session, name, output))


async def _look_once(session: Session, name: str, output: str | None) -> int:
    facts = report_on(await find_all(session, name))
    if output is None:
        show(status_blocks(facts))
    else:
        dump(status_data(facts), output)
    return 0 if facts.is_settled else 1


async def _follow(session: Session, name: str, timeout: float | None) -> int:
    try:
        async with asyncio.timeout(timeout):
            with live() as draw:
                while True:
                    facts = report_on(await find_all(session, name))
                    room = room_for(_LINES_BESIDE_GROUPS)
                    draw([progress_line(facts)] if room is None else list(status_blocks(facts, room)))
                    if facts.is_settled:
                        return 0
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    except TimeoutError:
        raise Refusal(f"set {name} is not settled after {timeout:g} s") from None
