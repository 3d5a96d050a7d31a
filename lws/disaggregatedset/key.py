"""Compute the revision key of a DisaggregatedSet: upstream's hash, byte for byte, as eight hexadecimal
digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from lws.kube.types.structs import Structs
from lws.leaderworkerset.revisions.encoding import TYPES, serialised
from lws.runtime.actions import Object

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
