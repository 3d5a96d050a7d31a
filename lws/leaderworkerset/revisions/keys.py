"""Find the revision key that an object was created from, even if its label was edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lws.kube.metadata import is_mapping, labels_of
from lws.kube.statefulsets import current_revision_of, has_seen_template, update_revision_of
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REVISION_LABEL

STATEFULSET_REVISION_LABEL = "controller-revision-hash"
"""Label in which the StatefulSet controller records the ControllerRevision that a pod was created from."""


def template_labels(holder: Object) -> Mapping[str, str] | None:
    """Return the labels of the pod template in a workload, or in one of its own ControllerRevisions. None if
    the store has trimmed the template, which it does if the object has the same labels. holder: a
    StatefulSet, Deployment, ReplicaSet or ControllerRevision.
    """
    data = holder.get("data")
    spec = (data if is_mapping(data) else holder).get("spec")
    template = spec.get("template") if is_mapping(spec) else None
    if not is_mapping(template):
        return None
    # The API server does not validate the data of a ControllerRevision.
    return {key: value for key, value in labels_of(template).items() if isinstance(value, str)}


def key_of_template(holder: Object) -> str | None:
    """Return the key of the pods that a workload, or one of its own ControllerRevisions, creates. The key is
    a label of the template, or of the object if the template has none. holder: as in `template_labels`.
    """
    labels = template_labels(holder) or {}
    return labels.get(REVISION_LABEL) or labels_of(holder).get(REVISION_LABEL)


def made_from(named: str, leaders: Object, revision: Object | None) -> str | None:
    """Return the key of the template that the StatefulSet controller created a leader pod from. named: the
    name of the revision that the controller recorded on the pod. leaders: the StatefulSet of the leader.
    revision: the ControllerRevision with that name, if it is in the store and the StatefulSet's.
    """
    if revision is not None:
        return key_of_template(revision)
    # If the watch of revisions lags, the StatefulSet still has its newest template.
    is_newest = bool(named) and named == update_revision_of(leaders) and has_seen_template(leaders)
    return key_of_template(leaders) if is_newest else None


def key_of_leader(leader: Object, workers: Object | None, made: str | None) -> str | None:
    """Return the key of a leader pod, on which two of its label, its StatefulSet and its workers agree.

    No source is reliable alone. The label may have been edited, and so may the record of the StatefulSet
    controller, which is a label too. Workers that were adopted from a previous leader may have another
    revision. workers: the StatefulSet that this pod controls. made: the key from `made_from`, or of the
    ReplicaSet of a Hash leader.
    """
    label = labels_of(leader).get(REVISION_LABEL)
    of_workers = key_of_template(workers) if workers is not None else None
    if label and label in (made, of_workers):
        return label
    return made or of_workers or label


@dataclass(frozen=True, slots=True)
class Origin:
    """The revision that a leader pod was created from. key: None if nothing shows it. made: as in
    `key_of_leader`. is_shown: whether its StatefulSet, its ReplicaSet or its workers show the revision.
    """

    key: str | None
    made: str | None
    is_shown: bool


def origin_of(leader: Object, leaders: Object, workers: Object | None, made: str | None) -> Origin:
    """Determine the revision that a leader pod was created from.
    leaders: the StatefulSet or Deployment of the leader. workers, made: as in `key_of_leader`.
    """
    named = labels_of(leader).get(STATEFULSET_REVISION_LABEL)
    is_reported = bool(named) and named in (current_revision_of(leaders), update_revision_of(leaders))
    is_shown = made is not None or workers is not None or is_reported
    return Origin(key_of_leader(leader, workers, made), made, is_shown)


def with_key(leader: Object, key: str | None) -> Object:
    """Return the leader pod with this key as its label; the same object if it has that label already."""
    if not key or labels_of(leader).get(REVISION_LABEL) == key:
        return leader
    metadata = leader["metadata"]
    return {**leader, "metadata": {**metadata, "labels": {**labels_of(leader), REVISION_LABEL: key}}}


def as_made(leader: Object, key: str | None, made: str | None) -> Object:
    """Return the leader pod with its key as its label, without a StatefulSet controller's label for another
    key: that was edited, and must not make an outdated leader look updated. made: as in `key_of_leader`.
    """
    pod = with_key(leader, key)
    if made is None or made == key:
        return pod
    labels = {name: value for name, value in labels_of(pod).items() if name != STATEFULSET_REVISION_LABEL}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}
