"""Compute the labels and annotations that identify the pods of a group, and find edits of them.

In: pods as stored, and what cannot be edited: names, owners, the selector of the worker StatefulSet, the
revision. Out: the pods with what they should carry, and the edits to revert.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lws.kube.metadata import annotations_of, is_mapping, is_terminating, labels_of
from lws.kube.names import parent_and_ordinal
from lws.kube.quantities import whole_number
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
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
    """Labels and annotations that a pod should carry; None for one that it should not."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edited:
    """A pod as stored, and the labels and annotations to restore, with their values."""

    pod: Object
    marks: PodMarks


def marks_of_leader(
    leader: Object, key: str | None, size: int | None, template: Object, workers: Object | None
) -> PodMarks:
    """The labels and annotations that the leader pod of a group should have.

    key, size: of its revision; None where that is not known. template: of the leader StatefulSet; what it
    says itself is no edit. workers: the StatefulSet that this very pod controls: its pods are chosen by these
    labels, and that never changes.
    """
    metadata = leader["metadata"]
    name, ordinal = parent_and_ordinal(metadata["name"])
    selected = _selected(workers) if workers is not None else {}
    of_group = {
        GROUP_INDEX_LABEL: selected.get(GROUP_INDEX_LABEL) or str(ordinal),
        GROUP_KEY_LABEL: selected.get(GROUP_KEY_LABEL) or group_key(metadata["namespace"], metadata["name"]),
    }
    is_of_template = LEADER_NAME_ANNOTATION in annotations_of(template)
    return PodMarks(
        labels={
            NAME_LABEL: name,
            WORKER_INDEX_LABEL: "0",
            **{label: value for label, value in of_group.items() if label not in labels_of(template)},
            **({REVISION_LABEL: key} if key else {}),
        },
        annotations={
            **({SIZE_ANNOTATION: str(size)} if size is not None else {}),
            **({} if is_of_template else {LEADER_NAME_ANNOTATION: None}),
        },
    )


def marks_of_worker(worker: Object, leader: Object, workers: Object, size: int | None) -> PodMarks:
    """What a worker pod should carry. workers: the StatefulSet that controls it. size: of its group, None
    where the workers are of another revision than the leader.
    """
    selected, key = _selected(workers), key_of_template(workers)
    named = {NAME_LABEL: selected.get(NAME_LABEL)} | {name: selected.get(name) for name in _OF_GROUP}
    known = {**named, REVISION_LABEL: key, WORKER_INDEX_LABEL: str(index_by_name(worker))}
    return PodMarks(
        labels={name: value for name, value in known.items() if value},
        annotations={
            LEADER_NAME_ANNOTATION: leader["metadata"]["name"],
            **({SIZE_ANNOTATION: str(size)} if size is not None else {}),
        },
    )


def lacks_group(leader: Object) -> bool:
    """The labels are missing that the pod webhook gives a leader."""
    return not set(_OF_GROUP) <= labels_of(leader).keys()


def was_admitted(pod: Object) -> bool:
    """The pod, whole, has the environment that the pod webhook gives its containers."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    return any(each.get("name") == LEADER_ADDRESS_ENV for one in containers for each in one.get("env") or ())


def without_group(marks: PodMarks) -> PodMarks:
    """The same for a pod that the webhook has never seen: with the labels it would look complete."""
    return PodMarks(
        {name: value for name, value in marks.labels.items() if name not in _OF_GROUP}, marks.annotations
    )


def put_right(pod: Object, marks: PodMarks) -> Object:
    """The pod as it should be; the very same where it is."""
    if edited_of(pod, marks) is None:
        return pod
    kept = {
        name: value
        for name, value in annotations_of(pod).items()
        if marks.annotations.get(name, "") is not None
    }
    wanted = {name: value for name, value in marks.annotations.items() if value is not None}
    labels, annotations = {**labels_of(pod), **marks.labels}, {**kept, **wanted}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels, "annotations": annotations}}


def edited_of(pod: Object, marks: PodMarks) -> Edited | None:
    """The edits of a pod's labels and annotations; None if there are none."""
    labels, annotations = labels_of(pod), annotations_of(pod)
    one = {name: value for name, value in marks.labels.items() if labels.get(name) != value}
    two = {name: value for name, value in marks.annotations.items() if annotations.get(name) != value}
    return Edited(pod, PodMarks(one, two)) if one or two else None


def edits_of(pods: Iterable[tuple[Object, PodMarks]]) -> tuple[Edited, ...]:
    """The edits of pods that are not terminating."""
    found = (edited_of(pod, marks) for pod, marks in pods if not is_terminating(pod))
    return tuple(each for each in found if each is not None)


def _selected(workers: Object) -> Mapping[str, str]:
    """By which labels a StatefulSet chooses its pods. The store keeps its selector only where the labels of
    the StatefulSet itself do not say the same.
    """
    chosen = (workers["spec"].get("selector") or {}).get("matchLabels")
    return chosen if is_mapping(chosen) else labels_of(workers)


# --- Who a pod of a set is: which group, which worker, whose leader, at what address.


def is_leader(pod: Mapping[str, Any]) -> bool:
    """True for the pod with worker index 0, the leader of its group."""
    return labels_of(pod).get(WORKER_INDEX_LABEL) == "0"


def group_index_of(pod: Mapping[str, Any]) -> int | None:
    """0-based index of the pod's group, from its label; None where that is missing or no plain number."""
    return whole_number(labels_of(pod).get(GROUP_INDEX_LABEL))


def group_size_of(pod: Mapping[str, Any]) -> int | None:
    """Pods of the pod's group, its leader included, from its annotation; None where that is missing or no
    plain number.
    """
    return whole_number(annotations_of(pod).get(SIZE_ANNOTATION))


def leader_name(set_name: str, group_index: int | str) -> str:
    """Name of the leader pod of a group; its worker StatefulSet and its own Service have the same."""
    return f"{set_name}-{group_index}"


def group_key(namespace: str, leader: str) -> str:
    """Key that no other group of the cluster has: 40 hex digits, SHA-1 of `<namespace>/<leader pod>`."""
    text = f"{namespace}/{leader}".encode(errors="surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def leader_address(leader: str, subdomain: str, namespace: str) -> str:
    """Host name under which every pod of a group finds its leader (LWS_LEADER_ADDRESS)."""
    return f"{leader}.{subdomain}.{namespace}"


def is_worker_of(pod: Mapping[str, Any], leader: str, size: int) -> bool:
    """Whether the pod has one of the names that the workers of a group of this size have."""
    name = pod["metadata"]["name"]
    index = parent_and_ordinal(name)[1]
    return 0 < index < size and bool(name == f"{leader}-{index}")


def index_by_name(pod: Mapping[str, Any]) -> int:
    """The ordinal that a StatefulSet gave the pod: of a leader its group, of a worker its place in the group;
    -1 for a pod of nobody.
    """
    return parent_and_ordinal(pod["metadata"]["name"])[1]
