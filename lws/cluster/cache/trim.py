"""What we keep of the objects that sets produce: the fields that some decision reads, nothing else.

In: an object as the API server sent it. Out: a smaller one of the same shape. Thousands of pods stay in
memory, and an event that changes none of these fields wakes nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lws.group.tpu import tpu_containers
from lws.kube.metadata import controller_of, labels_of
from lws.kube.pods import DISRUPTED, SCHEDULED, disruption_of, wait_for_node
from lws.kube.types.shapes import is_deep
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL, template_labels
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.leaderworkerset.shape import readable_status
from lws_api.leaderworkerset.v1 import REVISION_LABEL

_PREFIX = "leaderworkerset.sigs.k8s.io/"
# Which of its StatefulSet's own revisions a pod was made from; of which gang it is; may it go first.
_ALSO_KEPT = frozenset(
    {
        STATEFULSET_REVISION_LABEL,
        "scheduling.k8s.io/group-name",
        "scheduling.x-k8s.io/pod-group",
        DELETION_COST_ANNOTATION,
    }
)
_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
)
# How a container ended: what users are told, and whether the group had started by then.
_MOMENTS = ("exitCode", "reason", "startedAt", "finishedAt")
_WORKERS_STATUS = ("observedGeneration", "replicas", "availableReplicas", "currentRevision", "updateRevision")


def trim(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an object that decisions read; kinds that are not watched come back whole."""
    return _TRIMMERS.get(obj["kind"], dict)(obj)


def _leaderworkerset(lws: Mapping[str, Any]) -> dict[str, Any]:
    """What users ask for, whole; not who wrote which field, which is more than half of it. Of the status what
    can be read: another definition may have let anything in.
    """
    metadata = {field: value for field, value in lws["metadata"].items() if field != "managedFields"}
    trimmed = {**lws, "metadata": metadata}
    return {**trimmed, "status": readable_status(lws["status"])} if "status" in lws else trimmed


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    status = pod.get("status", {})
    trimmed_status: dict[str, Any] = {
        "phase": status.get("phase", "Pending"),
        "conditions": [*_conditions(pod, status.get("conditions") or ())],
    }
    if status.get("reason"):
        trimmed_status["reason"] = status["reason"]
    for field in ("initContainerStatuses", "containerStatuses"):
        told = [_container(entry) for entry in _telling(status.get(field) or (), field)]
        if told:
            trimmed_status[field] = told
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(pod, _ours),
        "spec": _pod_spec(pod.get("spec") or {}, trimmed_status.get("initContainerStatuses") or ()),
        "status": trimmed_status,
    }


