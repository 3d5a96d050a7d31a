"""Validate the placement annotations of a set.

Errors report what the scheduler can never satisfy; warnings report what it may be unable to satisfy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.kube.affinity import has_both_terms
from lws.kube.field_errors import FieldError, invalid, rendered
from lws.kube.metadata import annotations_of, metadata_of
from lws.kube.names import byte_length, label_key_errors
from lws.leaderworkerset import fields
from lws.leaderworkerset.admission.fields import templates_of
from lws.leaderworkerset.group.subgroups import count_of
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, SetSpec
from lws.leaderworkerset.templates.node_selection import nodes_of_group
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
    ExclusiveTopologyScope,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SubGroupPolicyType,
)

_TOPOLOGIES = (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
_EXCLUSIVE = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)
_LONGEST, _SHOWN = 8192, 40
"""Maximum bytes of a placement annotation, and how many of its characters an error shows."""
_EITHER = (
    (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION),
    (SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION),
)


def placement_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """Placement that the scheduler can never satisfy, or that is invalid."""
    annotations = annotations_of(raw)
    if too_long := [*_too_long_errors(annotations)]:
        return too_long
    errors = [*_one_domain_errors(annotations, spec), *_group_node_errors(raw, annotations, spec)]
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope is not None and scope not in tuple(ExclusiveTopologyScope):
        why = f"must be one of {', '.join(ExclusiveTopologyScope)}"
        errors.append(invalid(_path(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION), scope, why))
    for exclusive, shared in _EITHER:
        if annotations.get(exclusive) and annotations.get(shared):
            why = f"cannot be beside {exclusive}, which asks for the same and more: remove one of them"
            errors.append(invalid(_path(shared), annotations[shared], why))
    subgroup = annotations.get(SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
    if subgroup is not None and spec.subgroup is None:
        why = "cannot have subgroup-shared-topology without subGroupSize set"
        errors.append(invalid(_path(SUBGROUP_SHARED_TOPOLOGY_ANNOTATION), subgroup, why))
    return errors


def _too_long_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    """The annotations are read for each created pod. Longer ones that are already stored are kept."""
    for annotation in PLACEMENT_ANNOTATIONS:
        value = annotations.get(annotation)
        if isinstance(value, str) and byte_length(value) > _LONGEST:
            why = f"has {byte_length(value)} bytes, at most {_LONGEST} are possible: it is read for every pod"
            yield invalid(_path(annotation), f"{value[:_SHOWN]}…", why)


def _one_domain_errors(annotations: Mapping[str, str], spec: SetSpec) -> Iterator[FieldError]:
    """A group in one domain cannot have several subgroups that each need such a domain exclusively."""
    subgroup = annotations.get(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)
    policy = spec.subgroup or {}
    size = policy.get("subGroupSize")
    if not isinstance(size, int) or size < 1:
        return
    excluded = policy.get("subGroupPolicyType") == SubGroupPolicyType.LEADER_EXCLUDED
    for annotation in (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION):
        group = annotations.get(annotation)
        if group and group == subgroup and count_of(spec.size, size, leader_excluded=excluded) > 1:
            why = (
                f"is the topology of {annotation} too: the subgroups of a group cannot be apart "
                f"in the one domain that the group has; use a smaller topology here"
            )
            yield invalid(_path(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION), subgroup, why)


def _group_node_errors(
    raw: Mapping[str, Any], annotations: Mapping[str, str], spec: SetSpec
) -> Iterator[FieldError]:
    """Invalid node selectors and tolerations, checked for the group with the longest name."""
    # In manifests that no API server has processed, both may be missing.
    name, namespace = (str(metadata_of(raw).get(field) or "default") for field in ("name", "namespace"))
    index = max(spec.replicas + (spec.surge_groups or 0) - 1, 0)
    for annotation in (GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION):
        value = annotations.get(annotation)
        if not isinstance(value, str):
            continue
        try:
            nodes_of_group({annotation: value}, namespace, name, index)
        except ValueError as error:
            yield invalid(_path(annotation), value, str(error))


def _path(annotation: str) -> str:
    return f"metadata.annotations.{annotation}"


def placement_warnings(raw: Mapping[str, Any], spec: SetSpec) -> list[str]:
    """Placement that the scheduler may be unable to satisfy."""
    if any(_too_long_errors(annotations_of(raw))):
        return []
    warnings = []
    for annotation in _TOPOLOGIES:
        topology = annotations_of(raw).get(annotation)
        if isinstance(topology, str):
            warnings += _topology_warnings(raw, annotation, topology)
    warnings += [*_surge_warnings(annotations_of(raw), spec), *_without_effect(raw)]
    return warnings


def _surge_warnings(annotations: Mapping[str, str], spec: SetSpec) -> Iterator[str]:
    if not spec.surge_groups:
        return
    if topology := annotations.get(EXCLUSIVE_TOPOLOGY_ANNOTATION):
        yield (
            f"{fields.MAX_SURGE}: {spec.max_surge} with {EXCLUSIVE_TOPOLOGY_ANNOTATION}: every group on top "
            f"needs a {topology} of its own during updates; where none is free, it waits"
        )
    if annotations.get(GROUP_NODE_SELECTOR_ANNOTATION):
        last = spec.replicas + spec.surge_groups - 1
        yield (
            f"{fields.MAX_SURGE}: {spec.max_surge} with {GROUP_NODE_SELECTOR_ANNOTATION}: during updates "
            f"there are groups up to index {last}, which wait where there are no nodes for them"
        )


def _without_effect(raw: Mapping[str, Any]) -> Iterator[str]:
    annotations = annotations_of(raw)
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope is not None and not any(annotations.get(annotation) for annotation in _EXCLUSIVE):
        yield (
            f"{_path(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)}: {rendered(scope)} has no effect without "
            f"{EXCLUSIVE_TOPOLOGY_ANNOTATION}"
        )
    try:
        nodes = nodes_of_group(annotations, "namespace", "name", 0)
    except ValueError:
        return
    for where, template in templates_of(raw):
        node_selector = fields.value_at(template, ("spec", "nodeSelector"))
        for key in sorted(nodes.node_selector):
            if isinstance(node_selector, Mapping) and key in node_selector:
                yield (
                    f"{where}.spec.nodeSelector[{key}]: {rendered(node_selector[key])} is never seen: "
                    f"{GROUP_NODE_SELECTOR_ANNOTATION} says what nodes of groups have"
                )


def _topology_warnings(raw: Mapping[str, Any], annotation: str, topology: str) -> list[str]:
    path = f"{_path(annotation)}: {rendered(topology)}"
    if not topology:
        return [f"{path} says nothing: pods are placed anywhere; name a label of nodes, or remove it"]
    if problems := label_key_errors(topology):
        return [f"{path} is a label that no node can have, so that no pod will be placed: {problems[0]}"]
    if annotation not in _EXCLUSIVE:
        return []
    # Only leaders carry the anti-affinity of groups; all pods of a subgroup carry that of subgroups.
    concerned = {str(fields.LEADER_TEMPLATE), str(fields.WORKER_TEMPLATE)}
    if annotation == EXCLUSIVE_TOPOLOGY_ANNOTATION and fields.LEADER_TEMPLATE.of(raw):
        concerned = {str(fields.LEADER_TEMPLATE)}
    paths = [
        where
        for where, template in templates_of(raw)
        if where in concerned and _has_own_terms(template, topology)
    ]
    return [
        f"{path} has no effect on pods of {where}: their affinity has required terms about it already, which "
        f"stay as they are"
        for where in paths
    ]


def _has_own_terms(template: Mapping[str, Any], topology: str) -> bool:
    affinity = fields.value_at(template, ("spec", "affinity"))
    return isinstance(affinity, Mapping) and has_both_terms(affinity, topology)
