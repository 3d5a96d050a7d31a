"""Affinity of pods: the required terms there are, and more terms.

In: affinity as a pod template has it, whatever shape a user gave it. Out: new dicts; nothing is changed in
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_MOST_WEIGHT = 100


def term(expressions: list[dict[str, Any]], topology: str) -> dict[str, Any]:
    """Pods that match all of these expressions, on nodes with one value of this label."""
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}


def terms_of(kind: Any) -> list[Mapping[str, Any]]:
    """The required terms of a `podAffinity` or `podAntiAffinity`; none of what is no term."""
    terms = kind.get(REQUIRED) if isinstance(kind, Mapping) else None
    return [each for each in terms if isinstance(each, Mapping)] if isinstance(terms, list) else []


def with_terms(kind: Mapping[str, Any] | None, added: list[dict[str, Any]]) -> dict[str, Any]:
    """A `podAffinity` or `podAntiAffinity` with more required terms."""
    return {**(kind or {}), REQUIRED: [*terms_of(kind), *added]}


def with_preferred(kind: Mapping[str, Any] | None, added: list[dict[str, Any]]) -> dict[str, Any]:
    """A `podAffinity` or `podAntiAffinity` with more terms that the scheduler may give up, of full weight."""
    known = (kind or {}).get(PREFERRED)
    weighted = [{"weight": _MOST_WEIGHT, "podAffinityTerm": each} for each in added]
    return {**(kind or {}), PREFERRED: [*(known if isinstance(known, list) else ()), *weighted]}


def has_both_terms(affinity: Mapping[str, Any], topology: str) -> bool:
    """True if required affinity and anti-affinity both have terms about this topology, whatever they say."""
    return all(
        any(each.get("topologyKey") == topology for each in terms_of(affinity.get(kind)))
        for kind in ("podAffinity", "podAntiAffinity")
    )
