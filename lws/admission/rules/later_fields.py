"""Fields that later releases of the original have: which of their values may a set ask for here?

In: a set with values of the right types, and as it was before. Out: errors. What is stored already is never
refused: a set that the original made keeps its labels and finalizers editable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid
from lws.leaderworkerset import fields
from lws.leaderworkerset.unsupported import unsupported_in
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import RestartPolicy

_IDENTITY = fields.SPEC.field("groupIdentity")
_SCHEDULING = fields.SPEC.field("scheduling")
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
        yield invalid(_IDENTITY, after, why)
    if _SCHEDULING.of(old) is not None and _SCHEDULING.of(new) is None:
        why = (
            "cannot remove scheduling after creation: create a set of another name without it, and delete "
            "this one"
        )
        yield invalid(_SCHEDULING, None, why)


def _identity_of(raw: Mapping[str, Any]) -> Any:
    return _IDENTITY.of(raw) or GroupIdentity.ORDINAL.value


def _restart_limit_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    limit, path = (
        fields.MAX_GROUP_RESTARTS_IN_TEMPLATE.of(raw),
        str(fields.MAX_GROUP_RESTARTS_IN_TEMPLATE),
    )
    if limit is None:
        return
    if (fields.RESTART_POLICY.of(raw) or fields.RESTART_POLICY.default) not in _RECREATING:
        yield invalid(
            path, limit, "maxGroupRestarts is only supported when restartPolicy recreates the group"
        )
    if fields.MAX_GROUP_RESTARTS.of(raw) is not None:
        yield invalid(
            path, limit, "cannot be beside spec.maxGroupRestarts, which says the same: keep one of them"
        )
