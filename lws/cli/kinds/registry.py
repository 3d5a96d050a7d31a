"""The kinds of sets that commands accept, by name or by object."""

from __future__ import annotations

from lws.cli.arguments.set_name import NamedSet
from lws.cli.kinds.disaggregatedset import DisaggregatedSets
from lws.cli.kinds.kind import SetKind
from lws.cli.kinds.leaderworkerset import LeaderWorkerSets
from lws.runtime.actions import Object

KINDS: tuple[SetKind, ...] = (LeaderWorkerSets(), DisaggregatedSets())

RESOURCES = tuple(kind.resource for kind in KINDS)


def kind_of(name: NamedSet) -> SetKind:
    """The kind that somebody has named."""
    return next(kind for kind in KINDS if kind.resource == name.type.resource)


def kind_of_object(obj: Object) -> SetKind:
    """The kind of an object that is a set."""
    return next(kind for kind in KINDS if kind.resource.kind == obj["kind"])
