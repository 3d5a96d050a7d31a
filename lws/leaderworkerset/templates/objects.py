"""Build the leader StatefulSet of a set, or the leader Deployment of a set with Hash groups.

The objects are complete. The stored StatefulSet is only read for fields that cannot be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.metadata import annotations_of, child_metadata, copied, inherited, labels_of, name_of, without
from lws.kube.quantities import INT32
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import value_at
from lws.leaderworkerset.scheduling import template_annotations
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.claims import build_leader_storage
from lws.leaderworkerset.templates.node_selection import selects_by_group
from lws.runtime.actions import Object
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.placement import PLACEMENT_GATE
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_READY_CONDITION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    LEADER,
    NAME_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    PODS_RETRIED_AT_ANNOTATION,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
    SubdomainPolicy,
)


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """The rolling update of the leader StatefulSet. max_unavailable: a number of groups, at least 1."""

    partition: int
    replicas: int
    max_unavailable: int


def build_leader_statefulset(
    spec: SetSpec, key: str, update: RollingUpdate, stored: Object | None = None
) -> dict[str, Any]:
    """Build the leader StatefulSet as the complete intent of a server-side apply.
    stored: the existing StatefulSet, which is read for fields that cannot be changed.
    """
    lws, name = spec.lws, name_of(spec.lws)
    statefulset: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _leaders_metadata(spec, key, _role(stored, key)),
        "spec": {
            "serviceName": name,
            "replicas": update.replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {NAME_LABEL: name, WORKER_INDEX_LABEL: "0"}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": update.partition, "maxUnavailable": update.max_unavailable},
            },
            "template": _leader_pod_template(spec, key, stored),
        },
    }
    statefulset["spec"].update(build_leader_storage(lws, stored))
    return statefulset


def _role(stored: Object | None, key: str) -> dict[str, str]:
    """The role label of the StatefulSet; its pods do not get it. It is added only together with a new
    template, so that an upgrade or a takeover writes nothing.
    """
    labels = labels_of(stored) if stored is not None else {}
    # The label of the StatefulSet itself may have been edited, so the label of its template comes first.
    inside = labels_of(value_at(stored or {}, ("spec", "template")) or {})
    if inside.get(REVISION_LABEL, labels.get(REVISION_LABEL)) != key:
        return {ROLE_LABEL: LEADER}
    return {ROLE_LABEL: labels[ROLE_LABEL]} if ROLE_LABEL in labels else {}


def build_leader_deployment(
    spec: SetSpec, key: str, is_paused: bool, stored: Object | None = None
) -> dict[str, Any]:
    """Build the Deployment of the leaders of Hash groups as the complete intent of a server-side apply. The
    Deployment controller paces rollouts.
    is_paused: whether the Deployment is paused, so that its controller starts no rollout. stored: as in
    `build_leader_statefulset`.
    """
    name = name_of(spec.lws)
    template = _leader_pod_template(spec, key, stored)
    template["metadata"]["annotations"][GROUP_IDENTITY_ANNOTATION] = GroupIdentity.HASH.value
    pod = template["spec"] = {**(template.get("spec") or {}), "subdomain": name}
    if spec.size > 1:
        gates = pod.get("readinessGates") or ()
        pod["readinessGates"] = [*gates, {"conditionType": GROUP_READY_CONDITION}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _leaders_metadata(spec, key, {ROLE_LABEL: LEADER}),
        "spec": {
            "replicas": spec.replicas,
            "selector": {"matchLabels": {NAME_LABEL: name, WORKER_INDEX_LABEL: "0"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _limits_of_deployment(spec)},
            "template": template,
            **({"paused": True} if is_paused else {}),
        },
    }


def _limits_of_deployment(spec: SetSpec) -> dict[str, int | str]:
    unavailable, surge = _storable(spec.max_unavailable), _storable(spec.max_surge)
    # The API server rejects a Deployment in which both are zero. A set may have them while it has no groups.
    if all(str(amount).lstrip("0") in ("", "%") for amount in (unavailable, surge)):
        unavailable = 1
    return {"maxUnavailable": unavailable, "maxSurge": surge}


def _storable(amount: int | str) -> int | str:
    """Return an amount as a Deployment can store it: the CRD of sets has no upper limit for numbers."""
    return min(amount, INT32) if isinstance(amount, int) else amount


def _leaders_metadata(spec: SetSpec, key: str, role: Mapping[str, str]) -> dict[str, Any]:
    lws, name = spec.lws, name_of(spec.lws)
    labels = {**inherited(labels_of(lws)), **role, NAME_LABEL: name, REVISION_LABEL: key}
    annotations = {**inherited_annotations(lws), REPLICAS_ANNOTATION: str(spec.replicas)}
    return child_metadata(lws, name, labels, annotations)


def _leader_pod_template(spec: SetSpec, key: str, stored: Object | None) -> dict[str, Any]:
    annotations = {SIZE_ANNOTATION: str(spec.size), **spec.placement, **spec.subgroup_annotations}
    if spec.subdomain_policy == SubdomainPolicy.UNIQUE_PER_REPLICA:
        annotations[SUBDOMAIN_POLICY_ANNOTATION] = SubdomainPolicy.UNIQUE_PER_REPLICA.value
    annotations |= template_annotations(spec.lws, stored)
    # Upstream adds the termination policy to templates. Removing it, or updating it with the set, would
    # restart pods.
    stored_annotations = annotations_of(value_at(stored or {}, ("spec", "template")) or {})
    if POD_TERMINATION_POLICY_ANNOTATION in stored_annotations:
        annotations[POD_TERMINATION_POLICY_ANNOTATION] = stored_annotations[POD_TERMINATION_POLICY_ANNOTATION]
    if _lacks_policy_type(spec, stored_annotations):
        del annotations[SUBGROUP_POLICY_TYPE_ANNOTATION]
    labels = {WORKER_INDEX_LABEL: "0", NAME_LABEL: name_of(spec.lws), REVISION_LABEL: key}
    template = decorated(spec.leader_template, labels, annotations)
    if selects_by_group(spec.placement):
        # The webhook removes the gate when it places the leader; without the webhook, the gate keeps the
        # leader from being misplaced.
        pod = template.get("spec") or {}
        gates = [*(pod.get("schedulingGates") or ()), {"name": PLACEMENT_GATE}]
        template["spec"] = {**pod, "schedulingGates": gates}
    return template


def _lacks_policy_type(spec: SetSpec, stored: Mapping[str, str]) -> bool:
    """Return whether the stored template has subgroups without a type, and these mean the default. The CRD
    adds the default to sets from before the field existed; in the template, it would restart their pods.
    stored: the annotations of the stored template.
    """
    has_type = SUBGROUP_POLICY_TYPE_ANNOTATION in {**annotations_of(spec.leader_template), **stored}
    default = fields.SUB_GROUP_POLICY_TYPE.stored_default
    is_default = spec.subgroup_annotations.get(SUBGROUP_POLICY_TYPE_ANNOTATION) == default
    return SUBGROUP_SIZE_ANNOTATION in stored and not has_type and is_default


def decorated(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return a copy of a pod template with labels and annotations added, and otherwise unchanged."""
    result = copied(template)
    metadata = dict(result.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    result["metadata"] = metadata
    return result


def inherited_annotations(lws: Object) -> dict[str, str]:
    """Return the annotations that StatefulSets and Deployments get from the set."""
    annotations = inherited(annotations_of(lws))
    # The time of the last retry belongs to each StatefulSet alone, and which restarts are counted to the set.
    return without(annotations, (PODS_RETRIED_AT_ANNOTATION, GROUP_RESTARTS_COUNTED_FOR_ANNOTATION))
