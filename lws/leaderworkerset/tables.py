"""Fields of each watched kind that some decision reads: what the store keeps of an object, which changes
count, and which passes they wake.

Thousands of pods stay in memory, and most of their changes concern no pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lws.kube.metadata import (
    ORPHAN_FINALIZER,
    annotations_of,
    belongs_to_a_tool,
    controller_of,
    is_mapping,
    labels_of,
)
from lws.kube.nodes import node_of
from lws.kube.pods import (
    CONTAINERS_READY,
    DISRUPTED,
    SCHEDULED,
    are_containers_ready,
    has_gate,
    is_ready,
    wait_for_node,
)
from lws.kube.shapes import is_deep
from lws.kube.statefulsets import is_settled, is_short
from lws.leaderworkerset.group.tpu import tpu_containers
from lws.leaderworkerset.pod_identity import are_hash_workers, is_of_hash_group
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL, template_labels
from lws.leaderworkerset.revisions.shape import readable_status
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.leaderworkerset.spec import group_topology
from lws.runtime.actions import Object
from lws.runtime.client.resources import (
    CLAIMS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    LEADERWORKERSETS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFULSETS,
    Workload,
)
from lws.runtime.stored_fields import ALL, LATER, NONE, SET, Rule, StoredField, StoredFields, Wakes, nothing
from lws_api.disaggregatedset.v1 import (
    ADDED_METADATA_ANNOTATION,
    INITIAL_REPLICAS_ANNOTATION,
    OTHERS_INITIAL_REPLICAS_ANNOTATION,
)
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    GROUP_READY_CONDITION,
    GROUP_REPLACEMENT_GATE,
    GROUP_RESTART_COUNTS_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    LABEL_PREFIX,
    NAME_LABEL,
    PODS_RETRIED_AT_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)

# --- Classify changes of a pod that are steps of its start, and the passes they wake. Half of all changes
# while a set is created are of this kind, and a pass over the group would find nothing to do. Waking too few
# passes costs correctness; waking too many only costs time.


def is_undisturbed(pod: Object) -> bool:
    """Return whether the pod has not ended and none of its containers has ended or restarted. A restart that
    was ignored while the pod was Pending may count once the pod runs.
    """
    status = pod.get("status") or {}
    if status.get("reason") or status.get("phase", "Pending") not in ("Pending", "Running"):
        return False
    return not any(
        entry.get("restartCount") or entry.get("lastState") or "terminated" in (entry.get("state") or ())
        for field in ("containerStatuses", "initContainerStatuses")
        for entry in status.get(field) or ()
    )


def on_node(before: Object, after: Object) -> Wakes:
    """Return the passes to wake when the pod is scheduled: its workers may have waited for the node."""
    return ALL if node_of(before) else _step(after)


def on_phase(before: Object, after: Object) -> Wakes:
    """Return the passes to wake when the phase changes. Only Running → Pending wakes all passes."""
    return ALL if (_phase(before), _phase(after)) == ("Running", "Pending") else SET


def on_conditions(before: Object, after: Object) -> Wakes:
    """Return the passes to wake when conditions change. Workers may wait for their leader to become Ready. A
    leader whose former group kept it from a node may show this only after the pods of that group are gone.
    """
    was, now = is_ready(before), is_ready(after)
    if was == now:
        if is_of_hash_group(after) and are_containers_ready(before) != are_containers_ready(after):
            return ALL if are_containers_ready(before) else _step(after)
        is_turned_away = wait_for_node(before) is None and wait_for_node(after) is not None
        return _step(after) if is_turned_away and group_topology(annotations_of(after)) else SET
    return ALL if was else _step(after)


def _step(pod: Object) -> Wakes:
    return LATER if _is_leader(pod) else SET


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _is_leader(pod: Object) -> bool:
    """Return whether the pod is a leader by its worker index or its owner, because labels may be edited."""
    labels, owner = labels_of(pod), controller_of(pod)
    return labels.get(WORKER_INDEX_LABEL) == "0" or (
        owner is not None and owner["name"] == labels.get(NAME_LABEL)
    )


_OURS = f"{LABEL_PREFIX}/"
# Labels and annotations of other software that are read: the revision of a StatefulSet's pods, the gang of a
# pod, the deletion cost.
_ALSO_KEPT = frozenset(
    {
        STATEFULSET_REVISION_LABEL,
        "scheduling.k8s.io/group-name",
        "scheduling.x-k8s.io/pod-group",
        DELETION_COST_ANNOTATION,
    }
)
# Conditions of Hash leaders. Workers wait for the leader's containers, because the leader is not Ready before
# its workers are; the other condition reports that they are.
_OF_HASH_LEADERS = (CONTAINERS_READY, GROUP_READY_CONDITION)
# How a container ended, which users are told.
_OF_END = ("exitCode", "reason")


# --- Any kind


def ours(values: Mapping[str, str], obj: Mapping[str, Any]) -> dict[str, str] | None:
    """Keep labels or annotations that some decision reads."""
    return _ours(values) or None


def ours_and_tools(values: Mapping[str, str], obj: Mapping[str, Any]) -> dict[str, str] | None:
    """Keep labels or annotations that some decision reads, and the keys that deployment tools set. Adoption
    removes the latter. Their values may be whole manifests and are dropped.
    """
    return {**_ours(values), **{key: "" for key in values if belongs_to_a_tool(key)}} or None


def writers_of_orphan(entries: Sequence[Any], obj: Mapping[str, Any]) -> list[Any] | None:
    """Keep managedFields entries of field manager `lws` on orphans. They show who created the orphan."""
    if controller_of(obj) is not None:
        return None
    return [entry for entry in entries if entry.get("manager") == "lws"]


# --- Sets


def set_status(status: Any, lws: Mapping[str, Any]) -> Any:
    """Keep the readable fields of the status: another version of the CRD may have accepted any value."""
    return readable_status(status)


# --- Pods


def conditions(stored: Sequence[Mapping[str, Any]], pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keep readiness, the reason of a disruption, and the scheduling time of a pod that had to wait."""
    reduced: list[dict[str, Any]] = []
    for condition in stored:
        if condition["type"] == "Ready" or (condition["type"] in _OF_HASH_LEADERS and is_of_hash_group(pod)):
            reduced.append({"type": condition["type"], "status": condition["status"]})
        elif condition["type"] == SCHEDULED and _has_waited(pod, condition):
            fields = ("type", "status", "lastTransitionTime")
            reduced.append({field: condition[field] for field in fields if field in condition})
        elif condition["type"] in DISRUPTED and condition["status"] == "True":
            reason = condition.get("reason") or condition["type"]
            reduced.append({"type": condition["type"], "status": "True", "reason": reason})
    return reduced