def _conditions(pod: Mapping[str, Any], stored: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Is it ready; why does it go, where that is not its fault; when did it get its node, of those that had
    to wait for one.
    """
    for each in stored:
        if each["type"] == "Ready":
            yield {"type": "Ready", "status": each["status"]}
        elif each["type"] == SCHEDULED and wait_for_node(pod) is not None:
            fields = ("type", "status", "lastTransitionTime")
            yield {field: each[field] for field in fields if field in each}
        elif each["type"] == DISRUPTED and (reason := disruption_of(pod)):
            yield {"type": DISRUPTED, "status": "True", "reason": reason}


def _telling(statuses: Sequence[Mapping[str, Any]], field: str) -> list[Mapping[str, Any]]:
    """Containers that restarted or have ended with an error, and of the others the one that was started last:
    then the pod left Pending.
    """
    told = [entry for entry in statuses if entry.get("restartCount") or _has_failed(entry)]
    calm = [entry for entry in statuses if entry not in told and _started_at(entry)]
    if field == "containerStatuses" and calm:
        told.append(max(calm, key=_started_at))
    return told


def _container(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"name": entry["name"]}
    if entry.get("restartCount"):
        kept["restartCount"] = entry["restartCount"]
    for field in ("state", "lastState"):
        for state, details in (entry.get(field) or {}).items():
            if state in ("running", "terminated"):
                kept[field] = {state: {key: details[key] for key in _MOMENTS if key in details}}
    return kept


def _has_failed(entry: Mapping[str, Any]) -> bool:
    return bool(((entry.get("state") or {}).get("terminated") or {}).get("exitCode"))


def _started_at(entry: Mapping[str, Any]) -> str:
    return str(((entry.get("state") or {}).get("running") or {}).get("startedAt") or "")


def _pod_spec(spec: Mapping[str, Any], restarted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where it runs, of which gang it is, which containers use TPUs, which of the restarted init containers
    are sidecars.
    """
    kept: dict[str, Any] = {key: spec[key] for key in ("nodeName", "schedulingGroup") if spec.get(key)}
    # Workers are told whether their leader uses TPUs.
    if using := tpu_containers(spec):
        kept["containers"] = [
            {key: each[key] for key in ("name", "resources") if key in each} for each in using
        ]
    names = {entry["name"] for entry in restarted}
    sidecars = [
        {"name": each["name"], "restartPolicy": "Always"}
        for each in spec.get("initContainers") or ()
        if each["name"] in names and each.get("restartPolicy") == "Always"
    ]
    if sidecars:
        kept["initContainers"] = sidecars
    return kept


def _statefulset(statefulset: Mapping[str, Any]) -> dict[str, Any]:
    if not _is_controlled_by_pod(statefulset):
        return _leader_statefulset(statefulset)
    spec = statefulset.get("spec", {})
    status = statefulset.get("status", {})
    kept = {key: spec[key] for key in ("replicas", "ordinals") if key in spec}
    kept |= _unlike_labels(statefulset)
    if (spec.get("persistentVolumeClaimRetentionPolicy") or {}).get("whenDeleted") == "Delete":
        kept["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete"}
    return {
        "apiVersion": statefulset["apiVersion"],
        "kind": "StatefulSet",
        "metadata": _metadata(statefulset, _ours),
        "spec": kept,
        "status": {key: status[key] for key in _WORKERS_STATUS if key in status},
    }


def _unlike_labels(statefulset: Mapping[str, Any]) -> dict[str, Any]:
    """By which labels it chooses its pods and which it gives them, only where its own were edited: of
    thousands that say the same twice, once is enough.
    """
    spec, carried = statefulset.get("spec", {}), labels_of(statefulset)
    kept: dict[str, Any] = {}
    chosen = (spec.get("selector") or {}).get("matchLabels") or {}
    if any(carried.get(name) != value for name, value in chosen.items()):
        kept["selector"] = {"matchLabels": chosen}
    inside = template_labels(statefulset)
    if inside is not None and inside.get(REVISION_LABEL) != carried.get(REVISION_LABEL):
        kept["template"] = {"metadata": {"labels": _ours(inside)}}
    return kept


def _leader_statefulset(statefulset: Mapping[str, Any]) -> dict[str, Any]:
    """Whole, because an intent is compared with it; of managedFields only what a server-side apply of ours
    owns.
    """
    metadata = dict(statefulset["metadata"])
    entries = metadata.pop("managedFields", None) or ()
    metadata["managedFields"] = [
        entry for entry in entries if entry.get("manager") == "lws" and entry.get("operation") == "Apply"
    ]
    return {**statefulset, "metadata": metadata}


def _service(service: Mapping[str, Any]) -> dict[str, Any]:
    """Headless ones have no ports. Of one that nobody controls also whether it is headless, and what a writer
    of our name has written: by that it is told whether it is ours.
    """
    spec = service.get("spec", {})
    kept = {"selector": spec.get("selector") or {}}
    if spec.get("ports"):
        kept |= {"ports": spec["ports"], "type": spec.get("type")}
    if controller_of(service) is None and spec.get("clusterIP"):
        kept |= {"clusterIP": spec["clusterIP"]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _with_writer(service), "spec": kept}


def _with_writer(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _metadata(obj, _ours)
    if controller_of(obj) is None:
        entries = obj["metadata"].get("managedFields") or ()
        metadata["managedFields"] = [entry for entry in entries if entry.get("manager") == "lws"]
    return metadata


def _whose(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Of claims and PodGroups nothing matters but that they are there, and whose they are."""
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": _metadata(obj, _ours)}


def _disruption_budget(budget: Mapping[str, Any]) -> dict[str, Any]:
    """What its own controller reports of it changes with every pod, and decides nothing here. Of one that
    nobody controls also what a writer of our name has written.
    """
    return {
        "apiVersion": budget["apiVersion"],
        "kind": "PodDisruptionBudget",
        "metadata": _with_writer(budget),
        "spec": budget.get("spec") or {},
    }


def _controller_revision(revision: Mapping[str, Any]) -> dict[str, Any]:
    """StatefulSets' own revisions carry our labels too (they copy the pod template's): of their data no more
    is kept than whose key it is, where the label was edited.
    """
    trimmed = {
        "apiVersion": revision["apiVersion"],
        "kind": "ControllerRevision",
        "metadata": _metadata(revision, dict),
        "revision": revision.get("revision", 0),
    }
    data = revision.get("data")
    spec = data.get("spec") if isinstance(data, dict) else None
    # What is deep enough cannot even be compared.
    if isinstance(spec, dict) and "leaderWorkerTemplate" in spec and not is_deep(data):
        trimmed["data"] = data
    elif (inside := template_labels(revision) or {}).get(REVISION_LABEL) not in (
        None,
        labels_of(revision).get(REVISION_LABEL),
    ):
        trimmed["data"] = {"spec": {"template": {"metadata": {"labels": _ours(inside)}}}}
    return trimmed


def _metadata(obj: Mapping[str, Any], keep: Any) -> dict[str, Any]:
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    for field in ("labels", "annotations"):
        values = keep(metadata.get(field) or {})
        if values:
            kept[field] = values
    return kept


def _ours(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(_PREFIX) or key in _ALSO_KEPT}


def _is_controlled_by_pod(obj: Mapping[str, Any]) -> bool:
    return any(
        reference.get("controller") and reference.get("kind") == "Pod"
        for reference in obj["metadata"].get("ownerReferences") or ()
    )


_TRIMMERS = {
    "LeaderWorkerSet": _leaderworkerset,
    "Pod": _pod,
    "StatefulSet": _statefulset,
    "Service": _service,
    "PodDisruptionBudget": _disruption_budget,
    "ControllerRevision": _controller_revision,
    "PersistentVolumeClaim": _whose,
    "PodGroup": _whose,
}
