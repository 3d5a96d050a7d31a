"""Compute names, labels and keys of a DisaggregatedSet's objects, as upstream does, and parse names."""

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
from lws_api.disaggregatedset.v1 import APP_LABEL, NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SLICE_LABEL
from lws_api.leaderworkerset.identity import GroupIdentity

_CHILD = re.compile(r"(?:(0|[1-9][0-9]?)-)?([0-9a-f]{8})-([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True)
class Identity:
    """The role, slice and revision that identify a LeaderWorkerSet of a DisaggregatedSet.

    is_legacy: whether upstream's release 0.9 created it, which had one slice only and no slice in names.
    """

    slice_index: int
    key: str
    role: str
    is_legacy: bool = False


def child_name(set_name: str, identity: Identity) -> str:
    """Return the name of the LeaderWorkerSet of a role."""
    part = f"{identity.key}-{identity.role}"
    return f"{set_name}-{part}" if identity.is_legacy else f"{set_name}-{identity.slice_index}-{part}"


def identity_of(set_name: str, name: str) -> Identity | None:
    """Return the identity of the child with this name; None if no child of the set can have it.

    The name decides, because labels can be edited.
    """
    match = _CHILD.fullmatch(name.removeprefix(f"{set_name}-")) if name.startswith(f"{set_name}-") else None
    if match is None:
        return None
    index, key, role = match.groups()
    return Identity(int(index or 0), key, role, is_legacy=index is None)


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
    """Compute the revision key of roles (name → spec), whose order changes the key.

    probe: 0 for upstream's key; other numbers give the same roles other keys, to avoid a collision.
    """
    text = hashed_text(roles) + (str(probe) if probe else "")
    return sha256(text.encode()).hexdigest()[:_LENGTH]


def hashed_text(roles: Mapping[str, Object]) -> str:
    """Encode the JSON text that upstream hashes: name, template and, if `Hash`, `groupIdentity` of roles."""
    entries = [
        {
            "name": name,
            "template": spec.get("leaderWorkerTemplate"),
            fields.GROUP_IDENTITY.name: hash_identity(spec),
        }
        for name, spec in roles.items()
    ]
    return serialised(_STRUCTS.write("[Role]", entries), sort_keys=False)


def hash_identity(role: Object) -> str:
    """Return `Hash` for a role whose groups have keys, and an empty text for ordinals, the default."""
    return GroupIdentity.HASH.value if has_hash_groups({"spec": role}) else ""


# --- Compute the labels of a DisaggregatedSet's objects, as upstream does.


def child_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Return the labels of a child and its pods, which override the user's labels. `app` is the same for all
    revisions.
    """
    app = identity.role if identity.is_legacy else f"{identity.slice_index}-{identity.role}"
    return {**selected_labels(set_name, identity), APP_LABEL: f"{set_name}-{app}"}


def selected_labels(set_name: str, identity: Identity) -> dict[str, str]:
    """Return the labels in the selector of a child's Service, which the Service itself has too."""
    labels = {**role_labels(set_name, identity.role), REVISION_LABEL: identity.key}
    return labels if identity.is_legacy else {**labels, SLICE_LABEL: str(identity.slice_index)}


def role_labels(set_name: str, role: str) -> dict[str, str]:
    """Return the labels of the scaler of a role."""
    return {NAME_LABEL: set_name, ROLE_LABEL: role}
