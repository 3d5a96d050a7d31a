"""Find the revision that an object was created from; its label may have been edited.

In: leader pods, StatefulSets and the ControllerRevisions that StatefulSets keep, whole or trimmed. Out:
revision keys; None if nothing shows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lws.kube.metadata import is_mapping, labels_of
from lws.kube.statefulsets import current_revision_of, has_seen_template, update_revision_of
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REVISION_LABEL

STATEFULSET_REVISION_LABEL = "controller-revision-hash"
"""The StatefulSet controller notes here which of its own ControllerRevisions a pod was made from."""


def template_labels(holder: Object) -> Mapping[str, str] | None:
    """Labels of the pod template that a StatefulSet or one of its own ControllerRevisions holds; None where
    the store has trimmed it away, because the labels of the object say the same.
    """
    data = holder.get("data")
    spec = (data if is_mapping(data) else holder).get("spec")
    template = spec.get("template") if is_mapping(spec) else None
    if not is_mapping(template):
        return None
    # Nobody checks the data of a ControllerRevision.
    return {key: value for key, value in labels_of(template).items() if isinstance(value, str)}


def key_of_template(holder: Object) -> str | None:
    """Key of the pods that a StatefulSet, or one of its own ControllerRevisions, makes: by the template. It
    has the label of the object in its place only where there is none in the template.
    """
    inside = template_labels(holder)
    return (inside or {}).get(REVISION_LABEL) or labels_of(holder).get(REVISION_LABEL)


def made_from(named: str, leaders: Object, revision: Object | None) -> str | None:
    """The key that the template had from which the StatefulSet controller made a leader pod.

    named: the revision that the controller noted on the pod. leaders: the StatefulSet of the leader.
    revision: that revision itself, if it is known and the StatefulSet's own.
    """
    if revision is not None:
        return key_of_template(revision)
    # Its stream may be behind; then the StatefulSet knows its own template.
    is_newest = bool(named) and named == update_revision_of(leaders) and has_seen_template(leaders)
    return key_of_template(leaders) if is_newest else None


def key_of_leader(leader: Object, workers: Object | None, made: str | None) -> str | None:
    """The key of a leader pod: what two of three agree on, its label, its StatefulSet and its workers'.

    workers: the StatefulSet that this very pod controls. made: see `made_from`. Workers adopted from a former
    leader may be of another revision, and the note of the StatefulSet controller is a label too.
    """
    carried = labels_of(leader).get(REVISION_LABEL)
    of_workers = key_of_template(workers) if workers is not None else None
    if carried and carried in (made, of_workers):
        return carried
    return made or of_workers or carried


@dataclass(frozen=True, slots=True)
class Origin:
    """From which revision a leader pod was made.

    key: None where nothing shows it. made: see `made_from`. is_shown: something besides the label of the pod
    shows that its own StatefulSet or its workers know of it.
    """

    key: str | None
    made: str | None
    is_shown: bool


def origin_of(leader: Object, leaders: Object, workers: Object | None, made: str | None) -> Origin:
    """leaders: the StatefulSet of the leader; the rest: see `key_of_leader`."""
    named = labels_of(leader).get(STATEFULSET_REVISION_LABEL)
    is_held = bool(named) and named in (current_revision_of(leaders), update_revision_of(leaders))
    is_shown = made is not None or workers is not None or is_held
    return Origin(key_of_leader(leader, workers, made), made, is_shown)


def with_key(leader: Object, key: str | None) -> Object:
    """The leader pod with the label of this key; the very same pod where it has that."""
    if not key or labels_of(leader).get(REVISION_LABEL) == key:
        return leader
    metadata = leader["metadata"]
    return {**leader, "metadata": {**metadata, "labels": {**labels_of(leader), REVISION_LABEL: key}}}


def as_made(leader: Object, key: str | None, made: str | None) -> Object:
    """The leader pod with the label of its key, and without the note of the StatefulSet controller where that
    is of another key: it was edited, and must not make an old leader pass for an updated one.

    made: see `made_from`.
    """
    right = with_key(leader, key)
    if made is None or made == key:
        return right
    labels = {name: value for name, value in labels_of(right).items() if name != STATEFULSET_REVISION_LABEL}
    return {**right, "metadata": {**right["metadata"], "labels": labels}}
