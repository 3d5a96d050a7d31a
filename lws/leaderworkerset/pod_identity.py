"""Compute the labels and annotations that identify the pods of a group, and find edits of them.

In: pods as stored, and facts that cannot be edited: names, owners, the selector of the worker StatefulSet,
the revision. Out: the pods with the labels and annotations that they should have, and the edits to repair.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_mapping,
    is_terminating,
    labels_of,
    uid_of,
)
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import node_of
from lws.kube.pods import with_required_node
from lws.kube.quantities import whole_number
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.runtime.actions import Object
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ENV,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
    PodTerminationPolicy,
)

_HOST_SUFFIX = re.compile(r"-([0-9a-f]{8})$")
_OF_GROUP = (GROUP_INDEX_LABEL, GROUP_KEY_LABEL)
_HASH_KEY = re.compile(r"[0-9a-f]{40}")
_DIGITS_IN_HOST_NAME = 8

GATED_DELETION_COST = "-100"
"""Deletion cost of a leader with the group replacement gate: the ReplicaSet removes such a leader first."""


@dataclass(frozen=True, slots=True)
class PodMarks:
    """Labels and annotations that a pod should have; None for an annotation that it should not have."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edited:
    """A pod as stored, and the labels and annotations to repair, with the desired values."""

    pod: Object
    marks: PodMarks


def marks_of_leader(
    leader: Object, key: str | None, size: int | None, template: Object, workers: Object | None
) -> PodMarks:
    """Return the labels and annotations that the leader pod of a group should have.

    key, size: revision key and size of its revision; None if unknown. template: template of the leader
    StatefulSet or Deployment. Labels and annotations that it sets itself are no edits. workers: the
    StatefulSet that exactly this pod controls. Its selector, which never changes, has these labels.
    """
    metadata = leader["metadata"]
    selected = _selected(workers) if workers is not None else {}
    if is_of_hash_group(leader):
        name, of_group = labels_of(template).get(NAME_LABEL, ""), _hash_labels(leader, selected)
    else:
        name, ordinal = parent_and_ordinal(metadata["name"])
        of_group = {
            GROUP_INDEX_LABEL: selected.get(GROUP_INDEX_LABEL) or str(ordinal),
            GROUP_KEY_LABEL: selected.get(GROUP_KEY_LABEL)
            or group_key(metadata["namespace"], metadata["name"]),
        }
    is_of_template = LEADER_NAME_ANNOTATION in annotations_of(template)
    return PodMarks(
        labels={
            **({NAME_LABEL: name} if name else {}),
            WORKER_INDEX_LABEL: "0",
            **{label: value for label, value in of_group.items() if label not in labels_of(template)},
            **({REVISION_LABEL: key} if key else {}),
        },
        annotations={
            **({SIZE_ANNOTATION: str(size)} if size is not None else {}),
            **({} if is_of_template else {LEADER_NAME_ANNOTATION: None}),
            **_identity(leader),
        },
    )


