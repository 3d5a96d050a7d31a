"""Which fields of later releases of the original does a set use that this controller does not act on?

In: a set. Out: each such field, and why not. Sets that the original stored with one are left alone: run by
other rules than those they were made for, they would get a second set of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.actions import Object
from lws_api.leaderworkerset.identity import GroupIdentity, GroupReplacementPolicy


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field of the spec. why: what is done here instead. remedy: what to write."""

    field: str
    value: Any
    why: str
    remedy: str

    @property
    def path(self) -> str:
        """Where it stands in the set."""
        return f"spec.{self.field}"


_WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "groupIdentity": (None, "", GroupIdentity.ORDINAL),
    "groupReplacementPolicy": (None, "", GroupReplacementPolicy.POST_TERMINATION),
    "scheduling": (None,),
}
"""Values that say what this controller does anyway."""

_WHY = {
    "groupIdentity": "groups have ordinals here, and their leaders are pods of a StatefulSet",
    "groupReplacementPolicy": "a group is made anew here once its former pods are gone, never before",
    "scheduling": "no Workload is made for the scheduler here",
}
_REMEDIES = {
    "groupIdentity": "leave the field out or write Ordinal",
    "groupReplacementPolicy": "leave the field out or write PostTermination",
    "scheduling": (
        "leave the field out; gangSchedulingManagement in the manager's configuration has groups placed as a "
        "whole"
    ),
}


def unsupported_in(lws: Object) -> tuple[Unsupported, ...]:
    """The fields that would be run as something else."""
    spec = lws.get("spec")
    if not isinstance(spec, Mapping):
        return ()
    return tuple(
        Unsupported(field, spec[field], _WHY[field], _REMEDIES[field])
        for field, harmless in _WITHOUT_EFFECT.items()
        if spec.get(field) not in harmless
    )
