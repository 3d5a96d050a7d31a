"""Names of the objects of a DisaggregatedSet, the same as upstream's, and the way back from a name to a
child.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CHILD = re.compile(r"(?:(0|[1-9][0-9]?)-)?([0-9a-f]{8})-([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which LeaderWorkerSet of a DisaggregatedSet: a role of a slice at a revision.

    is_legacy: made by release 0.9 of the original, which knew one slice only and named it nowhere.
    """

    slice_index: int
    key: str
    role: str
    is_legacy: bool = False


def child_name(set_name: str, identity: Identity) -> str:
    """The name of the LeaderWorkerSet of a role."""
    part = f"{identity.key}-{identity.role}"
    return f"{set_name}-{part}" if identity.is_legacy else f"{set_name}-{identity.slice_index}-{part}"


def identity_of(set_name: str, name: str) -> Identity | None:
    """Which child of a set has this name; None for one that the set would give to none.

    The name says it and not the labels, because those can be edited.
    """
    match = _CHILD.fullmatch(name.removeprefix(f"{set_name}-")) if name.startswith(f"{set_name}-") else None
    if match is None:
        return None
    index, key, role = match.groups()
    return Identity(int(index or 0), key, role, is_legacy=index is None)


def app_of(set_name: str, identity: Identity) -> str:
    """The value of the label `app` of a role's pods: the same on all revisions."""
    part = identity.role if identity.is_legacy else f"{identity.slice_index}-{identity.role}"
    return f"{set_name}-{part}"


def service_name(child: str) -> str:
    """The name of the Service of a child."""
    return f"{child}-prv"


def scaler_name(set_name: str, role: str) -> str:
    """The name of the scaler of a role."""
    return f"{set_name}-{role}"
