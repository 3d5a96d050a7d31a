"""Reject a set whose objects would have the same names as objects of another set in the namespace.

For example, group 0 of set `a` has a StatefulSet `a-0`, and so has a set named `a-0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lws.kube.field_errors import FieldError, invalid
from lws.kube.metadata import is_terminating, metadata_of
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset import fields
from lws.leaderworkerset.children.services import leader_service_name
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import SubdomainPolicy


def clash_errors(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, others: Iterable[Mapping[str, Any]]
) -> list[FieldError]:
    """Names that two sets would need; on update only names that the set did not need before."""
    name = metadata_of(new).get("name")
    if not isinstance(name, str):
        return []
    indices = _indices(new)
    old_indices = _indices(old) if old else range(0)
    errors = []
    for other in others:
        its_name = str(metadata_of(other).get("name"))
        # Object names begin with the name of their set. Without this check, 200 sets would cost 2 ms.
        if not (its_name.startswith(f"{name}-") or name.startswith(f"{its_name}-")) or is_terminating(other):
            continue
        index = _group_named(name, its_name)
        if index in _indices(other) and not old:
            why = (
                f"is the name of the StatefulSet or Service of group {index} of LeaderWorkerSet {its_name}: "
                f"choose a name that does not end in a dash and a number"
            )
            errors.append(invalid("metadata.name", name, why))
        index = _group_named(its_name, name)
        if index in indices and index not in old_indices:
            why = (
                f"its group {index} would need a StatefulSet or Service {its_name}, which LeaderWorkerSet "
                f"{its_name} has: choose another name, or at most {index} groups, surge included"
            )
            errors.append(invalid("metadata.name", name, why))
        errors += _service_errors(new, old, other)
    return errors


def _group_named(name: str, set_name: str) -> int:
    """The index of the set's group whose objects have exactly this name, or -1; `a-01` is no group of `a`."""
    index = parent_and_ordinal(name)[1]
    return index if name == f"{set_name}-{index}" else -1


def _service_errors(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, other: Mapping[str, Any]
) -> Iterator[FieldError]:
    """A set's leader Service may have the same name as the Service for all pods of another set."""
    name, its_name = str(metadata_of(new).get("name")), str(metadata_of(other).get("name"))
    needed, has = _is_shared(new), _has_leader_service(new)
    was_needed, had = (_is_shared(old), _has_leader_service(old)) if old else (False, False)
    if name == leader_service_name(its_name) and _has_leader_service(other) and needed and not was_needed:
        why = (
            f"is the name of the Service of the leaders of LeaderWorkerSet {its_name}: choose another "
            f"name, or networkConfig.subdomainPolicy {SubdomainPolicy.UNIQUE_PER_REPLICA}"
        )
        yield invalid("metadata.name", name, why)
    if its_name == leader_service_name(name) and _is_shared(other) and has and not had:
        why = (
            f"would need a Service {its_name}, which LeaderWorkerSet {its_name} has: make a Service of "
            f"another name yourself"
        )
        yield invalid(fields.LEADER_SERVICE, fields.LEADER_SERVICE.of(new), why)


def _has_leader_service(raw: Mapping[str, Any]) -> bool:
    return fields.LEADER_SERVICE.of(raw) is not None


def _is_shared(raw: Mapping[str, Any]) -> bool:
    return fields.SUBDOMAIN_POLICY.of(raw) in (None, "", SubdomainPolicy.SHARED)


def _indices(raw: Mapping[str, Any]) -> range:
    """Indices of groups that have objects of their own in addition to their leader pod."""
    spec = SetSpec.of(raw)
    if spec.size < 2 and fields.SUBDOMAIN_POLICY.of(raw) != SubdomainPolicy.UNIQUE_PER_REPLICA:
        return range(0)
    return range(spec.replicas + (spec.surge_groups or 0))
