"""What did others edit on the objects of a group, and how is it put back?

In: edits of pods; the worker StatefulSet or another object of the group as stored, and as it would be made.
Out: parts of the plan; none of them takes a pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lws.actions import Merge, Object, Plan, Reference
from lws.group.labels import Edited
from lws.kube.metadata import missing_labels
from lws.leaderworkerset.revisions.keys import key_of_template
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, GROUP_KEY_LABEL, NAME_LABEL, REVISION_LABEL

_IDENTITY = (NAME_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL)


def put_back(edited: Iterable[Edited]) -> Plan:
    """An edit of labels or annotations changes nothing of what runs: it costs a write, never a pod."""
    return Plan(sequences=tuple((_restoring(each),) for each in edited))


def _restoring(edited: Edited) -> Merge:
    marks = {"labels": edited.marks.labels, "annotations": edited.marks.annotations}
    names = sorted(name.rpartition("/")[2] for part in marks.values() for name in part)
    patch = {"metadata": {field: dict(part) for field, part in marks.items() if part}}
    return Merge(
        Reference.to(edited.pod), patch, why=f"what tells who the pod is was edited: {', '.join(names)}"
    )


def plan_existing_workers(existing: Object, intent: Object) -> Plan:
    """Number and labels of workers are put back; a new template would roll pods.

    Workers that came from a former leader may be of another revision: that one says how many they are.
    """
    patch: dict[str, Any] = {}
    reasons = []
    wanted_labels = intent["spec"]["template"]["metadata"]["labels"]
    key = key_of_template(existing) or wanted_labels[REVISION_LABEL]
    found, wanted = existing["spec"].get("replicas", 1), intent["spec"]["replicas"]
    if found != wanted and key == wanted_labels[REVISION_LABEL]:
        patch["spec"] = {"replicas": wanted}
        reasons.append(f"workers were scaled to {found} by hand, the group has {wanted}")
    labels = missing_labels(existing, {**wanted_labels, REVISION_LABEL: key}, _IDENTITY)
    if labels:
        patch["metadata"] = {"labels": labels}
        reasons.append("labels that tell whose workers they are were edited")
    if not patch:
        return Plan()
    return Plan(sequences=((Merge(Reference.to(existing), patch, why="; ".join(reasons)),),))


def relabelled(existing: Object, intent: Object) -> Plan:
    """Without its name label an object of ours would drop out of every stream."""
    labels = missing_labels(existing, intent["metadata"]["labels"], (NAME_LABEL,))
    if not labels:
        return Plan()
    patch = {"metadata": {"labels": labels}}
    return Plan(sequences=((Merge(Reference.to(existing), patch, why="its name label was edited"),),))
