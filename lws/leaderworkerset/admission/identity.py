"""Validate how groups are restarted, named, replaced and terminated.

Order, paths and texts of the errors are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from lws.kube.field_errors import FieldError, invalid
from lws.kube.metadata import is_mapping, metadata_of
from lws.kube.names import byte_length, tightest_name_with_key
from lws.leaderworkerset import fields
from lws.leaderworkerset.spec import SetSpec, ends_in_parallel, has_hash_groups
from lws_api.config.duration import parse
from lws_api.leaderworkerset.identity import GroupIdentity, GroupReplacementPolicy
from lws_api.leaderworkerset.v1 import RestartPolicy

_RECREATING = (RestartPolicy.RECREATE_GROUP_ON_POD_RESTART, RestartPolicy.RECREATE_GROUP_AFTER_START)
_DURATIONS = {
    fields.RESTART_BACKOFF_BASE_SECONDS: fields.RESTART_BACKOFF.child("base"),
    fields.RESTART_BACKOFF_CAP_SECONDS: fields.RESTART_BACKOFF.child("cap"),
}


def restart_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors of `restartBudget` and `restartBackoff`."""
    recreates = (fields.RESTART_POLICY.stored_in(raw) or fields.RESTART_POLICY.default) in _RECREATING
    path = fields.LEADER_WORKER_TEMPLATE_MAX_GROUP_RESTARTS
    limit = path.stored_in(raw)
    if limit is not None and not recreates:
        yield invalid(path, limit, f"{path.name} is only supported when restartPolicy recreates the group")
    if limit is not None and fields.MAX_GROUP_RESTARTS.stored_in(raw) is not None:
        why = "conflicts with spec.maxGroupRestarts, which limits restarts too: remove one of them"
        yield invalid(path, limit, why)
    backoff, path = fields.RESTART_BACKOFF.stored_in(raw), fields.RESTART_BACKOFF
    if not is_mapping(backoff):
        return
    if not recreates:
        yield invalid(path, backoff, f"{path.name} is only supported when restartPolicy recreates the group")
    yield from _backoff_errors(raw, backoff)


def _backoff_errors(raw: Mapping[str, Any], backoff: Mapping[str, Any]) -> Iterator[FieldError]:
    waits = []
    for seconds, duration in _DURATIONS.items():
        text = duration.stored_in(raw)
        if text is not None and seconds.stored_in(raw) is not None:
            why = f"conflicts with {seconds.name}, which has the same meaning: remove one of them"
            yield invalid(duration, text, why)
        try:
            wait = timedelta(seconds=seconds.effective_in(raw)) if text is None else parse(text)
        except ValueError as error:
            yield invalid(duration, text, str(error))
            return
        if wait <= timedelta():
            field = seconds if text is None else duration
            yield invalid(field, field.stored_in(raw), "must be greater than 0")
        waits.append(wait)
    if waits[0] > waits[1]:
        is_text = any(duration.stored_in(raw) is not None for duration in _DURATIONS.values())
        base, cap = (field.name for field in (_DURATIONS.values() if is_text else _DURATIONS))
        yield invalid(fields.RESTART_BACKOFF, backoff, f"{base} must not be greater than {cap}")


def identity_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    """Yield errors of `groupIdentity` and `groupReplacementPolicy`."""
    policy = fields.GROUP_REPLACEMENT_POLICY.stored_in(raw)
    if not has_hash_groups(raw):
        if policy == GroupReplacementPolicy.IMMEDIATE:
            yield invalid(
                fields.GROUP_REPLACEMENT_POLICY, policy, "Immediate is only supported with groupIdentity Hash"
            )
        return
    if fields.VOLUME_CLAIM_TEMPLATES.stored_in(raw):
        why = "volumeClaimTemplates are not supported with groupIdentity Hash"
        yield invalid(fields.GROUP_IDENTITY, GroupIdentity.HASH, why)
    if spec.partition:
        why = "rollingUpdateConfiguration.partition is not supported with groupIdentity Hash"
        yield invalid(fields.GROUP_IDENTITY, GroupIdentity.HASH, why)
    if (prewarm := fields.PREWARM.stored_in(raw)) is not None:
        why = "not supported with groupIdentity Hash: the Deployment of the leaders starts rollouts itself"
        yield invalid(fields.PREWARM, prewarm, why)
    name, room = metadata_of(raw).get("name"), tightest_name_with_key(spec.size).room
    if isinstance(name, str) and byte_length(name) > room:
        why = f"must be no more than {room} characters with groupIdentity Hash"
        yield invalid("metadata.name", name, why)


def identity_change_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors of a changed `groupIdentity`: it is immutable, as groups would keep their names."""
    if has_hash_groups(new) != has_hash_groups(old):
        yield invalid(
            fields.GROUP_IDENTITY, fields.GROUP_IDENTITY.stored_in(new), "groupIdentity is immutable"
        )


def termination_warnings(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[str]:
    """Yield warnings for termination policies that have no effect."""
    if spec.size == 1 and ends_in_parallel(raw):
        yield f"{fields.POD_TERMINATION_POLICY}: Parallel has no effect with size 1: remove it"
