"""Build the worker StatefulSet of a group from its leader pod and the leader's revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.metadata import annotations_of, child_metadata, inherited, labels_of, name_of, namespace_of
from lws.leaderworkerset.group.placement import Placement
from lws.leaderworkerset.group.tpu import tpu_containers
from lws.leaderworkerset.pod_identity import group_name, is_of_hash_group, leader_address, notes_parallel
from lws.leaderworkerset.scheduling import template_annotations
from lws.leaderworkerset.spec import SetSpec, ends_in_parallel
from lws.leaderworkerset.templates.claims import build_worker_storage
from lws.leaderworkerset.templates.node_selection import with_tolerations
from lws.leaderworkerset.templates.objects import decorated, inherited_annotations
from lws.runtime.actions import Object
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
    SIZE_ANNOTATION,
    WORKER,
    PodTerminationPolicy,
    SubdomainPolicy,
)


def build_worker_statefulset(
    restored: SetSpec, leader: Object, placement: Placement | None = None
) -> dict[str, Any]:
    """Build the StatefulSet of a group's workers. The leader pod owns it, and it is deleted with the leader.
    restored: the set as recorded in the leader's revision, with its current labels and annotations except the
    placement annotations. placement: the node selector and tolerations to add to the template.
    """
    lws, name = restored.lws, group_name(leader)
    of_leader = leader["metadata"]["labels"]
    identity = {
        NAME_LABEL: name_of(lws),
        GROUP_INDEX_LABEL: of_leader[GROUP_INDEX_LABEL],
        GROUP_KEY_LABEL: of_leader[GROUP_KEY_LABEL],
    }
    labels = {**identity, REVISION_LABEL: of_leader[REVISION_LABEL]}
    annotations = inherited_annotations(lws)
    if ends_in_parallel(lws) and not notes_parallel(leader, None):
        annotations[POD_TERMINATION_POLICY_ANNOTATION] = PodTerminationPolicy.PARALLEL.value
    own_labels = {**inherited(labels_of(lws)), **labels, ROLE_LABEL: WORKER}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": child_metadata(leader, name, own_labels, annotations),
        "spec": {
            "serviceName": _subdomain(restored, leader),
            "replicas": restored.size - 1,
            "podManagementPolicy": "Parallel",
            # Index 0 is the leader, which has its own StatefulSet.
            "ordinals": {"start": 1},
            "selector": {"matchLabels": identity},
            "template": _worker_template(restored, leader, labels, placement or Placement()),
            **build_worker_storage(lws),
        },
    }


def _subdomain(restored: SetSpec, leader: Object) -> str:
    """Return the name of the Service by which the pods of the group find each other."""
    is_shared = restored.subdomain_policy == SubdomainPolicy.SHARED
    return name_of(restored.lws) if is_shared else group_name(leader)


def _worker_template(
    restored: SetSpec, leader: Object, labels: Mapping[str, str], placement: Placement
) -> dict[str, Any]:
    annotations = {
        SIZE_ANNOTATION: str(restored.size),
        LEADER_NAME_ANNOTATION: leader["metadata"]["name"],
        **restored.placement,
        **restored.subgroup_annotations,
    }
    if of_workload := template_annotations(restored.lws):
        # The annotations of the leader name its PodGroup.
        annotations |= {key: annotations_of(leader).get(key, value) for key, value in of_workload.items()}
    if tpu_containers(leader.get("spec") or {}):
        annotations[LEADER_REQUESTS_TPUS_ANNOTATION] = "true"
    template = decorated(restored.worker_template, labels, annotations)
    address = leader_address(group_name(leader), _subdomain(restored, leader), namespace_of(restored.lws))
    # Only the controller may set these annotations.
    template["metadata"]["annotations"].pop(GROUP_IDENTITY_ANNOTATION, None)
    template["metadata"]["annotations"][LEADER_ADDRESS_ANNOTATION] = address
    if is_of_hash_group(leader):
        template["metadata"]["annotations"][GROUP_IDENTITY_ANNOTATION] = GroupIdentity.HASH.value
    # Groups of one pod need no worker template, so an empty one may be recorded.
    pod = template["spec"] = dict(template.get("spec") or {})
    if placement.node_selector:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **placement.node_selector}
    if placement.tolerations:
        pod["tolerations"] = with_tolerations(pod.get("tolerations") or (), placement.tolerations)
    return template
