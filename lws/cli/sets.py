"""Find, read and change sets of every kind. What only one command needs is in the file of that command."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from lws.cli.screen import Text, dump, show
from lws.cli.session import Refusal, Session, Unreadable, from_server
from lws.disaggregatedset import spec as disaggregated
from lws.kube.metadata import controller_of
from lws.leaderworkerset.revisions.shape import readable_status, spec_fault
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws.runtime.errors import Conflict, Invalid, NotFound
from lws_api.disaggregatedset.v1 import DISAGGREGATED_SET
from lws_api.disaggregatedset.v1 import NAME_LABEL as DISAGGREGATED_NAME_LABEL
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET, NAME_LABEL
from lws_api.meta import ResourceKind

_SUGGESTED = 10
_ATTEMPTS = 10
_ROLES = DISAGGREGATED_SET.singular


@dataclass(frozen=True)
class SetKind:
    """A kind of sets.

    label: the label that all objects of a set carry, with its name as value. prefix: the type before a name
    on the command line; empty for the kind of a bare name. fault: returns why no controller can act on a
    stored set; empty if one can. cleaned: returns the set without unreadable parts of its status.
    """

    resource: ResourceKind
    label: str
    prefix: str
    fault: Callable[[Object], str]
    cleaned: Callable[[Object], Object]
    is_paused: Callable[[Object], bool]

    @property
    def words(self) -> frozenset[str]:
        """All types in lower case that users may write before the slash."""
        resource = self.resource
        return frozenset(
            f"{name}{suffix}"
            for name in (resource.plural, resource.singular, *resource.short_names)
            for suffix in ("", f".{resource.group}", f".{resource.version}.{resource.group}")
        )


KINDS = (
    SetKind(
        resource=LEADER_WORKER_SET,
        label=NAME_LABEL,
        prefix="",
        fault=spec_fault,
        cleaned=lambda lws: {**lws, "status": readable_status(lws["status"])} if "status" in lws else lws,
        is_paused=lambda lws: SetSpec.of(lws).paused,
    ),
    SetKind(
        resource=DISAGGREGATED_SET,
        label=DISAGGREGATED_NAME_LABEL,
        prefix=f"{_ROLES}/",
        fault=disaggregated.fault_of,
        cleaned=lambda obj: obj,
        is_paused=lambda obj: disaggregated.parse(obj).paused,
    ),
)
"""All kinds of sets. A name without a type belongs to the first one."""

RESOURCES = tuple(kind.resource for kind in KINDS)
_BY_KIND = {kind.resource.kind: kind for kind in KINDS}


def kind_of(obj: Object) -> SetKind:
    return _BY_KIND[obj["kind"]]


class NamedSet(str):
    """The name of a set, with the kind of the set."""

    kind: SetKind

    def __new__(cls, name: str, kind: SetKind = KINDS[0]) -> NamedSet:
        named = super().__new__(cls, name)
        named.kind = kind
        return named


class UnknownKind(Refusal):
    """A Refusal because the cluster has no CRD of the kind."""


async def find(session: Session, name: NamedSet) -> Object:
    """Read the set with this name. Raises a Refusal that suggests similar names if there is none."""
    try:
        obj = await session.cluster.get(name.kind.resource.kind, session.namespace, name)
    except NotFound as error:
        raise await _missing(session, name, error) from error
    return readable(obj)


async def find_sets(session: Session, kind: SetKind) -> Sequence[Object]:
    """List all sets of the kind in the namespace, or in all namespaces."""
    try:
        return await session.cluster.listed(kind.resource.kind, session.namespace)
    except NotFound as error:
        raise UnknownKind(
            f'the server doesn\'t have a resource type "{kind.resource.plural}": install the chart, or '
            f"choose another cluster with --context"
        ) from error


def readable(obj: Object) -> Object:
    """Return the set as commands read it. Raises Unreadable if another release's CRD admitted its spec."""
    kind = kind_of(obj)
    if fault := kind.fault(obj):
        raise Unreadable(obj["metadata"]["name"], fault)
    return kind.cleaned(obj)


