"""Which variables do the TPU containers of a pod get when it is created?

In: the pod and its place in the group. Out: entries for the environment of each of its TPU containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lws.admission.errors import Refused, rendered
from lws.group.subgroups import members_of
from lws.group.tpu import MOST_PODS, Slice, is_configured, tpu_containers, variables
from lws.kube.names import parent_and_ordinal
from lws.kube.quantities import whole_number
from lws_api.leaderworkerset.v1 import (
    LEADER_REQUESTS_TPUS_ANNOTATION,
    SIZE_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
    SubGroupPolicyType,
)


def tpu_variables(
    raw: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str], subdomain: str
) -> Mapping[int, Sequence[dict[str, Any]]]:
    """By `id` of a container of the pod: what is to be put behind its own environment.

    labels, annotations, subdomain: of the admitted pod. Empty where nothing uses TPUs, or the user has
    configured them. Raises `Refused` where a pod cannot be told who it works with.
    """
    containers = tpu_containers(raw.get("spec") or {})
    if not containers or is_configured(containers):
        return {}
    name, worker = raw["metadata"]["name"], _number(raw, labels, WORKER_INDEX_LABEL)
    leader = name if worker == 0 else parent_and_ordinal(name)[0]
    slice = Slice(leader, subdomain, _members(raw, worker, labels, annotations))
    try:
        found = variables(slice, worker, containers)
    except ValueError as error:
        raise Refused(f"pod {name} cannot be told which pods its TPUs work with: {error}") from error
    return {id(container): entries for container, entries in zip(containers, found, strict=True)}


def _members(
    raw: Mapping[str, Any], worker: int, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> range:
    """Pods of the group, or of the subgroup, that use TPUs."""
    size = _number(raw, annotations, SIZE_ANNOTATION)
    if size > MOST_PODS:
        raise Refused(
            f"pod {raw['metadata']['name']} uses TPUs in a group of {size}: at most {MOST_PODS} can"
        )
    members = range(size)
    if SUBGROUP_SIZE_ANNOTATION in annotations:
        index = _number(raw, labels, SUBGROUP_INDEX_LABEL)
        members = members_of(index, size, _number(raw, annotations, SUBGROUP_SIZE_ANNOTATION) or 1)
    excluded = annotations.get(SUBGROUP_POLICY_TYPE_ANNOTATION) == SubGroupPolicyType.LEADER_EXCLUDED
    leader_uses_tpus = worker == 0 or annotations.get(LEADER_REQUESTS_TPUS_ANNOTATION) == "true"
    if leader_uses_tpus and not (excluded and SUBGROUP_SIZE_ANNOTATION in annotations):
        return members
    return range(max(members.start, 1), members.stop)


def _number(raw: Mapping[str, Any], values: Mapping[str, str], key: str) -> int:
    value = values.get(key)
    if (number := whole_number(value)) is not None:
        return number
    name = raw["metadata"]["name"]
    if key == SUBGROUP_INDEX_LABEL and value is None:
        raise Refused(
            f"leader pod {name} uses TPUs and is in no subgroup (subGroupPolicyType LeaderExcluded): give "
            "the set a leaderTemplate that does not request google.com/tpu, or use LeaderWorker"
        )
    raise Refused(f"{key} of pod {name} must be a number for pods that use TPUs, not {rendered(value)}")
