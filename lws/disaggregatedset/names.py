"""Names of the objects of a DisaggregatedSet, the same as upstream's, and the child in a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from lws.kube.typed import Structs
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import TYPES, serialised
from lws.leaderworkerset.spec import has_hash_groups
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import (
    APP_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SLICE_LABEL,
)
from lws_api.leaderworkerset.identity import GroupIdentity

_CHILD = re.compile(r"(?:(0|[1-9][0-9]?)-)?([0-9a-f]{8})-([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies a LeaderWorkerSet of a DisaggregatedSet: a role of a slice at a revision.

    is_legacy: created by upstream's release 0.9, which had one slice only and no slice in names.
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
    """The child of a set with this name; None if it is not the name of a child.

    From the name, because labels can be edited.
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
    return f"{child}-prv"


def scaler_name(set_name: str, role: str) -> str:
    return f"{set_name}-{role}"


# --- Compute the revision key of a DisaggregatedSet: upstream's hash, byte for byte, as eight hexadecimal
# digits.


_LENGTH = 8
_STRUCTS = Structs(
    {**TYPES, "Role": {"name": "=s", "template": "=LeaderWorkerTemplate", "groupIdentity": "s"}}
)


def key_of(roles: Mapping[str, Object], probe: int = 0) -> str:
    """The key of these roles: name → spec; their order counts.

    probe: 0 for upstream's key; other numbers result in other keys for the same roles.
    """
    text = hashed_text(roles) + (str(probe) if probe else "")
    return sha256(text.encode()).hexdigest()[:_LENGTH]


def hashed_text(roles: Mapping[str, Object]) -> str:
    """The JSON text of the roles that upstream hashes: names, templates, and `Hash` if it is set."""
    given = [
        {
            "name": name,
            "template": spec.get("leaderWorkerTemplate"),
            fields.GROUP_IDENTITY.name: hash_identity(spec),
        }
        for name, spec in roles.items()
    ]
    return serialised(_STRUCTS.write("[Role]", given), sort_keys=False)


def hash_identity(role: Object) -> str:
    """`Hash` of a role whose groups have keys; empty for ordinals, the default."""
    return GroupIdentity.HASH.value if has_hash_groups({"spec": role}) else ""


# --- Labels of the objects of a DisaggregatedSet, the same as upstream's.


def child_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Labels of a child and its pods, which override labels of users."""
    return {**selected_labels(set_name, identity), APP_LABEL: app_of(set_name, identity)}


def selected_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Labels in the selector of a child's Service, and on the Service itself."""
    labels = {
        NAME_LABEL: set_name,
        ROLE_LABEL: identity.role,
        REVISION_LABEL: identity.key,
    }
    return labels if identity.is_legacy else {**labels, SLICE_LABEL: str(identity.slice_index)}


def role_labels(set_name: str, role: str) -> dict[str, str]:
    """Labels of the scaler of a role."""
    return {NAME_LABEL: set_name, ROLE_LABEL: role}