async def _missing(session: Session, name: NamedSet, error: NotFound) -> Refusal:
    try:
        sets = await find_sets(session, name.kind)
    except Refusal as refusal:
        return refusal
    names = sorted(obj["metadata"]["name"] for obj in sets)
    missing = f'{name.kind.resource.crd_name} "{name}" not found in namespace "{session.namespace}"'
    return Refusal(f"{missing}{_hint(name, names)}", from_server(error))


def _hint(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    if not names:
        return ": there is none; choose another namespace with -n"
    more = ", …" if len(names) > _SUGGESTED else ""
    return f"; there is {', '.join(names[:_SUGGESTED])}{more}"


def refuse_paused(obj: Object, command: str) -> None:
    """Raise a Refusal if the set is paused, because no rollout would follow the change."""
    kind, name = kind_of(obj), obj["metadata"]["name"]
    if kind.is_paused(obj):
        raise Refusal(f"set {name} is paused: resume it first (resume {kind.prefix}{name}), then {command}")


def caution(obj: Object, command: str) -> str:
    """Return a warning before a rollout of a single role; empty if the set is not a role.

    A DisaggregatedSet does not restore the templates of its LeaderWorkerSets, because that would restart
    their groups once more. command: the command for all roles.
    """
    owner = _owner(obj)
    if not owner:
        return ""
    return (
        f"{obj['metadata']['name']} is a role of DisaggregatedSet {owner}: only this role restarts, and "
        f"the next rollout of {owner} undoes it. `lws {command} {_ROLES}/{owner}` applies to all roles"
    )


def refuse_pause_of_role(obj: Object) -> None:
    """Raise a Refusal if the set is a role, because its rollouts create other LeaderWorkerSets."""
    if owner := _owner(obj):
        raise Refusal(
            f"{obj['metadata']['name']} is a role of DisaggregatedSet {owner}, whose rollouts create other "
            f"LeaderWorkerSets: pausing this one would not stop them. Use `lws pause {_ROLES}/{owner}`"
        )


def _owner(obj: Object) -> str:
    controller = controller_of(obj)
    is_role = controller is not None and controller.get("kind") == DISAGGREGATED_SET.kind
    return str(controller["name"]) if controller is not None and is_role else ""


async def write_unless_changed(
    session: Session, obj: Object, write: Callable[[Object], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    """Write a set, and retry if only its controller wrote meanwhile. Raises a Refusal if users changed it."""
    read, metadata = obj, obj["metadata"]
    for _ in range(_ATTEMPTS):
        try:
            return await write(read)
        except (Conflict, Invalid):
            # A JSON patch whose test fails is rejected as Invalid, without further details.
            fresh = await session.cluster.get(obj["kind"], metadata["namespace"], metadata["name"])
            if fresh["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]:
                raise
            if _written_by_users(fresh) != _written_by_users(obj):
                break
            read = fresh
    name = metadata["name"]
    raise Refusal(f"set {name} has changed since it was read: check it and retry")


def _written_by_users(obj: Object) -> tuple[str, int, object]:
    metadata = obj["metadata"]
    return metadata["uid"], metadata.get("generation", 0), metadata.get("annotations")


def full_name(obj: Object) -> str:
    """Return `leaderworkerset.leaderworkerset.x-k8s.io/demo`, as `kubectl get -o name` prints it."""
    resource = kind_of(obj).resource
    return f"{resource.singular}.{resource.group}/{obj['metadata']['name']}"


def changed(obj: Object, change: str, dry_run: bool = False) -> Text:
    """Return the line for a changed set, such as `leaderworkerset.leaderworkerset.x-k8s.io/demo paused`."""
    return Text(f"{full_name(obj)} {change}{' (server dry run)' if dry_run else ''}")


def print_names(sets: Iterable[Object]) -> None:
    """Print the names of sets, the output of `-o name`."""
    for obj in sets:
        click.echo(full_name(obj))


def report(obj: Object, output: str | None, lines: Iterable[Text]) -> None:
    """Print the lines, or with `-o` the name of the set or the set as it is now, without managedFields."""
    if output is None:
        show(lines)
    elif output == "name":
        print_names([obj])
    else:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        dump({**obj, "metadata": metadata}, output)
