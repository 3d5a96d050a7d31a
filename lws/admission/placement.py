"""Can groups be placed as the set asks for?

In: a set with values of the right types. Out: errors about what the scheduler could never do, warnings about
what it may not be able to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid, rendered
from lws.admission.fields import ROLLING_UPDATE, TEMPLATE, Facts, value_at
from lws.admission.templates import LEADER, WORKER, templates_of
from lws.group.placement import has_both_terms
from lws.group.subgroups import count_of
from lws.kube.metadata import annotations_of
from lws.kube.names import label_key_errors
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    StartupPolicy,
    SubGroupPolicyType,
)

_TOPOLOGIES = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)


def placement_errors(raw: Mapping[str, Any], facts: Facts) -> list[FieldError]:
    """A group in one domain cannot have subgroups that each have one of the same kind."""
    group, subgroup = (annotations_of(raw).get(key) for key in _TOPOLOGIES)
    policy = facts.subgroup or {}
    size = policy.get("subGroupSize")
    if not group or group != subgroup or not isinstance(size, int) or size < 1:
        return []
    excluded = policy.get("subGroupPolicyType") == SubGroupPolicyType.LEADER_EXCLUDED
    if count_of(facts.size, size, leader_excluded=excluded) < 2:
        return []
    why = (
        f"is the topology of {EXCLUSIVE_TOPOLOGY_ANNOTATION} too: the subgroups of a group cannot be apart "
        f"in the one domain that the group has; use a smaller topology here"
    )
    return [invalid(f"metadata.annotations.{SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION}", subgroup, why)]


def placement_warnings(raw: Mapping[str, Any], facts: Facts, gang: bool) -> list[str]:
    """gang: groups are scheduled as one by another scheduler."""
    found = []
    for annotation in _TOPOLOGIES:
        topology = annotations_of(raw).get(annotation)
        if isinstance(topology, str):
            found += _topology_warnings(raw, annotation, topology)
    topology = annotations_of(raw).get(EXCLUSIVE_TOPOLOGY_ANNOTATION)
    if topology and facts.surge_groups:
        found.append(
            f"{'.'.join((*ROLLING_UPDATE, 'maxSurge'))}: {facts.max_surge} with "
            f"{EXCLUSIVE_TOPOLOGY_ANNOTATION}: every group on top needs a "
            f"{topology} of its own during updates; where none is free, it waits"
        )
    if gang and value_at(raw, ("spec", "startupPolicy")) == StartupPolicy.LEADER_READY:
        found.append(
            "spec.startupPolicy: LeaderReady: workers do not exist before their leader is ready, so that the "
            "scheduler is asked for the leader alone, and workers may find no place; use LeaderCreated"
        )
    return found


def _topology_warnings(raw: Mapping[str, Any], annotation: str, topology: str) -> list[str]:
    path = f"metadata.annotations.{annotation}: {rendered(topology)}"
    if not topology:
        return [f"{path} says nothing: pods are placed anywhere; name a label of nodes, or remove it"]
    if wrong := label_key_errors(topology):
        return [f"{path} is a label that no node can have, so that no pod will be placed: {wrong[0]}"]
    # Groups are kept apart by their leaders, subgroups by all their pods.
    concerned = (LEADER, WORKER)
    if annotation == EXCLUSIVE_TOPOLOGY_ANNOTATION and value_at(raw, (*TEMPLATE, LEADER)):
        concerned = (LEADER, LEADER)
    own = [
        where
        for where, template in templates_of(raw)
        if where.rpartition(".")[2] in concerned and _has_own_terms(template, topology)
    ]
    return [
        f"{path} has no effect on pods of {where}: their affinity has required terms about it already, which "
        f"stay as they are"
        for where in own
    ]


def _has_own_terms(template: Mapping[str, Any], topology: str) -> bool:
    affinity = value_at(template, ("spec", "affinity"))
    return isinstance(affinity, Mapping) and has_both_terms(affinity, topology)
