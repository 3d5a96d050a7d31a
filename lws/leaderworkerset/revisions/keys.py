"""Find the revision key of a template, even if the labels of its object were edited."""

from __future__ import annotations

from collections.abc import Mapping

from lws.kube.metadata import is_mapping, labels_of
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
