"""The objects a group consists of beside its leader pod: the worker StatefulSet and, if asked for, its own
Service.

In: the leader pod and the set with the revision of that leader restored into it. Out: complete new objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.metadata import name_of, namespace_of, owner_reference
from lws.leaderworkerset.group.placement import Placement
from lws.leaderworkerset.group.tpu import tpu_containers
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.claims import build_worker_storage
from lws.leaderworkerset.templates.node_selection import with_tolerations
from lws.leaderworkerset.templates.objects import (
    annotations_of_set,
    build_service,
    decorated,
    labels_of_set,
)
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    SubdomainPolicy,
)


def build_worker_statefulset(
    restored: SetSpec, leader: Object, placement: Placement | None = None
) -> dict[str, Any]:
    """Build the StatefulSet of a group's workers, owned by the leader pod and deleted with it.

    restored: the set as the leader's revision had it; its own labels and annotations are live, but for those
    that say where groups run. placement: of all workers, on top of what the user wants.
    """
    lws, name = restored.lws, leader["metadata"]["name"]
    of_leader = leader["metadata"]["labels"]
    identity = {
        NAME_LABEL: name_of(lws),
        GROUP_INDEX_LABEL: of_leader[GROUP_INDEX_LABEL],
        GROUP_KEY_LABEL: of_leader[GROUP_KEY_LABEL],
    }
    labels = {**identity, REVISION_LABEL: of_leader[REVISION_LABEL]}
    is_shared = restored.subdomain_policy == SubdomainPolicy.SHARED
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace_of(lws),
        "labels": {**labels_of_set(lws), **labels},
        "ownerReferences": [owner_reference(leader)],
    }
    if annotations := annotations_of_set(lws):
        metadata["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "serviceName": name_of(lws) if is_shared else name,
            "replicas": restored.size - 1,
            "podManagementPolicy": "Parallel",
            # Worker 0 is the leader: it has its own StatefulSet.
            "ordinals": {"start": 1},
            "selector": {"matchLabels": identity},
            "template": _worker_template(restored, leader, labels, placement or Placement()),
            **build_worker_storage(lws),
        },
    }


def _worker_template(
    restored: SetSpec, leader: Object, labels: Mapping[str, str], placement: Placement
) -> dict[str, Any]:
    annotations = {
        SIZE_ANNOTATION: str(restored.size),
        LEADER_NAME_ANNOTATION: leader["metadata"]["name"],
        **restored.placement,
        **restored.subgroup_annotations,
    }
    if tpu_containers(leader.get("spec") or {}):
        annotations[LEADER_REQUESTS_TPUS_ANNOTATION] = "true"
    template = decorated(restored.worker_template, labels, annotations)
    # Pods take it for what a later release of the original wrote down.
    template["metadata"]["annotations"].pop(LEADER_ADDRESS_ANNOTATION, None)
    # Groups of one need no template of workers, and may have an empty one recorded.
    pod = template["spec"] = dict(template.get("spec") or {})
    if placement.node_selector:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **placement.node_selector}
    if placement.tolerations:
        pod["tolerations"] = with_tolerations(pod.get("tolerations") or (), placement.tolerations)
    return template


def build_group_service(set_name: str, leader: Object) -> dict[str, Any]:
    """The headless Service of one group (KEP-173), owned by its leader pod."""
    index = leader["metadata"]["labels"][GROUP_INDEX_LABEL]
    selector = {NAME_LABEL: set_name, GROUP_INDEX_LABEL: index}
    return build_service(leader["metadata"]["name"], set_name, selector, leader)
