"""Which changes are no news: the pods of a group come up, its StatefulSet counts them.

In: one object before and after a change, trimmed. Out: yes or no. Half of all changes while a set is created
are of this kind, and a pass over the group would find nothing to do. A yes too many costs correctness, a no
too many a pass.
"""

from __future__ import annotations

from lws.actions import Object
from lws.kube.metadata import controller_of, labels_of
from lws.kube.nodes import node_of
from lws.kube.pods import is_ready
from lws.kube.statefulsets import is_settled, is_short
from lws_api.leaderworkerset.v1 import NAME_LABEL, WORKER_INDEX_LABEL

_VERSION = frozenset({"resourceVersion", "managedFields"})
_CONTAINERS = ("initContainerStatuses", "containerStatuses")
_COMING_UP = frozenset({"Pending", "Running"})


def is_routine(before: Object, after: Object) -> bool:
    """True where no decision about a group could come out differently.

    A pod that comes up; of leaders place and readiness count, because workers may wait for them. A
    StatefulSet of which only the status changed: groups are judged by their pods.
    """
    if after["kind"] == "StatefulSet":
        return _is_same_but_for(before, after, "status")
    return comes_up(before, after) and not (
        _is_leader(after) and (node_of(before) != node_of(after) or is_ready(before) != is_ready(after))
    )


def _is_leader(pod: Object) -> bool:
    """By either of the two labels that say it: one of them may be edited."""
    labels, owner = labels_of(pod), controller_of(pod)
    return labels.get(WORKER_INDEX_LABEL) == "0" or (
        owner is not None and owner["name"] == labels.get(NAME_LABEL)
    )


def is_counting(before: Object, after: Object) -> bool:
    """True where a routine change is none of the set's business either: the StatefulSet of workers counts on,
    and what the set knows it by stays, whether all pods are made, and whether all is settled.
    """
    owner = controller_of(after)
    if after["kind"] != "StatefulSet" or owner is None or owner["kind"] != "Pod":
        return False
    return is_settled(before) == is_settled(after) and is_short(before) == is_short(after)


def comes_up(before: Object, after: Object) -> bool:
    """A pod is placed, starts running or becomes ready, and nothing else."""
    if after["kind"] != "Pod":
        return False
    was, now = before.get("status") or {}, after.get("status") or {}
    if not {was.get("phase", "Pending"), now.get("phase", "Pending")} <= _COMING_UP:
        return False
    if (was.get("phase"), now.get("phase")) == ("Running", "Pending"):
        return False
    if is_ready(before) and not is_ready(after):
        return False
    if not (is_calm(was) and is_calm(now) and node_of(before) in ("", node_of(after))):
        return False
    return _is_same_but_for(before, after, "spec", "status")


def is_calm(status: Object) -> bool:
    """Nothing has happened to a container. A restart that was ignored while the pod was Pending may count
    once it runs.
    """
    if status.keys() - {"phase", "conditions", *_CONTAINERS}:
        return False
    entries = (entry for field in _CONTAINERS for entry in status.get(field) or ())
    return not any(
        entry.get("restartCount") or entry.get("lastState") or "terminated" in (entry.get("state") or {})
        for entry in entries
    )


def _is_same_but_for(before: Object, after: Object, *parts: str) -> bool:
    if any(before.get(part) != after.get(part) for part in _others(before, after, {"metadata", *parts})):
        return False
    one, two = before["metadata"], after["metadata"]
    return all(one.get(field) == two.get(field) for field in _others(one, two, _VERSION))


def _others(one: Object, two: Object, but: frozenset[str] | set[str]) -> set[str]:
    return set(one.keys() | two.keys()) - but