def finalizers(stored: Sequence[str], pod: Mapping[str, Any]) -> list[str] | None:
    """Keep our finalizer of groups that have used up their restarts, and the one that orphans workers."""
    return [
        finalizer for finalizer in stored if finalizer in (RESTART_BUDGET_FINALIZER, ORPHAN_FINALIZER)
    ] or None


def gates(stored: Sequence[Any], pod: Mapping[str, Any]) -> list[Any] | None:
    """Keep all scheduling gates if ours is among them, because we remove it; else only the first. All gates
    must be removed before the pod is scheduled, so one shows that the pod is gated.
    """
    return list(stored if has_gate(pod, GROUP_REPLACEMENT_GATE) else stored[:1]) or None


def on_gates(before: Object, after: Object) -> Wakes:
    """Wake the group when our gate is removed from a leader that is scheduled together with its workers, or
    from a leader of a Hash group: then the pass over the group creates the workers. That pass itself removes
    the gate of other leaders.
    """
    had, has = (has_gate(pod, GROUP_REPLACEMENT_GATE) for pod in (before, after))
    is_awaited = is_of_hash_group(after) or (after.get("spec") or {}).get("schedulingGroup")
    return ALL if had and not has and is_awaited else SET


def of_workload(spec: Any, pod_group: Mapping[str, Any]) -> Any:
    """Keep the spec of a PodGroup for `spec.scheduling`, which is compared with the intent."""
    return spec if is_mapping(spec) and "workloadRef" in spec else None