def _hash_labels(leader: Object, selected: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a Hash group. Without workers, only the host name proves the key of the leader."""
    key = selected.get(GROUP_KEY_LABEL)
    if key is None:
        carried = (labels_of(leader).get(label, "") for label in (GROUP_KEY_LABEL, GROUP_INDEX_LABEL))
        number = group_number(leader)
        key = next((each for each in carried if is_hash_key(each) and each.startswith(f"{number:08x}")), None)
    return {} if key is None else dict.fromkeys(_OF_GROUP, key)


def _identity(leader: Object) -> dict[str, str]:
    """Return the annotation that all pods of a Hash group have; empty for other groups."""
    return {GROUP_IDENTITY_ANNOTATION: GroupIdentity.HASH.value} if is_of_hash_group(leader) else {}


def marks_of_worker(worker: Object, leader: Object, workers: Object, size: int | None) -> PodMarks:
    """Return the labels and annotations that a worker pod should have. workers: the StatefulSet that controls
    the pod. size: size of its group; None if the workers are of another revision than the leader.
    """
    selected, key = _selected(workers), key_of_template(workers)
    named = {NAME_LABEL: selected.get(NAME_LABEL)} | {name: selected.get(name) for name in _OF_GROUP}
    known = {**named, REVISION_LABEL: key, WORKER_INDEX_LABEL: str(index_by_name(worker))}
    return PodMarks(
        labels={name: value for name, value in known.items() if value},
        annotations={
            LEADER_NAME_ANNOTATION: leader["metadata"]["name"],
            **_identity(leader),
            **({SIZE_ANNOTATION: str(size)} if size is not None else {}),
        },
    )


def lacks_group(leader: Object) -> bool:
    """Return whether the leader lacks labels that the pod webhook gives it."""
    return not set(_OF_GROUP) <= labels_of(leader).keys()


def was_admitted(pod: Object) -> bool:
    """Return whether the containers of the untrimmed pod have the environment that the pod webhook adds."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    return any(each.get("name") == LEADER_ADDRESS_ENV for one in containers for each in one.get("env") or ())


def without_group(marks: PodMarks) -> PodMarks:
    """Leave out the group labels of a pod that the webhook has never seen: it would look complete."""
    return PodMarks(
        {name: value for name, value in marks.labels.items() if name not in _OF_GROUP}, marks.annotations
    )


def with_identity(pod: Object, marks: PodMarks) -> Object:
    """Return the pod with these labels and annotations; the same object if nothing differs."""
    if edited_of(pod, marks) is None:
        return pod
    labels = {**labels_of(pod), **marks.labels}
    annotations = {
        name: value
        for name, value in {**annotations_of(pod), **marks.annotations}.items()
        if value is not None
    }
    return {**pod, "metadata": {**pod["metadata"], "labels": labels, "annotations": annotations}}


def edited_of(pod: Object, marks: PodMarks) -> Edited | None:
    """Return the edits of a pod's labels and annotations; None if there are none."""
    labels, annotations = labels_of(pod), annotations_of(pod)
    label_repairs = {name: value for name, value in marks.labels.items() if labels.get(name) != value}
    annotation_repairs = {
        name: value for name, value in marks.annotations.items() if annotations.get(name) != value
    }
    if not label_repairs and not annotation_repairs:
        return None
    return Edited(pod, PodMarks(label_repairs, annotation_repairs))


def edits_of(pods: Iterable[tuple[Object, PodMarks]]) -> tuple[Edited, ...]:
    """Return the edits of all pods that are not terminating."""
    found = (edited_of(pod, marks) for pod, marks in pods if not is_terminating(pod))
    return tuple(each for each in found if each is not None)


def _selected(workers: Object) -> Mapping[str, str]:
    """Return the labels by which a StatefulSet selects its pods. The store keeps the selector only if the
    labels of the StatefulSet itself do not match it.
    """
    chosen = (workers["spec"].get("selector") or {}).get("matchLabels")
    return chosen if is_mapping(chosen) else labels_of(workers)


# --- Identity of a pod of a set: its group, its worker index, its leader and its address.


def is_leader(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod has worker index 0, which the leader of a group has."""
    return labels_of(pod).get(WORKER_INDEX_LABEL) == "0"


def must_return_to(pod: Mapping[str, Any]) -> str:
    """Return the only node that a pod without a node may run on; empty for any other pod. The pod webhook
    restricts the pod to this node by a term of its affinity.
    """
    node = "" if node_of(pod) else annotations_of(pod).get(RETURNS_TO_ANNOTATION, "")
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    return node if node and with_required_node(affinity, node) == affinity else ""


def group_size_of(pod: Mapping[str, Any]) -> int | None:
    """Return the size of the pod's group from its annotation; None if missing or not a plain number."""
    return whole_number(annotations_of(pod).get(SIZE_ANNOTATION))


def leader_name(set_name: str, group_index: int | str) -> str:
    """Return the name of a group's leader pod, which its worker StatefulSet and its own Service share."""
    return f"{set_name}-{group_index}"


def group_key(namespace: str, leader: str) -> str:
    """Return the key of a group, unique in the cluster: 40 hex digits, SHA-1 of `<namespace>/<leader>`.
    leader: name of the leader pod; for a Hash group, random characters.
    """
    text = f"{namespace}/{leader}".encode(errors="surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def is_hash_key(value: object) -> TypeGuard[str]:
    """Return whether the value is the key of a Hash group, which also is the value of its index label."""
    return isinstance(value, str) and _HASH_KEY.fullmatch(value) is not None


def hash_host_name(set_name: str, key: str) -> str:
    """Return the host name of the leader of a Hash group; its worker StatefulSet has the same name."""
    return leader_name(set_name, key[:_DIGITS_IN_HOST_NAME])


def leader_address(leader: str, subdomain: str, namespace: str) -> str:
    """Return the host name under which every pod of a group finds its leader (LWS_LEADER_ADDRESS)."""
    return f"{leader}.{subdomain}.{namespace}"


def own_workers(leader: Object, workers: Object | None) -> Object | None:
    """Return the group's worker StatefulSet if exactly this leader controls it, else None."""
    return workers if workers is not None and is_controlled_by(workers, uid_of(leader)) else None


def notes_parallel(leader: Object, workers: Object | None) -> bool:
    """Return whether an annotation of the group records podTerminationPolicy Parallel. The record is needed
    once the set is deleted. It is on the worker StatefulSet, or with upstream on the leader.
    """
    notes = (annotations_of(obj).get(POD_TERMINATION_POLICY_ANNOTATION) for obj in (workers or {}, leader))
    return next(filter(None, notes), "") == PodTerminationPolicy.PARALLEL


def is_marked_hash(pod: Mapping[str, Any]) -> bool:
    """Return whether an annotation marks the pod as part of a Hash group. For stored leaders,
    `is_of_hash_group` gives a reliable answer.
    """
    return annotations_of(pod).get(GROUP_IDENTITY_ANNOTATION) == GroupIdentity.HASH


def is_worker_of(pod: Mapping[str, Any], workers: str, size: int) -> bool:
    """Return whether a pod has a name of the workers of this StatefulSet in a group of this size."""
    name = pod["metadata"]["name"]
    index = parent_and_ordinal(name)[1]
    return 0 < index < size and bool(name == f"{workers}-{index}")


def is_of_hash_group(leader: Mapping[str, Any]) -> bool:
    """Return whether the leader is a pod of a ReplicaSet (groupIdentity Hash), which no edit changes."""
    owner = controller_of(leader)
    return owner is not None and owner.get("kind") == "ReplicaSet"


def group_name(leader: Mapping[str, Any]) -> str:
    """Return the name of the worker StatefulSet and of the Service of a group. This is the name of an Ordinal
    leader, or the host name of a Hash leader.
    """
    name: str = leader["metadata"]["name"]
    return str((leader.get("spec") or {}).get("hostname") or name) if is_of_hash_group(leader) else name


MOST_GROUP_NUMBER = 0xFFFFFFFF
"""The largest `group_number`."""


def group_number(leader: Mapping[str, Any]) -> int:
    """Return a number that no other group of the set has, from facts that cannot be edited. This is the index
    of an Ordinal group, or the first 8 hexadecimal digits of the key of a Hash group.
    """
    if not is_of_hash_group(leader):
        return index_by_name(leader)
    digits = _HOST_SUFFIX.search(group_name(leader))
    return int(digits[1], 16) if digits is not None else int(group_key("", uid_of(leader))[:8], 16)


def group_id(leader: Mapping[str, Any]) -> str:
    """Return the name of the group in messages: the index of an Ordinal group, the key of a Hash group."""
    return (
        labels_of(leader).get(GROUP_INDEX_LABEL, "")
        if is_of_hash_group(leader)
        else str(index_by_name(leader))
    )


def index_by_name(pod: Mapping[str, Any]) -> int:
    """Return the ordinal in the name of a StatefulSet's pod; -1 if the name has none. The ordinal is the
    group index of a leader, or the worker index of a worker.
    """
    return parent_and_ordinal(pod["metadata"]["name"])[1]
