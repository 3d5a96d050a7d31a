"""Can everything that is made for a set be named after it and its roles?

In: a set with values of the right types, and the set before. Out: errors about names that are too long, that
Kubernetes does not take, or that two objects would need. An update is refused only if it makes names longer,
or needs more of them: what is stored must stay editable.
"""

from __future__ import annotations

from collections.abc import Iterator

from lws.admission.disaggregatedset.facts import RoleFacts, SetFacts
from lws.admission.errors import FieldError, invalid, required
from lws.disaggregatedset.names import service_name
from lws.kube.names import LABEL_LENGTH, byte_length, dns1035_label_errors, tightest_derived_name
from lws.leaderworkerset import fields
from lws.leaderworkerset.children.leader_service import leader_service_name
from lws_api.leaderworkerset.v1 import SubdomainPolicy


def name_errors(facts: SetFacts, before: SetFacts | None) -> list[FieldError]:
    """Everything that is wrong with names; before: the set as it is stored, None on create."""
    lengths = [error for role in facts.roles if (error := _length_error(facts, role, before)) is not None]
    known = set(_collisions(before)) if before is not None else set()
    collisions = [
        invalid(f"{role.path}.name", role.name, why)
        for role in facts.roles
        for why in _collisions_of(facts, role)
        if (role.name, why) not in known
    ]
    return [*lengths, *([] if before is not None else _set_name_errors(facts)), *collisions]


def _set_name_errors(facts: SetFacts) -> Iterator[FieldError]:
    """The names of all objects begin with that of the set."""
    if not facts.name:
        yield required("metadata.name", "name or generateName is required")
        return
    for why in dns1035_label_errors(facts.name):
        yield invalid("metadata.name", facts.name, why)


def _length_error(facts: SetFacts, role: RoleFacts, before: SetFacts | None) -> FieldError | None:
    earlier = before.role(role.name) if before is not None else None
    if before is not None and earlier is not None and not _grew(facts, role, before, earlier):
        return None
    why = _too_long(facts, role)
    return invalid(f"{role.path}.name", role.name, why) if why else None


def _too_long(facts: SetFacts, role: RoleFacts) -> str:
    """Why the names of a role are too long for Kubernetes; empty where they are not."""
    child = facts.longest_child_name(role.name)
    length, service = byte_length(child), byte_length(service_name(child))
    chosen = byte_length(facts.name) + byte_length(role.name)
    if service > LABEL_LENGTH:
        return (
            f"the generated service name ({service} chars) would exceed the DNS-1035 limit of "
            f"{LABEL_LENGTH} characters; {_shorten(chosen - (service - LABEL_LENGTH))}"
        )
    tightest = tightest_derived_name(max(role.replicas + role.surge - 1, 0), role.size)
    if length <= tightest.room:
        return ""
    return (
        f"the LeaderWorkerSet <set>-<slice>-<revision>-<role> would have a name of {length} characters, at "
        f"most {tightest.room} are possible with replicas {role.replicas}, maxSurge {role.surge} and size "
        f"{role.size}: {tightest.purpose}, {tightest.pattern}, would have {length + tightest.added} of at "
        f"most {LABEL_LENGTH} characters; {_shorten(chosen - (length - tightest.room))}"
    )


def _shorten(most: int) -> str:
    return f"reduce the DisaggregatedSet name and/or role name (combined limit: {most} characters)"


def _grew(facts: SetFacts, role: RoleFacts, before: SetFacts, earlier: RoleFacts) -> bool:
    now, then = _extent(facts, role), _extent(before, earlier)
    return any(more > less for more, less in zip(now, then, strict=True))


def _extent(facts: SetFacts, role: RoleFacts) -> tuple[int, int, int, int]:
    return facts.index_length, role.replicas, role.size, role.surge


def _collisions(facts: SetFacts) -> Iterator[tuple[str, str]]:
    return ((role.name, why) for role in facts.roles for why in _collisions_of(facts, role))


def _collisions_of(facts: SetFacts, role: RoleFacts) -> Iterator[str]:
    """Why the objects of a role would need names that those of others have, whose name it begins with."""
    for other in facts.roles:
        if not role.name.startswith(f"{other.name}-"):
            continue
        if role.name == service_name(other.name) and _is_shared(role):
            yield _taken(other, "the Service of that role", "the Service of the pods of this one")
        if role.name == leader_service_name(other.name) and _is_shared(role) and _has_leader_service(other):
            yield _taken(
                other, "the Service of the leaders of that role", "the Service of the pods of this one"
            )
        ending = role.name.removeprefix(f"{other.name}-")
        if ending.isdecimal() and str(int(ending[:10])) == ending and _has_group(other, int(ending)):
            yield _taken(other, f"group {ending} of that role", "the leaders of this one")


def _taken(other: RoleFacts, theirs: str, ours: str) -> str:
    return f'collides with role "{other.name}": {theirs} and {ours} need objects of one name; choose another'


def _has_group(role: RoleFacts, index: int) -> bool:
    """Has a group of this index objects of its own, beside its leader pod?"""
    has_objects = role.size > 1 or not _is_shared(role)
    # An autoscaler may ask for any number of groups, and is not reviewed.
    return has_objects and (role.is_external or index < role.replicas + role.surge)


def _is_shared(role: RoleFacts) -> bool:
    return role.at(*fields.SUBDOMAIN_POLICY.path) in (None, "", SubdomainPolicy.SHARED)


def _has_leader_service(role: RoleFacts) -> bool:
    return role.at(*fields.LEADER_SERVICE.path) is not None
