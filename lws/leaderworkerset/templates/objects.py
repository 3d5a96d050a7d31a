"""Build the leader StatefulSet and the headless Service of a set.

Objects are complete; the stored StatefulSet is only read for fields that cannot be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.metadata import copied, inherited, labels_of, name_of, namespace_of, owner_reference
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.claims import build_leader_storage
from lws.leaderworkerset.templates.node_selection import selects_by_group
from lws.runtime.actions import Object
from lws_api.leaderworkerset.placement import PLACEMENT_GATE
from lws_api.leaderworkerset.v1 import (
    NAME_LABEL,
    PODS_RETRIED_AT_ANNOTATION,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    WORKER_INDEX_LABEL,
    SubdomainPolicy,
)


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """The rolling update of the leader StatefulSet. max_unavailable: groups, at least 1."""

    partition: int
    replicas: int
    max_unavailable: int


def build_leader_statefulset(
    spec: SetSpec, key: str, update: RollingUpdate, stored: Object | None = None
) -> dict[str, Any]:
    """The leader StatefulSet, as the complete intent of a server-side apply.

    stored: the existing one, for fields that cannot be changed.
    """
    lws, name = spec.lws, name_of(spec.lws)
    statefulset: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": namespace_of(lws),
            "labels": {**labels_of_set(lws), **_role_in(stored), NAME_LABEL: name, REVISION_LABEL: key},
            "annotations": {**annotations_of_set(lws), REPLICAS_ANNOTATION: str(spec.replicas)},
            "ownerReferences": [owner_reference(lws)],
        },
        "spec": {
            "serviceName": name,
            "replicas": update.replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {NAME_LABEL: name, WORKER_INDEX_LABEL: "0"}},
            "updateStrategy": {
                "type": spec.strategy_type,
                "rollingUpdate": {"partition": update.partition, "maxUnavailable": update.max_unavailable},
            },
            "template": _leader_pod_template(spec, key),
        },
    }
    statefulset["spec"].update(build_leader_storage(lws, stored))
    return statefulset


def _role_in(stored: Object | None) -> dict[str, str]:
    """The label that later upstream releases write: it is kept, so that a takeover writes nothing."""
    role = labels_of(stored).get(ROLE_LABEL) if stored is not None else None
    return {} if role is None else {ROLE_LABEL: role}


def _leader_pod_template(spec: SetSpec, key: str) -> dict[str, Any]:
    annotations = {SIZE_ANNOTATION: str(spec.size), **spec.placement, **spec.subgroup_annotations}
    if spec.subdomain_policy == SubdomainPolicy.UNIQUE_PER_REPLICA:
        annotations[SUBDOMAIN_POLICY_ANNOTATION] = SubdomainPolicy.UNIQUE_PER_REPLICA.value
    labels = {WORKER_INDEX_LABEL: "0", NAME_LABEL: name_of(spec.lws), REVISION_LABEL: key}
    template = decorated(spec.leader_template, labels, annotations)
    if selects_by_group(spec.placement):
        # The webhook removes the gate when it places the leader; without the webhook no leader is misplaced.
        pod = template.get("spec") or {}
        gates = [*(pod.get("schedulingGates") or ()), {"name": PLACEMENT_GATE}]
        template["spec"] = {**pod, "schedulingGates": gates}
    return template


def decorated(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """A copy of a pod template with labels and annotations added, and otherwise unchanged."""
    result = copied(template)
    metadata = dict(result.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    result["metadata"] = metadata
    return result


def build_service(name: str, set_name: str, selector: Mapping[str, str], owner: Object) -> dict[str, Any]:
    """A headless Service that publishes unready pods, because pods must resolve each other to start."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {NAME_LABEL: set_name},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)},
    }


def labels_of_set(lws: Object) -> dict[str, str]:
    """Labels that StatefulSets inherit from the set."""
    return inherited(lws["metadata"].get("labels"))


def annotations_of_set(lws: Object) -> dict[str, str]:
    """Annotations that StatefulSets inherit from the set."""
    annotations = inherited(lws["metadata"].get("annotations"))
    # The time of the last retry belongs to each StatefulSet alone.
    annotations.pop(PODS_RETRIED_AT_ANNOTATION, None)
    return annotations
