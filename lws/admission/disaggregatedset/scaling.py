"""Who says how many groups a role has, and what does a change of that mean?

In: a set with values of the right types. Out: errors and warnings about roles that autoscalers scale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lws.admission.disaggregatedset.facts import RoleFacts, SetFacts, facts_of, shape_errors
from lws.admission.errors import FieldError, invalid
from lws.disaggregatedset.names import scaler_name
from lws.kube.metadata import is_mapping, is_terminating
from lws.kube.names import SUBDOMAIN_LENGTH, byte_length
from lws.leaderworkerset.fields import REPLICAS, value_at
from lws_api.disaggregatedset.v1 import SCALER_KIND


def scaler_errors(facts: SetFacts, role: RoleFacts) -> Iterator[FieldError]:
    """A scaler that no API server would take."""
    scaler = scaler_name(facts.name, role.name)
    if role.is_external and byte_length(scaler) > SUBDOMAIN_LENGTH:
        why = f'would produce scaler name "{scaler}" exceeding {SUBDOMAIN_LENGTH} characters'
        yield invalid(f"{role.path}.name", role.name, why)


def clash_errors(
    facts: SetFacts, before: SetFacts | None, others: Iterable[Mapping[str, Any]]
) -> Iterator[FieldError]:
    """Scalers that another set has: role `c` of a set `a-b` and role `b-c` of a set `a` need one of one name.

    others: the sets of the namespace. An update is refused for roles only that had no scaler before.
    """
    needed = {
        scaler_name(facts.name, role.name): role
        for role in _external(facts)
        if (earlier := before.role(role.name) if before else None) is None or not earlier.is_external
    }
    taken = {scaler: name for name, scaler in _scalers(others, needed) if name != facts.name}
    for scaler, role in needed.items():
        owner = taken.get(scaler)
        if owner is not None:
            why = (
                f"would need the {SCALER_KIND} {scaler}, which DisaggregatedSet "
                f"{owner} has: choose another name"
            )
            yield invalid(f"{role.path}.name", role.name, why)


def _scalers(others: Iterable[Mapping[str, Any]], needed: Collection[str]) -> Iterator[tuple[str, str]]:
    """Name of a set and of one of its scalers; nothing of sets that are going or cannot be read, nor of those
    that could have none of the needed scalers: all of a namespace would cost 50 µs each.
    """
    for other in others if needed else ():
        name = other.get("metadata", {}).get("name", "")
        if not any(scaler.startswith(f"{name}-") for scaler in needed):
            continue
        if not is_terminating(other) and not shape_errors(other):
            facts = facts_of(other)
            yield from ((facts.name, scaler_name(facts.name, role.name)) for role in _external(facts))


def scaling_warnings(facts: SetFacts) -> Iterator[str]:
    """What is not as its author may think."""
    for role in _external(facts):
        if role.replicas > 1:
            yield (
                f'role "{role.name}" sets scaling.mode: External and spec.replicas: {role.replicas} — '
                f"spec.replicas is ignored; drive replicas via {SCALER_KIND} "
                f'"{scaler_name(facts.name, role.name)}" instead'
            )
    names = ", ".join(role.name for role in _external(facts))
    if names and facts.slices > 1:
        yield (
            f"spec.slices: {facts.slices} with scaling.mode External of {names}: a scaler counts the groups "
            f"of all slices together, and each slice gets its share; the original controller, which refuses "
            f"this, would give each slice as many as the scaler says"
        )


def scaling_change_warnings(old: Mapping[str, Any], before: SetFacts, facts: SetFacts) -> Iterator[str]:
    """Roles that lose groups because their scaler is no longer asked. old: with its status."""
    for role in facts.roles:
        earlier = before.role(role.name)
        if earlier is None or not earlier.is_external or role.is_external:
            continue
        running, wanted = _replicas_in_status(old, role.name), role.replicas * max(facts.slices, 1)
        if running is not None and running > wanted:
            yield (
                f"{role.path}.{REPLICAS}: role {role.name} has {running} groups by its scaler and will have "
                f"{wanted}, {role.replicas} in each slice: set replicas to keep more"
            )


def _replicas_in_status(raw: Mapping[str, Any], role: str) -> int | None:
    statuses = value_at(raw, ("status", "roleStatuses"))
    for each in statuses if isinstance(statuses, list) else ():
        if is_mapping(each) and each.get("name") == role and isinstance(each.get("replicas"), int):
            return int(each["replicas"])
    return None


def _external(facts: SetFacts) -> Iterator[RoleFacts]:
    return (role for role in facts.roles if role.is_external)
