"""Which passes over sets and groups does a change concern?

In: one object before and after a change. Out: keys, of a set by its name, of a group by that of its leader
pod. Ownership decides, by controller reference; labels only say whom an orphan could concern. A key too many
costs a pass that writes nothing, a key too few costs correctness.
"""

from __future__ import annotations

from collections.abc import Iterator

from lws.actions import Object
from lws.cluster.cache.fields import Wakes
from lws.cluster.cache.tables import wakes
from lws.controller.triggers.keys import Key
from lws.kube.metadata import controller_of, labels_of
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import waits_for_kubelet
from lws_api.leaderworkerset.v1 import NAME_LABEL


def keys_of(before: Object | None, after: Object | None) -> set[Key]:
    """Sets and groups that a change may concern."""
    woken = wakes(before, after) if before is not None and after is not None else Wakes.ALL
    if woken is Wakes.NOBODY:
        return set()
    # A change of what routes read wakes all: after any other they lead where they led before.
    objects = (before, after) if woken is Wakes.ALL else (after,)
    keys = {key for obj in objects if obj is not None for key in _ROUTES[obj["kind"]](obj)}
    return {key for key in keys if key.kind == "set"} if woken is Wakes.SET else keys


def _of_set(lws: Object) -> Iterator[Key]:
    yield Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"])


def _of_pod(pod: Object) -> Iterator[Key]:
    owner = controller_of(pod)
    if owner is None or owner["kind"] != "StatefulSet":
        return
    namespace = pod["metadata"]["namespace"]
    set_name = labels_of(pod).get(NAME_LABEL, "")
    if owner["name"] == set_name:
        yield Key("group", namespace, pod["metadata"]["name"])
        yield Key("set", namespace, set_name)
    else:
        # The StatefulSet of workers has the name of their leader.
        yield Key("group", namespace, owner["name"])
        if set_name and parent_and_ordinal(owner["name"])[0] != set_name:
            # Its name label was edited: it may be a leader.
            yield Key("group", namespace, pod["metadata"]["name"])
            yield Key("set", namespace, owner["name"])
        elif set_name and waits_for_kubelet(pod):
            # A lost node may hold it, which the set tells.
            yield Key("set", namespace, set_name)


def _of_child(obj: Object) -> Iterator[Key]:
    """StatefulSets, Services, ControllerRevisions and PodDisruptionBudgets."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    set_name = labels_of(obj).get(NAME_LABEL)
    owner = controller_of(obj)
    if owner is None and set_name:
        yield Key("set", namespace, set_name)
    if owner is None or owner["kind"] not in ("LeaderWorkerSet", "Pod", "StatefulSet"):
        # An orphan, or a stranger that may be in the way of somebody who needs its name.
        yield Key("set", namespace, name)
        yield Key("group", namespace, name)
        # What is in the way of a group is told by its set.
        parent, ordinal = parent_and_ordinal(name)
        if ordinal >= 0 and obj["kind"] != "ControllerRevision":
            yield Key("set", namespace, parent)
    elif owner["kind"] == "LeaderWorkerSet":
        yield Key("set", namespace, owner["name"])
    elif owner["kind"] == "Pod":
        yield Key("group", namespace, owner["name"])
        if set_name and obj["kind"] == "StatefulSet":
            yield Key("set", namespace, set_name)


def _of_claim(claim: Object) -> Iterator[Key]:
    if set_name := labels_of(claim).get(NAME_LABEL):
        yield Key("set", claim["metadata"]["namespace"], set_name)


def _of_pod_group(pod_group: Object) -> Iterator[Key]:
    owner = controller_of(pod_group)
    if owner is not None and owner["kind"] == "Pod":
        yield Key("group", pod_group["metadata"]["namespace"], owner["name"])


_ROUTES = {
    "LeaderWorkerSet": _of_set,
    "Pod": _of_pod,
    "StatefulSet": _of_child,
    "Service": _of_child,
    "PodDisruptionBudget": _of_child,
    "ControllerRevision": _of_child,
    "PersistentVolumeClaim": _of_claim,
    "PodGroup": _of_pod_group,
}

ROUTED = frozenset(_ROUTES)
"""The kinds of objects whose changes may concern a set or a group."""
