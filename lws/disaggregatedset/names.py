"""Names of the objects of a DisaggregatedSet, the same as upstream's, and the way back from a name to a
child.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from lws.kube.structs import Structs
from lws.leaderworkerset.revisions.encoding import TYPES, serialised
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import (
    APP_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SLICE_LABEL,
)

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


# --- Compute the revision key of a DisaggregatedSet: upstream's hash, byte for byte, as eight hexadecimal
# digits.


_LENGTH = 8
_STRUCTS = Structs({**TYPES, "Role": {"name": "=s", "template": "=LeaderWorkerTemplate"}})


def key_of(roles: Mapping[str, Object], probe: int = 0) -> str:
    """The key of these roles: name → spec, in their order, which counts.

    probe: 0 for the key that the original computes; any other number gives another one for the same roles.
    """
    text = hashed_text(roles) + (str(probe) if probe else "")
    return sha256(text.encode()).hexdigest()[:_LENGTH]


def hashed_text(roles: Mapping[str, Object]) -> str:
    """The JSON text of the roles as the original hashes it: their names and templates, and nothing else."""
    given = [{"name": name, "template": spec.get("leaderWorkerTemplate")} for name, spec in roles.items()]
    return serialised(_STRUCTS.write("[Role]", given), sort_keys=False)


# --- Labels of the objects of a DisaggregatedSet, the same as upstream's.


def child_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Those of a child and of its pods; labels of users with the same keys give way."""
    return {**selected_labels(set_name, identity), APP_LABEL: app_of(set_name, identity)}


def selected_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Those by which the Service of a child finds its pods, and which the Service carries too."""
    labels = {
        NAME_LABEL: set_name,
        ROLE_LABEL: identity.role,
        REVISION_LABEL: identity.key,
    }
    return labels if identity.is_legacy else {**labels, SLICE_LABEL: str(identity.slice_index)}


def role_labels(set_name: str, role: str) -> dict[str, str]:
    """Those of the scaler of a role."""
    return {NAME_LABEL: set_name, ROLE_LABEL: role}
