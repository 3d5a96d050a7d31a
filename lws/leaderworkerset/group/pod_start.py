"""Classify changes of a pod that are steps of its start, and the passes they wake.

Half of all changes while a set is created are of this kind, and a pass over the group would find nothing to
do. Too few passes cost correctness, too many only time.
"""

from __future__ import annotations

from lws.kube.metadata import annotations_of, controller_of, labels_of
from lws.kube.nodes import node_of
from lws.kube.pods import is_ready, wait_for_node
from lws.leaderworkerset.spec import group_topology
from lws.runtime.actions import Object
from lws.runtime.fields import ALL, LATER, SET, Wakes
from lws_api.leaderworkerset.v1 import NAME_LABEL, WORKER_INDEX_LABEL


def is_undisturbed(pod: Object) -> bool:
    """It has not ended, and nothing has happened to a container. A restart that was ignored while the pod was
    Pending may count once it runs.
    """
    status = pod.get("status") or {}
    if status.get("reason") or status.get("phase", "Pending") not in ("Pending", "Running"):
        return False
    for field in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(field) or ():
            if (
                entry.get("restartCount")
                or entry.get("lastState")
                or "terminated" in (entry.get("state") or ())
            ):
                return False
    return True


def on_node(before: Object, after: Object) -> Wakes:
    """It got its node. Workers may wait for that of their leader."""
    return ALL if node_of(before) else _step(after)


def on_phase(before: Object, after: Object) -> Wakes:
    """It runs."""
    return ALL if (_phase(before), _phase(after)) == ("Running", "Pending") else SET


def on_conditions(before: Object, after: Object) -> Wakes:
    """It is ready. Workers may wait for their leader to be. A leader that its former group kept from a node
    may show it after these pods are gone.
    """
    was, now = is_ready(before), is_ready(after)
    if was == now:
        is_turned_away = wait_for_node(before) is None and wait_for_node(after) is not None
        return _step(after) if is_turned_away and group_topology(annotations_of(after)) else SET
    return ALL if was else _step(after)


def _step(pod: Object) -> Wakes:
    return LATER if _is_leader(pod) else SET


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _is_leader(pod: Object) -> bool:
    """By either of the two labels that say it: one of them may be edited."""
    labels, owner = labels_of(pod), controller_of(pod)
    return labels.get(WORKER_INDEX_LABEL) == "0" or (
        owner is not None and owner["name"] == labels.get(NAME_LABEL)
    )
