"""What a LeaderWorkerSet asks for: its fields with the defaults of the API, read from the plain object.

In: a LeaderWorkerSet as stored (fields that an older CRD did not default may be absent). Out: plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.actions import Object
from lws.kube.metadata import annotations_of
from lws.leaderworkerset import fields
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
    RESTART_EXEMPT_CONTAINERS_ANNOTATION,
    RESTART_EXEMPT_SIDECARS_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    RestartPolicy,
    StartupPolicy,
    SubdomainPolicy,
)

PLACEMENT_ANNOTATIONS = (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
)
"""Annotations of a set that change its pods: revisions record them, and pod templates carry them."""

_OF_SUBGROUPS = (SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
_EXCLUSIVE = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)


def name_of(lws: Object) -> str:
    """The set's name."""
    name: str = lws["metadata"]["name"]
    return name


def uid_of(lws: Object) -> str:
    """The set's UID."""
    uid: str = lws["metadata"]["uid"]
    return uid


def namespace_of(lws: Object) -> str:
    """The set's namespace."""
    namespace: str = lws["metadata"]["namespace"]
    return namespace


def replicas_of(lws: Object) -> int:
    """Number of groups that the set asks for."""
    return int(_read(lws, fields.REPLICAS))


def template_of(lws: Object) -> Mapping[str, Any]:
    """The leaderWorkerTemplate."""
    template: Mapping[str, Any] = lws["spec"]["leaderWorkerTemplate"]
    return template


def size_of(lws: Object) -> int:
    """Pods per group, the leader included."""
    return int(_read(lws, fields.SIZE))


def recorded_size(recorded: Object) -> int:
    """Pods per group in a recorded spec."""
    return int(_read({"spec": recorded}, fields.SIZE))


def leader_template_of(lws: Object) -> Mapping[str, Any]:
    """The pod template of leaders: the worker template stands in where there is none."""
    own: Mapping[str, Any] | None = fields.LEADER_TEMPLATE.of(lws)
    return own if own is not None else template_of(lws)["workerTemplate"]


def restart_policy_of(lws: Object) -> RestartPolicy:
    """The restart policy; the legacy value Default means None."""
    policy = fields.RESTART_POLICY.of(lws) or fields.RESTART_POLICY.default
    return RestartPolicy.NONE if policy == RestartPolicy.DEFAULT else RestartPolicy(policy)


def max_group_restarts_of(lws: Object) -> int | None:
    """How often a group may be recreated on one revision; None for without limit, as by default."""
    limits = (
        fields.MAX_GROUP_RESTARTS.of(lws),
        fields.MAX_GROUP_RESTARTS_IN_TEMPLATE.of(lws),
    )
    return next((int(limit) for limit in limits if limit is not None), None)


def restart_exempt_containers(lws: Object) -> frozenset[str]:
    """Names of containers whose restarts do not count."""
    listed = annotations_of(lws).get(RESTART_EXEMPT_CONTAINERS_ANNOTATION, "")
    return frozenset(name.strip() for name in listed.split(",")) - {""}


def exempts_sidecars(lws: Object) -> bool:
    """Whether restarts of native sidecars (KEP-753) do not count."""
    return annotations_of(lws).get(RESTART_EXEMPT_SIDECARS_ANNOTATION, "").strip().lower() == "true"


def startup_policy_of(lws: Object) -> StartupPolicy:
    """When workers are created."""
    return StartupPolicy(fields.STARTUP_POLICY.of(lws) or fields.STARTUP_POLICY.default)


def subdomain_policy_of(lws: Object) -> SubdomainPolicy:
    """One Service for all groups, or one per group."""
    return SubdomainPolicy(fields.SUBDOMAIN_POLICY.of(lws) or fields.SUBDOMAIN_POLICY.default)


def rolling_update_of(lws: Object) -> Mapping[str, Any]:
    """partition, maxUnavailable (int or percent) and maxSurge (int or percent), defaults filled in."""
    return {
        each.name: _read(lws, each) for each in (fields.PARTITION, fields.MAX_UNAVAILABLE, fields.MAX_SURGE)
    }


def is_paused(lws: Object) -> bool:
    """Whether the rollout is to stand still."""
    return bool(fields.PAUSED.of(lws))


def disruption_budget_of(lws: Object) -> Mapping[str, Any] | None:
    """What evictions may do to the set; None where it asks for no PodDisruptionBudget."""
    configured: Mapping[str, Any] | None = fields.DISRUPTION_BUDGET.of(lws)
    return configured


def history_limit_of(lws: Object) -> int:
    """Revisions to keep beside the live ones, 10 by default as for StatefulSets."""
    return int(_read(lws, fields.HISTORY_LIMIT))


def progress_deadline_of(lws: Object) -> int | None:
    """Seconds without progress after which the set counts as stalled; None where it never does."""
    requested = fields.PROGRESS_DEADLINE.of(lws)
    return int(requested) if requested is not None else None


def placement_annotations(lws: Object) -> dict[str, str]:
    """Annotations that say where groups run, as pod templates carry them (KEP-115); those without effect are
    left out, so that an edit of them is no rollout.
    """
    annotations = lws["metadata"].get("annotations") or {}
    has_subgroups = fields.SUBGROUP.of(lws) is not None
    found = {
        key: annotations[key]
        for key in PLACEMENT_ANNOTATIONS
        if annotations.get(key) and (has_subgroups or key not in _OF_SUBGROUPS)
    }
    scope = found.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope == ExclusiveTopologyScope.NAMESPACE or not any(key in found for key in _EXCLUSIVE):
        found.pop(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION, None)
    return found


def placement_given(pod: Object, template: Object, requested: Mapping[str, str]) -> dict[str, str]:
    """Annotations about where groups run that a pod (or a template in use) has from its set.

    template: the one that the user wrote for it. What that says itself is honoured at the pod and belongs to
    the template, unless the set asks for the same. requested: as from `placement_annotations`.
    """
    found, own = annotations_of(pod), annotations_of(template)
    return {
        key: found[key]
        for key in PLACEMENT_ANNOTATIONS
        if found.get(key) and (own.get(key) != found[key] or requested.get(key) == found[key])
    }


def group_topology(placement: Mapping[str, str]) -> str:
    """The node label that all pods of a group have the same value of; empty where there is none.

    placement: as from `placement_annotations`, or of a template that carries them.
    """
    return placement.get(EXCLUSIVE_TOPOLOGY_ANNOTATION) or placement.get(SHARED_TOPOLOGY_ANNOTATION) or ""


def leader_service_of(lws: Object) -> Mapping[str, Any] | None:
    """The Service of leaders that the set asks for; None where it asks for none."""
    requested: Mapping[str, Any] | None = fields.LEADER_SERVICE.of(lws)
    return requested


def subgroup_annotations(lws: Object) -> dict[str, str]:
    """Annotations that tell a pod its subgroup size and policy (KEP-115, KEP-257)."""
    policy = fields.SUBGROUP.of(lws)
    if policy is None:
        return {}
    annotations = {}
    if policy.get("subGroupPolicyType") is not None:
        annotations[SUBGROUP_POLICY_TYPE_ANNOTATION] = policy["subGroupPolicyType"]
    if policy.get("subGroupSize") is not None:
        annotations[SUBGROUP_SIZE_ANNOTATION] = str(policy["subGroupSize"])
    return annotations


def _read(raw: Mapping[str, Any], field: fields.Field) -> Any:
    value = field.of(raw)
    return field.default if value is None else value
