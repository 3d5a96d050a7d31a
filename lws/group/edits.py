"""What did others edit on the objects of a group, and how is it put back?

In: edits of pods; the worker StatefulSet as stored, and as it would be made.
Out: parts of the plan; none of them takes a pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from lws.actions import Merge, Object, Plan, Reference
from lws.children import repair
from lws.group.labels import Edited
from lws.kube.metadata import missing_labels, without_tools_own
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
    """Number, first index and labels of workers are put back; a new template would roll pods.

    Workers that came from a former leader may be of another revision: that one says how many they are.
    A first index that is not there was dropped by the API server: writing it would not bring it.
    """
    wanted_labels = intent["spec"]["template"]["metadata"]["labels"]
    key = key_of_template(existing) or wanted_labels[REVISION_LABEL]
    found, wanted = existing["spec"].get("replicas", 1), intent["spec"]["replicas"]
    is_scaled = found != wanted and key == wanted_labels[REVISION_LABEL]
    ordinals = intent["spec"]["ordinals"]
    start = (existing["spec"].get("ordinals") or ordinals).get("start")
    is_moved = start != ordinals["start"]
    numbers = {"replicas": wanted} if is_scaled else {}
    numbers |= {"ordinals": ordinals} if is_moved else {}
    labels = missing_labels(existing, {**wanted_labels, REVISION_LABEL: key}, _IDENTITY)
    why_scaled = f"workers were scaled to {found} by hand, the group has {wanted}"
    why_moved = f"the first worker was made that of index {start} by hand"
    why_numbered = "; ".join(why for why, is_so in ((why_scaled, is_scaled), (why_moved, is_moved)) if is_so)
    why_labelled = "labels that tell whose workers they are were edited"
    patches = {
        why_numbered: {"spec": numbers} if numbers else {},
        why_labelled: {"metadata": {"labels": labels}} if labels else {},
    }
    due = {why: without_tools_own(existing, patch) for why, patch in patches.items() if patch}
    return repair(existing, due)
