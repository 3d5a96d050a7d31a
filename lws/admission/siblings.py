"""Find two sets of a namespace that need the same name for an object.

Group 0 of set `a` has a StatefulSet `a-0`, and so has a set of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid
from lws.kube.metadata import is_terminating, metadata_of
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset import fields
from lws.leaderworkerset.children.services import leader_service_name
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import SubdomainPolicy


def clash_errors(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, others: Iterable[Mapping[str, Any]]
) -> list[FieldError]:
    """Names that two sets would need; in an update only those that the set did not need before."""
    name = metadata_of(new).get("name")
    if not isinstance(name, str):
        return []
    taken = _indices(new)
    before = _indices(old) if old else range(0)
    errors = []
    for other in others:
        its_name = str(metadata_of(other).get("name"))
        # Names of objects begin with that of their set: to look closer at each of 200 sets would cost 2 ms.
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
        if index in taken and index not in before:
            why = (
                f"its group {index} would need a StatefulSet or Service {its_name}, which LeaderWorkerSet "
                f"{its_name} has: choose another name, or at most {index} groups, surge included"
            )
            errors.append(invalid("metadata.name", name, why))
        errors += _service_errors(new, old, other)
    return errors


def _group_named(name: str, set_name: str) -> int:
    """The index of the group of a set whose objects have this name, to the letter: `a-01` is none of `a`."""
    index = parent_and_ordinal(name)[1]
    return index if name == f"{set_name}-{index}" else -1


def _service_errors(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, other: Mapping[str, Any]
) -> Iterator[FieldError]:
    """The Service of leaders has the name that the Service of all pods of another set may have."""
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
    """Groups that have objects of their own beside their leader pod."""
    spec = SetSpec.of(raw)
    if spec.size < 2 and fields.SUBDOMAIN_POLICY.of(raw) != SubdomainPolicy.UNIQUE_PER_REPLICA:
        return range(0)
    return range(spec.replicas + (spec.surge_groups or 0))
