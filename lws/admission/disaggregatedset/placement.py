"""Can slices be placed as the set asks for?

In: a set with values of the right types. Out: errors and warnings about its placement policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from lws.admission.disaggregatedset.facts import RoleFacts, SetFacts
from lws.admission.errors import FieldError, forbidden, invalid, required
from lws.kube.metadata import annotations_of, is_mapping
from lws.kube.names import label_key_errors
from lws.leaderworkerset import fields
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)

_TOPOLOGY = "spec.placementPolicy.topology"
_EXCLUSIVE = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)


def placement_errors(facts: SetFacts) -> Iterator[FieldError]:
    """What the scheduler could never do, or nobody could understand."""
    placement = facts.placement
    if placement.is_none:
        return
    if not placement.topology:
        yield required(_TOPOLOGY, "topology is required when type is not None")
    for why in label_key_errors(placement.topology) if placement.topology else ():
        yield invalid(_TOPOLOGY, placement.topology, why)
    for role in facts.roles:
        if key := _exclusive_annotation(role):
            why = (
                f'the "{key}" annotation must not be combined with a non-None spec.placementPolicy.type '
                f"({placement.type})"
            )
            yield forbidden(role.path, None, why)


def placement_warnings(facts: SetFacts) -> Iterator[str]:
    """What the scheduler may not be able to do."""
    placement = facts.placement
    if placement.is_none or not placement.is_required:
        return
    for role in facts.roles:
        if role.surge:
            yield (
                f"{role.path}.{fields.MAX_SURGE}: {role.spec.max_surge} with placementPolicy.type "
                f"{placement.type}: during updates groups on top run in the same {placement.topology} as "
                f"their slice, and wait where it has no room for them"
            )


def _exclusive_annotation(role: RoleFacts) -> str:
    """The first annotation that places groups, in the metadata of a role or of its templates."""
    templates = (role.at(*each.path) for each in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE))
    for place in (role.raw, *templates):
        if is_mapping(place):
            for key in _EXCLUSIVE:
                if key in annotations_of(place):
                    return key
    return ""
