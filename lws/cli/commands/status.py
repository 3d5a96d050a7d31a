"""`lws status`: how a set stands and what it waits for, once or until it is settled; or a line for each set.

In: the name of a set, or none. Out: a picture; exit code 0 if everything is as the sets ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import click

from lws import timing
from lws.cli.arguments.options import all_namespaces_option, cluster_options, output_option, set_argument
from lws.cli.arguments.set_name import NamedSet
from lws.cli.blocks import Block, Text
from lws.cli.facts.names import UnknownKind, find_sets
from lws.cli.kinds.kind import SetKind, SetState
from lws.cli.kinds.registry import KINDS, kind_of
from lws.cli.refusal import Refusal
from lws.cli.session import Session, Target, run, worded
from lws.cli.views.screen import dump, live, room_for, show, warn
from lws.cli.writing import print_names
from lws.runtime.actions import Object
from lws.runtime.errors import ApiError, ClusterError, Forbidden, Throttled, Unreachable
from lws_api.config.duration import parse


class Duration(click.ParamType[float]):
    """A duration above zero."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            seconds = parse(text if text[-1:].isalpha() else f"{text}s").total_seconds()
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            self.fail(f"{text!r} is not a duration above zero such as 30s or 1m30s", param, ctx)
        return seconds


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
def status(
    name: NamedSet | None, watch: bool, timeout: float | None, output: str | None, target: Target
) -> int:
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
    sets_by_kind = [(kind, await _sets_of(session, kind)) for kind in KINDS]
    sets = [obj for _, listed in sets_by_kind for obj in listed or ()]
    slots = asyncio.Semaphore(_AT_ONCE)
    judged: list[tuple[SetKind, list[SetState]]] = []
    for kind, listed in sets_by_kind:
        looks = await asyncio.gather(*(_judged(session, kind, obj, slots) for obj in listed or ()))
        judged.append((kind, [standing for standing in looks if standing is not None]))
    readable = [standing for _, standings in judged for standing in standings]
    if output in ("json", "yaml"):
        dump({"items": [standing.data() for standing in readable]}, output)
    elif output == "name":
        print_names(sets)
    elif readable:
        show(_tables(judged, not session.namespace, output == "wide"))
    elif not sets:
        where = f" in {session.namespace} namespace" if session.namespace else ""
        click.echo(f"No resources found{where}.", err=True)
    is_whole = len(readable) == len(sets) and all(listed is not None for _, listed in sets_by_kind)
    return 0 if is_whole and all(standing.is_settled for standing in readable) else 1


async def _sets_of(session: Session, kind: SetKind) -> Sequence[Object] | None:
    """None where nobody can say: they do not hide those of other kinds."""
    try:
        return await find_sets(session, kind.resource)
    except UnknownKind:
        if kind is KINDS[0]:
            raise
        return ()
    except Forbidden as error:
        if kind is KINDS[0]:
            raise
        warn(worded(error).message)
        return None


def _tables(
    judged: Sequence[tuple[SetKind, Sequence[SetState]]], with_namespace: bool, wide: bool
) -> Iterator[Block]:
    is_first = True
    for kind, standings in judged:
        if standings:
            if not is_first:
                yield Text("")
            yield kind.table(standings, with_namespace, wide)
            is_first = False


async def _judged(session: Session, kind: SetKind, obj: Object, slots: asyncio.Semaphore) -> SetState | None:
    try:
        async with slots:
            return await kind.standing(session, obj)
    except Refusal as refusal:
        # One set that cannot be read does not hide the others.
        warn(refusal.message)
    except ApiError as error:
        warn(f"set {obj['metadata']['name']} cannot be shown: {worded(error).message}")
    return None


async def _look(session: Session, name: NamedSet) -> SetState:
    kind = kind_of(name)
    return await kind.standing(session, await kind.find(session, name))


async def _look_once(session: Session, name: NamedSet, output: str | None) -> int:
    standing = await _look(session, name)
    if output == "name":
        print_names([standing.obj])
    elif output in ("json", "yaml"):
        dump(standing.data(), output)
    else:
        show(standing.blocks(None, output == "wide"))
    return 0 if standing.is_settled else 1


async def _follow(session: Session, name: NamedSet, timeout: float | None, wide: bool) -> int:
    shown: list[Block] = []
    trouble = ""
    try:
        async with asyncio.timeout(timeout):
            with live() as draw:
                while True:
                    pause = timing.SCREEN_SECONDS
                    try:
                        standing = await _look(session, name)
                    except ClusterError as error:
                        if not _may_pass(error, bool(shown)):
                            raise
                        trouble = error.message
                        pause = max(pause, (error.retry_after or 0) if isinstance(error, ApiError) else 0)
                        draw([*shown, Text(f"{trouble}; looking again", "yellow")])
                    else:
                        trouble = ""
                        room = room_for(_LINES_BESIDE_GROUPS)
                        is_line = room is None
                        shown = [standing.progress()] if is_line else list(standing.blocks(room, wide))
                        draw(shown)
                        if standing.is_settled:
                            return 0
                    await asyncio.sleep(pause)
    except TimeoutError:
        reason = f": {trouble}" if trouble else ""
        raise Refusal(f"set {name} is not settled after {timeout:g} s{reason}") from None


def _may_pass(error: ClusterError, is_known: bool) -> bool:
    """The next look may fare better. is_known: there is such a server, it has answered before."""
    if isinstance(error, Unreachable):
        return is_known
    return isinstance(error, Throttled) or (isinstance(error, ApiError) and error.status >= 500)
