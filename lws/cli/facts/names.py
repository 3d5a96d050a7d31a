"""Find a set by name, or raise a `Refusal` that suggests similar names or says that the kind is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lws.cli.refusal import Refusal
from lws.cli.session import Session, from_server
from lws.runtime.actions import Object
from lws.runtime.errors import NotFound
from lws_api.meta import ResourceKind

_MANY = 10


async def find(session: Session, kind: ResourceKind, name: str) -> Object:
    """The set of this name."""
    try:
        return await session.cluster.get(kind.kind, session.namespace, name)
    except NotFound as error:
        raise await _missing(session, kind, name, error) from error


async def find_sets(session: Session, kind: ResourceKind) -> Sequence[Object]:
    """All sets of the kind in the namespace, or in all namespaces."""
    try:
        return await session.cluster.listed(kind.kind, session.namespace)
    except NotFound as error:
        raise UnknownKind(
            f'the server doesn\'t have a resource type "{kind.plural}": install the chart, or choose another '
            f"cluster with --context"
        ) from error


class UnknownKind(Refusal):
    """The cluster has no definition of the kind."""


async def _missing(session: Session, kind: ResourceKind, name: str, error: NotFound) -> Refusal:
    try:
        sets = await find_sets(session, kind)
    except Refusal as refusal:
        return refusal
    names = sorted(obj["metadata"]["name"] for obj in sets)
    missing = f'{kind.crd_name} "{name}" not found in namespace "{session.namespace}"'
    return Refusal(f"{missing}{_hint(name, names)}", from_server(error))


def _hint(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    if not names:
        return ": there is none; choose another namespace with -n"
    more = ", …" if len(names) > _MANY else ""
    return f"; there is {', '.join(names[:_MANY])}{more}"
