"""`lws status`: show the state of a set, once or until it is settled, or one line for each set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from lws import timing
from lws.cli.arguments import all_namespaces_option, cluster_options, output_option, set_argument
from lws.cli.screen import Bar, Block, Table, Text, age, dump, live, room_for, row, show, warn
from lws.cli.session import ClusterOptions, Refusal, Session, run, worded
from lws.cli.sets import KINDS, NamedSet, SetKind, UnknownKind, find, find_sets, kind_of, print_names
from lws.cli.states import ChildLine, DisaggregatedReport, GroupLine, SetState, StatusReport, state_of
from lws.leaderworkerset.spec import effective_node_return, ends_in_parallel, other_manager
from lws.runtime.actions import Object
from lws.runtime.errors import ApiError, ClusterError, Forbidden, Throttled, Unreachable
from lws_api.config.duration import parse
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.leaderworkerset.placement import NodeReturn
from lws_api.leaderworkerset.v1 import KIND

_RETURNS = {
    NodeReturn.PREFERRED: "if they can",
    NodeReturn.REQUIRED: "unless these are gone, cordoned, lost or excepted",
}
_STYLES = {"True": "green", "Unknown": "yellow"}

_Line = TypeVar("_Line")


class Duration(click.ParamType[float]):
    """The type of an option for a duration above zero, in seconds."""

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


# Lines for headings, conditions and the last line. A picture higher than the terminal cannot be redrawn.
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
    name: NamedSet | None, watch: bool, timeout: float | None, output: str | None, target: ClusterOptions
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
        return run(target, lambda session: _show(session, name, output))
    if output not in (None, "wide"):
        raise click.UsageError(f"--watch and -o {output} cannot be used together")
    return run(target, lambda session: _follow(session, name, timeout, output == "wide"))


async def _list(session: Session, output: str | None) -> int:
    sets_by_kind = [(kind, await _sets_of(session, kind)) for kind in KINDS]
    sets = [obj for _, listed in sets_by_kind for obj in listed or ()]
    slots = asyncio.Semaphore(_AT_ONCE)
    tables: list[list[SetState]] = []
    for _, listed in sets_by_kind:
        states = await asyncio.gather(*(_state_or_warning(session, obj, slots) for obj in listed or ()))
        tables.append([state for state in states if state is not None])
    readable = [state for states in tables for state in states]
    if output in ("json", "yaml"):
        dump({"items": [status_data(state) for state in readable]}, output)
    elif output == "name":
        print_names(sets)
    elif readable:
        show(_tables(filter(None, tables), not session.namespace, output == "wide"))
    elif not sets:
        scope = f" in {session.namespace} namespace" if session.namespace else ""
        click.echo(f"No resources found{scope}.", err=True)
    is_whole = len(readable) == len(sets) and all(listed is not None for _, listed in sets_by_kind)
    return 0 if is_whole and all(state.is_settled for state in readable) else 1


async def _sets_of(session: Session, kind: SetKind) -> Sequence[Object] | None:
    """Return the sets of a kind: none without its CRD; None, after a warning, if listing it is forbidden."""
    try:
        return await find_sets(session, kind)
    except UnknownKind:
        if kind is KINDS[0]:
            raise
        return ()
    except Forbidden as error:
        if kind is KINDS[0]:
            raise
        warn(worded(error).message)
        return None


def _tables(tables: Iterable[Sequence[SetState]], with_namespace: bool, wide: bool) -> Iterator[Block]:
    for position, states in enumerate(tables):
        if position:
            yield Text("")
        yield sets_table(states, with_namespace, wide)


async def _state_or_warning(session: Session, obj: Object, slots: asyncio.Semaphore) -> SetState | None:
    try:
        async with slots:
            return await state_of(session, obj)
    except Refusal as refusal:
        # A set that cannot be read does not hide the others.
        warn(refusal.message)
    except ApiError as error:
        warn(f"set {obj['metadata']['name']} cannot be shown: {worded(error).message}")
    return None


async def _read(session: Session, name: NamedSet) -> SetState:
    return await state_of(session, await find(session, name))


async def _show(session: Session, name: NamedSet, output: str | None) -> int:
    state = await _read(session, name)
    if output == "name":
        print_names([state.obj])
    elif output in ("json", "yaml"):
        dump(status_data(state), output)
    else:
        show(status_blocks(state, None, output == "wide"))
    return 0 if state.is_settled else 1


async def _follow(session: Session, name: NamedSet, timeout: float | None, wide: bool) -> int:
    blocks: list[Block] = []
    problem = ""
    try:
        async with asyncio.timeout(timeout):
            with live() as draw:
                while True:
                    pause = timing.SCREEN_SECONDS
                    try:
                        state = await _read(session, name)
                    except ClusterError as error:
                        if not _may_pass(error, bool(blocks)):
                            raise
                        problem = error.message
                        pause = max(pause, error.retry_after or 0.0)
                        draw([*blocks, Text(f"{problem}; retrying", "yellow")])
                    else:
                        problem = ""
                        room = room_for(_LINES_BESIDE_GROUPS)
                        blocks = (
                            [progress_line(state)] if room is None else list(status_blocks(state, room, wide))
                        )
                        draw(blocks)
                        if state.is_settled:
                            return 0
                    await asyncio.sleep(pause)
    except TimeoutError:
        reason = f": {problem}" if problem else ""
        raise Refusal(f"set {name} is not settled after {timeout:g} s{reason}") from None


def _may_pass(error: ClusterError, is_known: bool) -> bool:
    """Return whether the next attempt may succeed. is_known: whether the server has answered before."""
    if isinstance(error, Unreachable):
        return is_known
    return isinstance(error, Throttled) or (isinstance(error, ApiError) and error.status >= 500)


def status_blocks(state: SetState, most: int | None = None, wide: bool = False) -> Iterator[Block]:
    """Show the state of one set. most: maximum number of rows, waiting ones first; None shows all rows."""
    metadata, view = state.obj["metadata"], _VIEWS[state.obj["kind"]]
    yield Text(f"{state.obj['kind']} {metadata['namespace']}/{metadata['name']}", "bold")
    number = state.number(state.key)
    revision = f"revision {number} ({state.key})" if number is not None else f"key {state.key}"
    yield Bar(state.updated, state.replicas, f"groups ready on {revision}")
    yield from (Text(line, "yellow") for line in view.notes(state))
    if table := list(view.table(state, most, wide)):
        yield Text("")
        yield from table
    yield from _conditions(state)
    yield Text("")
    if not state.is_settled:
        yield from _pace(state)
    yield _last_line(state)


def status_data(state: SetState) -> dict[str, Any]:
    metadata, view = state.obj["metadata"], _VIEWS[state.obj["kind"]]
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "settled": state.is_settled,
        "waitingFor": state.waiting_for,
        "paused": state.is_paused,
        "key": state.key,
        **view.counts(state),
        "lastProgress": state.last_progress or None,
        "stalled": state.is_stalled,
        **view.details(state),
        "conditions": list(state.conditions),
    }


def progress_line(state: SetState) -> Text:
    """Return the state of a set in one line, for watching it without a terminal."""
    last = _last_line(state).text
    return Text(f"{state.updated} of {state.replicas} groups are updated and ready: {last}")


def sets_table(states: Sequence[SetState], with_namespace: bool, wide: bool = False) -> Table:
    """Return a table with a row for each set of one kind. wide: whether to add the target revision's key."""
    columns = (
        *(("NAMESPACE",) if with_namespace else ()),
        "NAME",
        *(("SLICES",) if states[0].slices is not None else ()),
        *("READY", "UPDATED", "REVISION", "AGE"),
        *(("KEY",) if wide else ()),
        "WAITING",
    )
    return Table(columns, tuple(_set_row(state, with_namespace, wide) for state in states))


