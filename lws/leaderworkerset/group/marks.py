"""Compute the labels and annotations that identify the pods of a group, and find edits of them.

They are computed from what cannot be edited: names, owners, the selector of the worker StatefulSet, and the
revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lws.kube.metadata import annotations_of, is_mapping, is_terminating, labels_of, missing_labels, without
from lws.kube.names import parent_and_ordinal
from lws.leaderworkerset.pod_identity import (
    group_key,
    group_number,
    index_by_name,
    is_hash_key,
    is_of_hash_group,
)
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.runtime.actions import Object
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ENV,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)

_OF_GROUP = (GROUP_INDEX_LABEL, GROUP_KEY_LABEL)


@dataclass(frozen=True, slots=True)
class PodMarks:
    """Labels and annotations that a pod should have; None for an annotation that it should not have."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EditedPod:
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
        key = next(
            (value for value in carried if is_hash_key(value) and value.startswith(f"{number:08x}")), None
        )
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
    labels = {**named, REVISION_LABEL: key, WORKER_INDEX_LABEL: str(index_by_name(worker))}
    return PodMarks(
        labels={name: value for name, value in labels.items() if value},
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
    return any(
        variable.get("name") == LEADER_ADDRESS_ENV
        for container in containers
        for variable in container.get("env") or ()
    )


def without_group(marks: PodMarks) -> PodMarks:
    """Leave out the group labels of a pod that the webhook has never seen: it would look complete."""
    return PodMarks(without(marks.labels, _OF_GROUP), marks.annotations)


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


def edited_of(pod: Object, marks: PodMarks) -> EditedPod | None:
    """Return the edits of a pod's labels and annotations; None if there are none."""
    label_repairs, annotations = missing_labels(pod, marks.labels), annotations_of(pod)
    annotation_repairs = {
        name: value for name, value in marks.annotations.items() if annotations.get(name) != value
    }
    if not label_repairs and not annotation_repairs:
        return None
    return EditedPod(pod, PodMarks(label_repairs, annotation_repairs))


def edits_of(pods: Iterable[tuple[Object, PodMarks]]) -> tuple[EditedPod, ...]:
    """Return the edits of all pods that are not terminating."""
    edits = (edited_of(pod, marks) for pod, marks in pods if not is_terminating(pod))
    return tuple(edit for edit in edits if edit is not None)


def _selected(workers: Object) -> Mapping[str, str]:
    """Return the labels by which a StatefulSet selects its pods. The store keeps the selector only if the
    labels of the StatefulSet itself do not match it.
    """
    chosen = (workers["spec"].get("selector") or {}).get("matchLabels")
    return chosen if is_mapping(chosen) else labels_of(workers)
