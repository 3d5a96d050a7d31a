"""Fields that later releases of the original have: which of their values may a set ask for here?

In: a set with values of the right types, and as it was before. Out: errors. What is stored already is never
refused: a set that the original made keeps its labels and finalizers editable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid
from lws.admission.fields import TEMPLATE, value_at
from lws.leaderworkerset.unsupported import unsupported_in
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import RestartPolicy

_IDENTITY = ("spec", "groupIdentity")
_SCHEDULING = ("spec", "scheduling")
_LIMIT = (*TEMPLATE, "maxGroupRestarts")
_RECREATING = (RestartPolicy.RECREATE_GROUP_ON_POD_RESTART, RestartPolicy.RECREATE_GROUP_AFTER_START)


def later_field_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Values that this controller would have to run as something else."""
    for each in unsupported_in(raw):
        yield invalid(each.path, each.value, f"{each.why}: {each.remedy}")
    yield from _restart_limit_errors(raw)


def later_field_change_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    """What cannot be taken back: the groups that the original made of it would stay beside ours."""
    before, after = _identity_of(old), _identity_of(new)
    if before == GroupIdentity.HASH and after != before:
        why = "groupIdentity is immutable: create a set of another name, and delete this one"
        yield invalid(".".join(_IDENTITY), after, why)
    if value_at(old, _SCHEDULING) is not None and value_at(new, _SCHEDULING) is None:
        why = (
            "cannot remove scheduling after creation: create a set of another name without it, and delete "
            "this one"
        )
        yield invalid(".".join(_SCHEDULING), None, why)


def _identity_of(raw: Mapping[str, Any]) -> Any:
    return value_at(raw, _IDENTITY) or GroupIdentity.ORDINAL.value


def _restart_limit_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    limit, path = value_at(raw, _LIMIT), ".".join(_LIMIT)
    if limit is None:
        return
    policy = value_at(raw, (*TEMPLATE, "restartPolicy")) or RestartPolicy.RECREATE_GROUP_ON_POD_RESTART
    if policy not in _RECREATING:
        yield invalid(
            path, limit, "maxGroupRestarts is only supported when restartPolicy recreates the group"
        )
    if value_at(raw, ("spec", "maxGroupRestarts")) is not None:
        yield invalid(
            path, limit, "cannot be beside spec.maxGroupRestarts, which says the same: keep one of them"
        )
