"""Can groups of this size be divided as the set asks for (KEP-115, KEP-257)?

In: a set with values of the right types. Out: errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid, required
from lws.kube.metadata import annotations_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SubGroupPolicyType

SUBGROUP_SIZE_PATH = str(fields.TEMPLATE.field("SubGroupPolicy").field("subGroupSize"))
"""The capital S is no field of the API, but clients of the original controller know this path."""


def subgroup_errors(new: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """What is wrong with the subgroup policy, at the paths and in the words of the original controller."""
    policy, size, path = spec.subgroup, spec.size, SUBGROUP_SIZE_PATH
    if policy is None:
        topology = annotations_of(new).get(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)
        if topology is None:
            return []
        path = f"metadata.annotations.{SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION}"
        return [invalid(path, topology, "cannot have subgroup-exclusive-topology without subGroupSize set")]
    subgroup_size = policy.get("subGroupSize")
    if subgroup_size is None:
        return [required(path, "subGroupSize must be set when subGroupPolicy is")]
    if subgroup_size < 1:
        return [invalid(path, subgroup_size, "subGroupSize must be equal or greater than 1")]
    errors = []
    if size % subgroup_size and (size - 1) % subgroup_size:
        errors.append(invalid(path, subgroup_size, "size or size - 1 must be divisible by subGroupSize"))
    if size < subgroup_size:
        errors.append(invalid(path, subgroup_size, "subGroupSize cannot be larger than size"))
    excluded = policy.get("subGroupPolicyType") == SubGroupPolicyType.LEADER_EXCLUDED
    if excluded and (size - 1) % subgroup_size:
        why = "size-1 must be divisible by subGroupSize when using LeaderExcluded"
        errors.append(invalid(path, subgroup_size, why))
    return errors