def _set_row(state: SetState, with_namespace: bool, wide: bool) -> tuple[Text, ...]:
    metadata = state.obj["metadata"]
    return row(
        *((metadata["namespace"],) if with_namespace else ()),
        f"{kind_of(state.obj).prefix}{metadata['name']}",
        *((str(state.slices),) if state.slices is not None else ()),
        Text(f"{state.ready}/{state.replicas}", "green" if state.ready == state.replicas else "yellow"),
        str(state.updated),
        str(state.number(state.key) or state.key or "<none>"),
        age(metadata.get("creationTimestamp"), state.now),
        *((state.key,) if wide else ()),
        Text(state.waiting_for, "yellow"),
    )


def _last_line(state: SetState) -> Text:
    return Text(f"waits for {state.waiting_for}", "yellow") if state.waiting_for else Text("settled", "green")


def _conditions(state: SetState) -> Iterator[Block]:
    """Yield an empty line and a table of the conditions; nothing if there are none."""
    if not state.conditions:
        return
    yield Text("")
    rows = tuple(
        row(
            condition["type"],
            Text(condition["status"], _STYLES.get(condition["status"], "")),
            condition.get("reason", ""),
            age(condition.get("lastTransitionTime"), state.now),
            condition.get("message", ""),
        )
        for condition in state.conditions
    )
    yield Table(("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def _pace(state: SetState) -> Iterator[Text]:
    """Yield the number of groups by state, and the time since the last progress."""
    if state.counts:
        counts = ", ".join(f"{count} {name}" for name, count in state.counts.items())
        yield Text(f"groups: {counts}", "yellow")
    if state.last_progress and not state.is_paused:
        limit = f"; stalls after {state.deadline} s without progress" if state.deadline is not None else ""
        style = "red" if state.is_stalled else ""
        yield Text(f"last progress {age(state.last_progress, state.now)} ago{limit}", style)


def _table(
    lines: Sequence[_Line],
    most: int | None,
    waits: Callable[[_Line], object],
    columns: tuple[str, ...],
    row_of: Callable[[_Line], tuple[Text, ...]],
    noun: str,
) -> Iterator[Block]:
    """Yield a table of the rows that fit, in order but preferring waiting ones, and a line about the rest."""
    order = sorted(range(len(lines)), key=lambda position: not waits(lines[position]))
    cut = len(lines) if most is None else most
    if visible := sorted(order[:cut]):
        yield Table(columns, tuple(row_of(lines[position]) for position in visible))
    if hidden := order[cut:]:
        waiting = sum(bool(waits(lines[position])) for position in hidden)
        yield Text(f"and {len(hidden)} more {noun}, {waiting} of them waiting")


def _set_notes(state: StatusReport) -> Iterator[str]:
    if manager := other_manager(state.obj):
        yield f"{manager} runs this set (spec.managedBy): counts and conditions are what it reports"
        return
    if state.is_paused:
        yield "paused: no group is updated before `resume`"
    if ends_in_parallel(state.obj):
        yield "workers are terminated with their leader: podTerminationPolicy is Parallel"
    if (returns := effective_node_return(state.obj)) is not None:
        yield f"recreated pods return to their nodes {_RETURNS[returns]}: node-return is {returns}"
    if (waves := state.objects.snapshot.spec.start_strategy) is not None:
        yield f"groups start in waves: {waves.seed} first, then {waves.growth} times those that are ready"
    yield from (*state.live_only, *state.at_risk)


def _group_table(state: StatusReport, most: int | None, wide: bool) -> Iterator[Block]:
    columns = ("GROUP", "REVISION", "LEADER", "WORKERS", "AGE", *(("POD", "NODE") if wide else ()), "WAITING")
    waits, row_of = (lambda line: not line.is_settled), (lambda line: _group_row(line, wide))
    return _table(state.groups, most, waits, columns, row_of, "groups")


def _group_row(line: GroupLine, wide: bool) -> tuple[Text, ...]:
    ready, workers = line.workers
    return row(
        line.label,
        line.revision,
        Text(line.leader, "green" if line.leader == "Ready" else "yellow"),
        Text(f"{ready}/{workers}", "green" if ready == workers else "yellow"),
        line.age,
        *((line.pod or "<none>", line.node or "<none>") if wide else ()),
        Text(line.why, "" if line.is_settled else "yellow"),
    )


def _set_counts(state: StatusReport) -> dict[str, Any]:
    target = state.history.target
    return {
        "revision": target.number if target is not None else None,
        "replicas": state.replicas,
        "ready": state.ready,
        "updatedAndReady": state.updated,
        "counts": dict(state.counts),
    }


def _set_details(state: StatusReport) -> dict[str, Any]:
    return {
        "groups": [
            {
                **({"key": line.key} if line.key else {"index": line.index}),
                "revision": line.revision,
                "leader": line.leader,
                "workersReady": line.workers[0],
                "workers": line.workers[1],
                "pod": line.pod,
                "node": line.node,
                "why": line.why,
            }
            for line in state.groups
        ]
    }


def _roles_notes(state: DisaggregatedReport) -> Iterator[str]:
    if state.is_paused:
        yield "paused: no rollout begins or continues before `resume`"
    yield from state.only_here
    for line in state.pending:
        # A restart applies edits of the spec, but nothing else that is pending.
        yield f"{line} waits for the next revision; `restart` brings it" if line.startswith("spec.") else line


def _child_table(state: DisaggregatedReport, most: int | None, wide: bool) -> Iterator[Block]:
    names = ("LEADERWORKERSET",) if wide else ()
    columns = ("SLICE", "ROLE", "REVISION", "READY", "AGE", *names, "WAITING")
    waits, row_of = (lambda line: line.why), (lambda line: _child_row(state, line, wide))
    return _table(state.lines, most, waits, columns, row_of, "LeaderWorkerSets")


def _child_row(state: DisaggregatedReport, line: ChildLine, wide: bool) -> tuple[Text, ...]:
    child = line.facts
    return row(
        str(child.slice_index),
        child.role,
        str(state.number(child.key) or child.key),
        Text(f"{child.ready}/{child.desired}", "green" if child.is_settled else "yellow"),
        age(child.obj["metadata"].get("creationTimestamp"), state.now),
        *((child.name,) if wide else ()),
        Text(line.why, "yellow"),
    )


def _roles_counts(state: DisaggregatedReport) -> dict[str, Any]:
    return {
        "revision": state.number(state.key),
        "slices": state.slices,
        "roles": [
            {
                "name": role.name,
                "replicas": role.desired,
                "ready": role.ready,
                "updatedAndReady": role.updated,
            }
            for role in state.roles
        ],
    }


def _roles_details(state: DisaggregatedReport) -> dict[str, Any]:
    return {
        "pending": state.pending,
        "leaderWorkerSets": [
            {
                "name": line.facts.name,
                "slice": line.facts.slice_index,
                "role": line.facts.role,
                "revision": state.number(line.facts.key),
                "key": line.facts.key,
                "replicas": line.facts.desired,
                "groups": line.facts.existing,
                "ready": line.facts.ready,
                "why": line.why,
            }
            for line in state.lines
        ],
    }


@dataclass(frozen=True, slots=True)
class _View:
    """How to show a kind of sets: notes (one sentence each), a table of its parts, and parts of the data."""

    notes: Callable[[Any], Iterator[str]]
    table: Callable[[Any, int | None, bool], Iterator[Block]]
    counts: Callable[[Any], dict[str, Any]]
    details: Callable[[Any], dict[str, Any]]


_VIEWS: Mapping[str, _View] = {
    KIND: _View(_set_notes, _group_table, _set_counts, _set_details),
    ROLES_KIND: _View(_roles_notes, _child_table, _roles_counts, _roles_details),
}