def host_name(stored: str, pod: Mapping[str, Any]) -> str | None:
    """Keep the host name of a Hash leader, which its workers are named after."""
    # The host name of a StatefulSet's pod is its name.
    return stored if stored != pod["metadata"]["name"] and is_of_hash_group(pod) else None


def of_return(value: Any, pod: Mapping[str, Any]) -> Any:
    """Keep fields that decide whether a pod could still run on the node that it waits to return to."""
    # The node is tested first, because nearly all events are about pods that have one.
    is_waiting = not pod["spec"].get("nodeName") and RETURNS_TO_ANNOTATION in annotations_of(pod)
    return value if is_waiting else None


def eventful(stored: Sequence[Mapping[str, Any]], pod: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Keep containers that have restarted or have ended with an error."""
    return [_container(entry) for entry in stored if _is_eventful(entry)] or None


def tpu_requests(containers: Any, pod: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Keep the containers that use TPUs: workers need to know whether their leader uses TPUs."""
    using = tpu_containers(pod["spec"])
    return [
        {key: container[key] for key in ("name", "resources") if key in container} for container in using
    ] or None


def restarted_sidecars(
    containers: Sequence[Mapping[str, Any]], pod: Mapping[str, Any]
) -> list[dict[str, Any]] | None:
    """Keep the sidecars among the init containers that restarted."""
    stored = (pod.get("status") or {}).get("initContainerStatuses") or ()
    names = {entry["name"] for entry in stored if _is_eventful(entry)}
    return [
        {"name": container["name"], "restartPolicy": "Always"}
        for container in containers
        if container["name"] in names and container.get("restartPolicy") == "Always"
    ] or None


# --- StatefulSets


def our_applies(entries: Sequence[Any], statefulset: Mapping[str, Any]) -> list[Any]:
    """Keep the managedFields entries of our server-side applies."""
    return [entry for entry in entries if entry.get("manager") == "lws" and entry.get("operation") == "Apply"]


def claims_go_too(policy: Mapping[str, str], statefulset: Mapping[str, Any]) -> dict[str, str] | None:
    """Keep the retention policy if it deletes PVCs together with the StatefulSet."""
    return {"whenDeleted": "Delete"} if policy.get("whenDeleted") == "Delete" else None


def unlike_selector(selector: Mapping[str, Any], statefulset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Keep the selector unless the StatefulSet's own labels match it. Thousands of StatefulSets repeat their
    labels in the selector, so a selector that equals them is not stored.
    """
    carried, chosen = labels_of(statefulset), selector.get("matchLabels") or {}
    return None if chosen.items() <= carried.items() else {"matchLabels": chosen}


def unlike_template(template: Any, statefulset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Keep our labels of the template if its revision label differs from the StatefulSet's."""
    inside = template_labels(statefulset)
    if inside is None or inside.get(REVISION_LABEL) == labels_of(statefulset).get(REVISION_LABEL):
        return None
    return {"metadata": {"labels": _ours(inside)}}


# --- Jobs


def ends(stored: Sequence[Mapping[str, Any]], job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keep the conditions that show whether the Job ended, and why."""
    fields = ("type", "status", "reason")
    return [
        {field: condition[field] for field in fields if field in condition}
        for condition in stored
        if condition["type"] in ("Complete", "Failed")
    ]


# --- Services


def ports(stored: Sequence[Any], service: Mapping[str, Any]) -> Any:
    """Keep the ports of a Service; headless Services have none."""
    return stored or None


def type_unless_default(stored: str, service: Mapping[str, Any]) -> str | None:
    """Keep the type of a Service, except ClusterIP without ports."""
    return stored if service["spec"].get("ports") or stored != "ClusterIP" else None


def address_unless_headless(stored: str, service: Mapping[str, Any]) -> str | None:
    """Keep the cluster IP, except of headless Services with an owner: there are thousands."""
    return None if stored == "None" and controller_of(service) is not None else stored or None


# --- ControllerRevisions


def recorded_data(data: Any, revision: Mapping[str, Any]) -> Any:
    """Keep the data of revisions of sets. Revisions of StatefulSets have our labels too, copied from the pod
    template. Of their data, only our labels of the template are kept, and only if the revision label of the
    ControllerRevision was edited.
    """
    recorded = data.get("spec") if isinstance(data, dict) else None
    # Data nested too deeply cannot be compared.
    if isinstance(recorded, dict) and "leaderWorkerTemplate" in recorded and not is_deep(data):
        return data
    inside = template_labels(revision) or {}
    if inside.get(REVISION_LABEL) in (None, labels_of(revision).get(REVISION_LABEL)):
        return None
    return {"spec": {"template": {"metadata": {"labels": _ours(inside)}}}}


# --- Parts


def _ours(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(_OURS) or key in _ALSO_KEPT}


def _has_waited(pod: Mapping[str, Any], scheduled: Mapping[str, Any]) -> bool:
    # Most pods are scheduled in the second in which they are created, and parsing times is expensive.
    created = pod["metadata"].get("creationTimestamp")
    is_at_once = scheduled["status"] == "True" and scheduled.get("lastTransitionTime") == created
    return not is_at_once and wait_for_node(pod) is not None


def _is_eventful(entry: Mapping[str, Any]) -> bool:
    return bool(
        entry.get("restartCount") or ((entry.get("state") or {}).get("terminated") or {}).get("exitCode")
    )


def _container(entry: Mapping[str, Any]) -> dict[str, Any]:
    reduced: dict[str, Any] = {"name": entry["name"]}
    if entry.get("restartCount"):
        reduced["restartCount"] = entry["restartCount"]
    for field in ("state", "lastState"):
        if end := (entry.get(field) or {}).get("terminated"):
            reduced[field] = {"terminated": {key: end[key] for key in _OF_END if key in end}}
    return reduced


def _is_of_group(statefulset: Mapping[str, Any]) -> bool:
    owner = controller_of(statefulset)
    return owner is not None and owner.get("kind") == "Pod"


def _on_count(before: Object, after: Object) -> Wakes:
    """Return the passes to wake when the counters of a worker StatefulSet change. Groups are judged by their
    pods; the set only needs to know whether all pods exist, and whether the StatefulSet is settled.
    """
    is_settled_as_before = is_settled(before) == is_settled(after)
    if not is_settled_as_before and are_hash_workers(after):
        # The pass over a Hash group reports on its leader whether the workers are ready.
        return ALL
    return NONE if is_settled_as_before and is_short(before) == is_short(after) else SET


# Changes of these annotations trigger no pass. After a retry, the StatefulSet controller reports the result.
# Records of a DisaggregatedSet on its children caused six passes over each child and all of its groups in a
# rollout.
_REMEMBERED_BY_OTHERS = frozenset(
    {
        PODS_RETRIED_AT_ANNOTATION,
        INITIAL_REPLICAS_ANNOTATION,
        OTHERS_INITIAL_REPLICAS_ANNOTATION,
        ADDED_METADATA_ANNOTATION,
        "deployment.kubernetes.io/revision",
    }
)


_COUNTS = frozenset({GROUP_RESTART_COUNTS_ANNOTATION, GROUP_RESTARTS_COUNTED_FOR_ANNOTATION})


def _on_annotations(before: Object, after: Object) -> Wakes:
    old, new = annotations_of(before), annotations_of(after)
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    if changed <= _REMEMBERED_BY_OTHERS:
        return NONE
    # Passes over groups write the counts; the pass over the set removes the counts of deleted groups.
    return SET if changed <= _COUNTS else ALL


def _statuses(wakes: Wakes | Rule, *names: str) -> tuple[StoredField, ...]:
    return tuple(StoredField(f"status.{name}", wakes) for name in names)


_IDENTITY_FIELDS = (
    *(StoredField(f"metadata.{name}") for name in ("name", "namespace", "uid")),
    StoredField("metadata.resourceVersion", NONE),
    *(StoredField(f"metadata.{name}") for name in ("creationTimestamp", "deletionTimestamp")),
    StoredField("metadata.deletionGracePeriodSeconds"),
    StoredField("metadata.ownerReferences"),
)
_METADATA = (
    *_IDENTITY_FIELDS,
    StoredField("metadata.labels", excerpt=ours),
    StoredField("metadata.annotations", excerpt=ours),
)
# For kinds that may be adopted: adoption removes labels and annotations of deployment tools. Any label may be
# one that the manager repairs.
_METADATA_OF_ADOPTABLE = (
    *_IDENTITY_FIELDS,
    StoredField("metadata.labels"),
    StoredField("metadata.annotations", excerpt=ours_and_tools),
)
# managedFields changes with every write, whichever field is written.
_WRITERS_OF_ORPHAN = StoredField("metadata.managedFields", NONE, writers_of_orphan)
_STATEFULSET_OF_GROUP = StoredFields(
    "StatefulSet",
    (
        *_IDENTITY_FIELDS,
        StoredField("metadata.generation"),
        StoredField("metadata.labels", excerpt=ours_and_tools),
        StoredField("metadata.annotations", _on_annotations, ours_and_tools),
        StoredField("spec.replicas"),
        StoredField("spec.ordinals"),
        StoredField("spec.persistentVolumeClaimRetentionPolicy", excerpt=claims_go_too),
        StoredField("spec.selector", excerpt=unlike_selector),
        StoredField("spec.template", excerpt=unlike_template),
        *_statuses(_on_count, "observedGeneration", "replicas", "availableReplicas"),
        *_statuses(_on_count, "currentRevision", "updateRevision"),
    ),
)
# Rows of the two kinds that leaders belong to. Both are kept whole, because an intent is compared with them.
_OF_LEADERS = (
    StoredField("metadata.resourceVersion", NONE),
    StoredField("metadata.managedFields", NONE, our_applies, []),
    StoredField("metadata.annotations", _on_annotations),
    *_statuses(SET, "observedGeneration", "replicas"),
)

TABLES = (
    # A set is kept whole, because it is the desired state. Its generation shows that the spec changed. A
    # changed status counts unless it is as our last write left it, which is checked where changes are routed.
    StoredFields(
        "LeaderWorkerSet",
        (
            StoredField("metadata.managedFields", NONE, nothing),
            *(
                StoredField(f"metadata.{name}")
                for name in ("uid", "generation", "labels", "deletionTimestamp")
            ),
            StoredField("metadata.annotations", _on_annotations),
            StoredField("status", SET, set_status),
        ),
        others=NONE,
    ),
    StoredFields(
        "Pod",
        (
            *_METADATA,
            StoredField("metadata.finalizers", excerpt=finalizers),
            StoredField("spec.nodeName", on_node),
            StoredField("spec.schedulingGates", on_gates, gates),
            StoredField("spec.hostname", excerpt=host_name),
            StoredField("spec.schedulingGroup"),
            *(
                StoredField(f"spec.{name}", NONE, of_return)
                for name in ("affinity", "nodeSelector", "tolerations")
            ),
            StoredField("spec.containers", excerpt=tpu_requests),
            StoredField("spec.initContainers", excerpt=restarted_sidecars),
            StoredField("status.phase", on_phase, default="Pending"),
            StoredField("status.conditions", on_conditions, conditions, []),
            StoredField("status.reason"),
            StoredField("status.initContainerStatuses", SET, eventful),
            StoredField("status.containerStatuses", SET, eventful),
        ),
        is_undisturbed=is_undisturbed,
    ),
    StoredFields(
        "StatefulSet",
        (
            *_OF_LEADERS,
            *_statuses(SET, "currentRevision", "updateRevision"),
            # Groups are judged by their pods, whose changes arrive sooner.
            *_statuses(NONE, "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"),
        ),
        others=ALL,
        variant=(_is_of_group, _STATEFULSET_OF_GROUP),
    ),
    StoredFields(
        "Deployment",
        (
            *_OF_LEADERS,
            *_statuses(SET, "readyReplicas", "updatedReplicas"),
            *_statuses(NONE, "availableReplicas", "unavailableReplicas", "terminatingReplicas", "conditions"),
        ),
        others=ALL,
    ),
    # A ReplicaSet is read for the template of its pods.
    StoredFields(
        "ReplicaSet",
        (
            *_IDENTITY_FIELDS,
            StoredField("metadata.generation"),
            StoredField("metadata.labels", excerpt=ours),
            StoredField("spec.replicas", SET),
            StoredField("spec.template", excerpt=unlike_template),
            *_statuses(SET, "observedGeneration", "replicas"),
        ),
    ),
    StoredFields(
        "Service",
        (
            *_METADATA_OF_ADOPTABLE,
            _WRITERS_OF_ORPHAN,
            StoredField("spec.selector", default={}),
            StoredField("spec.ports", excerpt=ports),
            StoredField("spec.publishNotReadyAddresses"),
            StoredField("spec.type", excerpt=type_unless_default),
            StoredField("spec.clusterIP", excerpt=address_unless_headless),
        ),
    ),
    # The status that the disruption controller writes changes with every pod, and decides nothing here.
    StoredFields(
        "PodDisruptionBudget", (*_METADATA_OF_ADOPTABLE, _WRITERS_OF_ORPHAN, StoredField("spec", default={}))
    ),
    StoredFields(
        "ControllerRevision",
        (
            *_IDENTITY_FIELDS,
            StoredField("metadata.labels"),
            StoredField("metadata.annotations"),
            StoredField("revision", default=0),
            StoredField("data", excerpt=recorded_data),
        ),
    ),
    # PVCs are only read for their existence and their owners.
    StoredFields("PersistentVolumeClaim", _METADATA),
    # A Job is read for whether it has ended and whether it has a pod.
    StoredFields(
        "Job",
        (
            *_METADATA,
            StoredField("status.active", SET),
            StoredField("status.conditions", SET, ends, []),
        ),
    ),
    StoredFields("PodGroup", (*_METADATA_OF_ADOPTABLE, StoredField("spec", excerpt=of_workload))),
    StoredFields("Workload", (*_METADATA_OF_ADOPTABLE, StoredField("spec", default={}))),
)

LEADER_WORKER_SET = Workload(
    LEADERWORKERSETS,
    NAME_LABEL,
    (
        STATEFULSETS,
        DEPLOYMENTS,
        REPLICA_SETS,
        PODS,
        SERVICES,
        CONTROLLER_REVISIONS,
        CLAIMS,
        POD_DISRUPTION_BUDGETS,
        JOBS,
    ),
    frozenset({"StatefulSet", "Deployment", "ReplicaSet", "Pod"}),
)
"""Kinds that are watched for LeaderWorkerSets."""

_BY_KIND = {table.kind: table for table in TABLES}


def table_of(obj: Mapping[str, Any]) -> StoredFields | None:
    """Return the fields that are read of the object; None for a kind that is not watched."""
    table = _BY_KIND.get(obj["kind"])
    return table.of(obj) if table is not None else None


def wakes(before: Object, after: Object) -> Wakes:
    """Return the passes that a change wakes, of those over the sets and groups that the object concerns."""
    table = table_of(after)
    return table.wakes(before, after) if table is not None else ALL
