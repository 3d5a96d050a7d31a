"""Route changes to passes over sets and groups, and decide how long each pass may be delayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lws import timing
from lws.kube.metadata import annotations_of, controller_of, is_controlled_by, is_terminating, labels_of
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import waits_for_kubelet
from lws.kube.pods import is_ready, wait_for_node
from lws.kube.quantities import whole_number
from lws.kube.statefulsets import (
    current_revision_of,
    desired_replicas,
    existing_replicas,
    has_seen_template,
    is_settled,
    is_short,
    observed_generation_of,
    update_revision_of,
)
from lws.leaderworkerset.labels import group_name, is_leader, is_marked_hash, notes_parallel
from lws.leaderworkerset.observe.membership import workers_of
from lws.leaderworkerset.restart_counts import is_kept
from lws.leaderworkerset.tables import LEADER_WORKER_SET, is_undisturbed, wakes
from lws.runtime.actions import Key, Object, Route, Wake
from lws.runtime.fields import Wakes
from lws.runtime.leadership.election import Scope
from lws.runtime.store import Store
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    KIND,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    SCHEDULING_LEVEL_LABEL,
)


class Routing:
    """leader_pods_of: the leader pods of a set. is_as_written: whether our last write left this status."""

    def __init__(
        self,
        store: Store,
        leader_pods_of: Callable[[Object], Iterable[Object]],
        is_as_written: Callable[[Object], bool] = lambda lws: False,
    ) -> None:
        self._store = store
        self._is_as_left = is_as_written
        self._leader_pods_of = leader_pods_of

    @property
    def routes(self) -> dict[str, Route]:
        """Routes by kind of the changed object."""
        return {
            **dict.fromkeys(ROUTED, self._woken_by_child),
            "Pod": self._woken_by_pod,
            KIND: self._woken_by_set,
            "StatefulSet": self._woken_by_leaders,
            "Deployment": self._woken_by_leaders,
            "ReplicaSet": self._woken_by_replica_set,
            "PodGroup": self._woken_by_pod_group,
        }

    def _woken_by_child(self, before: Object | None, after: Object | None) -> list[Wake]:
        keys: Iterable[Key] = keys_of(before, after)
        if all(_is_strangers(obj) for obj in (before, after) if obj is not None):
            # Such an object can only take a name that an existing set or group needs; most do not: Services
            # and revisions of DisaggregatedSets caused 10 passes in a rollout of two roles.
            keys = filter(self._is_there, keys)
        return [(key, self._delay(key, before, after)) for key in keys]

    def _woken_by_pod(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Leaders of Hash groups wait for the last pod of a former group."""
        woken = self._without_gone(before, after)
        if before is None or after is not None or not is_marked_hash(before):
            return woken
        namespace, set_name = before["metadata"]["namespace"], labels_of(before).get(NAME_LABEL, "")
        siblings = self._store.owned_by((controller_of(before) or {}).get("uid", ""), "Pod")
        keys = [] if siblings and not is_leader(before) else [Key("set", namespace, set_name)]
        if self._store.kept(namespace, group_name(before)):
            # Workers of a leader that is gone have nobody else.
            keys.append(Key("group", namespace, group_name(before)))
        return [*woken, *((key, 0.0) for key in keys if all(key != other for other, _ in woken))]

    def _woken_by_pod_group(self, before: Object | None, after: Object | None) -> list[Wake]:
        """A group whose PodGroup the set owns creates it again."""
        woken = self._woken_by_child(before, after)
        owner = controller_of(before) if before is not None and after is None else None
        if before is None or owner is None or owner["kind"] != KIND:
            return woken
        namespace, labels = before["metadata"]["namespace"], labels_of(before)
        pods = self._store.labelled_pods(NAME_LABEL, namespace, labels.get(NAME_LABEL, ""))
        index = labels.get(GROUP_INDEX_LABEL)
        led = [pod for pod in pods if is_leader(pod) and labels_of(pod).get(GROUP_INDEX_LABEL) == index]
        return [*woken, *((Key("group", namespace, pod["metadata"]["name"]), 0.0) for pod in led)]

    def _without_gone(self, before: Object | None, after: Object | None) -> list[Wake]:
        """A leader of a Hash group that is gone never comes back, and nothing is decided about its workers
        unless a finalizer keeps them: their end was 4 of 12 passes over each group that a rollout replaced.
        """
        woken = self._woken_by_child(before, after)
        if not all(_is_hash_worker(obj) for obj in (before, after) if obj is not None):
            return woken
        return [wake for wake in woken if wake[0].kind != "group" or self._is_there(wake[0])]

    def _is_there(self, key: Key) -> bool:
        kind = KIND if key.kind == "set" else "Pod"
        return self._store.get(kind, key.namespace, key.name) is not None

    def _woken_by_set(self, before: Object | None, after: Object | None) -> list[Wake]:
        if before is not None and after is not None and self._is_own_report(before, after):
            return []
        woken = [*self._woken_by_child(before, after), *self._kept_groups(after or before or {})]
        if before is None or after is None:
            return [*woken, *self._groups_of_set(before or after or {})]
        return [*woken, *self._groups_of_set(after)] if wakes(before, after) is Wakes.ALL else woken

    def _is_own_report(self, before: Object, after: Object) -> bool:
        """A set's pass learns nothing from its own status write. Passes over groups write `restarts`."""
        if wakes(before, after) is not Wakes.SET or not self._is_as_left(after):
            return False
        if annotations_of(before) != annotations_of(after):
            return False
        one, two = (obj.get("status") or {} for obj in (before, after))
        return bool(one.get("restarts") == two.get("restarts"))

    def _woken_by_leaders(self, before: Object | None, after: Object | None) -> list[Wake]:
        """No pass has observed the groups of a StatefulSet or Deployment that was unknown or an orphan:
        enqueue all of them.
        """
        obj = after or before or {}
        woken = [*self._without_gone(before, after), *self._kept_groups(obj)]
        owner = controller_of(after) if after is not None and _was_nobodys(before) else None
        if after is None or owner is None or owner["kind"] != KIND:
            return woken
        # The set itself may not be known yet.
        metadata = {**after["metadata"], "name": owner["name"], "uid": owner["uid"]}
        identity = GroupIdentity.HASH if after["kind"] == "Deployment" else GroupIdentity.ORDINAL
        spec = {"groupIdentity": identity}
        return [*woken, *self._groups_of_set({"kind": KIND, "metadata": metadata, "spec": spec})]

    def _woken_by_replica_set(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Pods of a ReplicaSet that was unknown or an orphan could not be told to be leaders."""
        woken = [*self._woken_by_child(before, after), *self._kept_groups(after or before or {})]
        if after is None or not _was_nobodys(before):
            return woken
        namespace, pods = (
            after["metadata"]["namespace"],
            self._store.owned_by(after["metadata"]["uid"], "Pod"),
        )
        return [*woken, *((Key("group", namespace, pod["metadata"]["name"]), 0.0) for pod in pods)]

    def keys(self, scope: Scope) -> Iterator[Key]:
        """The key of every set and every group in these namespaces."""
        for lws in self._store.of_kind(KIND):
            if scope(lws["metadata"]["namespace"]):
                yield Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"])
                yield from (key for key, _ in self._groups_of_set(lws))
        for pod in self._store.of_kind("Pod"):
            is_going = is_terminating(pod) and workers_of(self._store, pod) is not None
            if (is_kept(pod) or is_going) and scope(pod["metadata"]["namespace"]):
                yield from (key for key in _keys_of_pod(pod) if key.kind == "group")

    def _delay(self, key: Key, before: Object | None, after: Object | None) -> float:
        # The StatefulSet of workers has the name of an Ordinal leader.
        obj = after or before or {}
        name = key.name if key.kind == "group" else obj["metadata"]["name"]
        owner = controller_of(obj)
        if (
            key.kind == "set"
            and obj["kind"] == "StatefulSet"
            and owner is not None
            and owner["kind"] == "Pod"
        ):
            name = owner["name"]
        leader = self._store.get("Pod", key.namespace, name)
        if leader is not None:
            workers = workers_of(self._store, leader)
        else:
            workers = self._store.get("StatefulSet", key.namespace, name)
        if key.kind == "set":
            return set_delay_of(before, after, leader, workers)
        return 0.0 if leader is None else group_delay_of(before, after, leader, workers)

    def _kept_groups(self, owner: Object) -> Iterator[Wake]:
        """Whether pods of a group that has used up its restarts are kept depends on set and StatefulSet."""
        for pod in self._store.kept(owner["metadata"]["namespace"], owner["metadata"]["name"]):
            yield from ((key, 0.0) for key in _keys_of_pod(pod) if key.kind == "group")

    def _groups_of_set(self, lws: Object) -> Iterator[Wake]:
        # What groups read of a set, such as its policies and labels, may have changed.
        for pod in self._leader_pods_of(lws):
            yield Key("group", pod["metadata"]["namespace"], pod["metadata"]["name"]), 0.0


def _is_hash_worker(obj: Object) -> bool:
    """A worker pod of a Hash group that no finalizer of ours keeps, or the StatefulSet of such pods."""
    if obj["kind"] == "Pod":
        return is_marked_hash(obj) and not is_leader(obj) and not is_kept(obj)
    owner = controller_of(obj) or {}
    return owner.get("kind") == "Pod" and owner["name"] != obj["metadata"]["name"]


def _was_nobodys(before: Object | None) -> bool:
    """The object was unknown or an orphan."""
    return before is None or controller_of(before) is None


def _is_strangers(obj: Object) -> bool:
    """Its controller is neither a set nor an object created for one."""
    owner = controller_of(obj)
    return owner is not None and owner["kind"] not in (KIND, *LEADER_WORKER_SET.owners)


_REPORTED = (observed_generation_of, current_revision_of, update_revision_of)


def set_delay_of(
    before: Object | None, after: Object | None, leader: Object | None, workers: Object | None
) -> float:
    """Seconds by which the pass over the set may be delayed. leader, workers: current leader pod and
    StatefulSet that have the name of the changed object.
    """
    obj = after or before or {}
    owner_kind = (controller_of(obj) or {}).get("kind")
    if before is None and owner_kind == KIND and obj["kind"] not in ("Workload", "PodGroup"):
        # A pass over the set created it and continues when its controller reports.
        return timing.STARTING_SET_SECONDS
    if obj["kind"] == "Pod":
        return _delay_of_leader(before, after, workers)
    if obj["kind"] == "ReplicaSet" and before is not None and after is not None:
        # Its leaders wake the set; it only shows why one is missing.
        return timing.STARTING_GROUP_SECONDS if wakes(before, after) is Wakes.SET else 0.0
    if obj["kind"] != "StatefulSet":
        return 0.0
    if owner_kind == KIND:
        return _delay_of_leaders(before, after)
    return _delay_of_workers(before, after, leader) if owner_kind == "Pod" else 0.0


def _delay_of_leader(before: Object | None, after: Object | None, workers: Object | None) -> float:
    """A leader pod gets a node, starts, or is deleted after we terminated it. A new one may have the wrong
    revision.
    """
    if before is None:
        return 0.0
    if after is None:
        return timing.STARTING_SET_SECONDS if is_terminating(before) else 0.0
    if wakes(before, after) > Wakes.LATER or wait_for_node(after) is not None:
        return 0.0
    if is_ready(before) == is_ready(after):
        return timing.STARTING_SET_SECONDS
    if workers is None or not is_controlled_by(workers, after["metadata"]["uid"]):
        return 0.0
    return 0.0 if is_settled(workers) else timing.STARTING_SET_SECONDS


def _delay_of_leaders(before: Object | None, after: Object | None) -> float:
    """Terminated leader pods were deleted or recreated. Pods of a surge make room when they are deleted, and
    need room when they are created.
    """
    if before is None or after is None or wakes(before, after) is not Wakes.SET:
        return 0.0
    if _is_answer(before, after):
        return timing.AT_ONCE
    # Simulators report no generation; then a changed count may be the whole report.
    if not observed_generation_of(before) or any(field(before) != field(after) for field in _REPORTED):
        return 0.0
    were, are = map(existing_replicas, (before, after))
    asked_for = whole_number(annotations_of(after).get(REPLICAS_ANNOTATION))
    has_surged = are > were and asked_for is not None and are > asked_for
    return 0.0 if has_surged or max(were, are) > desired_replicas(after) else timing.STARTING_SET_SECONDS


def _is_answer(before: Object, after: Object) -> bool:
    """Its controller has observed what a pass has just written: the rest of a step may follow. With a delay
    it came 0.1 s later for each of 100 groups: 0.960 of the ideal with slow pods, and 0.977 without delay.
    """
    return 0 < observed_generation_of(before) < observed_generation_of(after) and has_seen_template(after)


def _delay_of_workers(before: Object | None, after: Object | None, leader: Object | None) -> float:
    """Workers are created after their leader and deleted with it. The set waits until they are ready; if some
    are missing, its status should soon say why.
    """
    if leader is None or is_terminating(leader):
        return timing.STARTING_SET_SECONDS
    if after is None or is_terminating(after):
        return 0.0
    if before is None:
        return 0.0 if is_settled(after) else timing.STARTING_SET_SECONDS
    if wakes(before, after) is not Wakes.SET or is_settled(before) != is_settled(after):
        return 0.0
    return timing.STARTING_GROUP_SECONDS if is_short(after) else timing.STARTING_SET_SECONDS


def keys_of(before: Object | None, after: Object | None) -> set[Key]:
    """Keys of the sets and groups that a change may concern.

    Ownership decides, by controller reference; labels only show which set an orphan may concern. A key too
    many costs a pass that writes nothing, a key too few costs correctness.
    """
    woken = wakes(before, after) if before is not None and after is not None else Wakes.ALL
    if woken is Wakes.NONE:
        return set()
    # A change of fields that routes read enqueues all keys; after any other change the keys are the same.
    objects = (before, after) if woken is Wakes.ALL else (after,)
    keys = {key for obj in objects if obj is not None for key in _ROUTES[obj["kind"]](obj)}
    return {key for key in keys if key.kind == "set"} if woken is Wakes.SET else keys


def _keys_of_set(lws: Object) -> Iterator[Key]:
    yield Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"])


def _keys_of_pod(pod: Object) -> Iterator[Key]:
    owner = controller_of(pod)
    if owner is None or owner["kind"] not in ("StatefulSet", "ReplicaSet"):
        return
    namespace = pod["metadata"]["namespace"]
    set_name = labels_of(pod).get(NAME_LABEL, "")
    if owner["kind"] == "ReplicaSet":
        yield Key("group", namespace, pod["metadata"]["name"])
        yield Key("set", namespace, owner["name"].rpartition("-")[0])
    elif owner["name"] == set_name:
        yield Key("group", namespace, pod["metadata"]["name"])
        yield Key("set", namespace, set_name)
    else:
        # The StatefulSet of workers has the name of their leader, that of a Hash group its host name.
        leader = annotations_of(pod).get(LEADER_NAME_ANNOTATION) if is_marked_hash(pod) else None
        yield Key("group", namespace, leader or owner["name"])
        if leader and is_kept(pod):
            # Its leader may be gone.
            yield Key("group", namespace, owner["name"])
        if set_name and not leader and parent_and_ordinal(owner["name"])[0] != set_name:
            # Its name label was edited: it may be a leader.
            yield Key("group", namespace, pod["metadata"]["name"])
            yield Key("set", namespace, owner["name"])
        elif set_name and waits_for_kubelet(pod):
            # A lost node may hold it, which the status of the set reports.
            yield Key("set", namespace, set_name)


def _keys_of_child(obj: Object) -> Iterator[Key]:
    """Keys for StatefulSets, Services, ControllerRevisions and PodDisruptionBudgets."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    set_name = labels_of(obj).get(NAME_LABEL)
    owner = controller_of(obj)
    if owner is None and set_name:
        yield Key("set", namespace, set_name)
    if owner is None or owner["kind"] not in (KIND, *LEADER_WORKER_SET.owners):
        # An orphan, or an object of another owner whose name a set or group may need.
        yield Key("set", namespace, name)
        yield Key("group", namespace, name)
        # The status of the set reports name conflicts of its groups.
        parent, ordinal = parent_and_ordinal(name)
        if ordinal >= 0 and obj["kind"] != "ControllerRevision":
            yield Key("set", namespace, parent)
    elif owner["kind"] in (KIND, "Deployment"):
        yield Key("set", namespace, owner["name"])
    elif owner["kind"] == "Pod":
        yield Key("group", namespace, owner["name"])
        if set_name and obj["kind"] == "StatefulSet":
            yield Key("set", namespace, set_name)


def _keys_of_claim(claim: Object) -> Iterator[Key]:
    if set_name := labels_of(claim).get(NAME_LABEL):
        yield Key("set", claim["metadata"]["namespace"], set_name)


def _keys_of_workload(workload: Object) -> Iterator[Key]:
    if set_name := labels_of(workload).get(NAME_LABEL):
        yield Key("set", workload["metadata"]["namespace"], set_name)


def _keys_of_pod_group(pod_group: Object) -> Iterator[Key]:
    owner = controller_of(pod_group)
    namespace = pod_group["metadata"]["namespace"]
    if owner is not None and owner["kind"] == "Pod":
        yield Key("group", namespace, owner["name"])
    elif SCHEDULING_LEVEL_LABEL in labels_of(pod_group):
        yield Key("set", namespace, labels_of(pod_group).get(NAME_LABEL, ""))


_ROUTES = {
    "LeaderWorkerSet": _keys_of_set,
    "Pod": _keys_of_pod,
    "StatefulSet": _keys_of_child,
    "Deployment": _keys_of_child,
    "ReplicaSet": _keys_of_child,
    "Job": _keys_of_child,
    "Service": _keys_of_child,
    "PodDisruptionBudget": _keys_of_child,
    "ControllerRevision": _keys_of_child,
    "PersistentVolumeClaim": _keys_of_claim,
    "PodGroup": _keys_of_pod_group,
    "Workload": _keys_of_workload,
}

ROUTED = frozenset(_ROUTES)
"""Kinds of objects whose changes may concern a set or a group."""


def group_delay_of(
    before: Object | None, after: Object | None, leader: Object, workers: Object | None
) -> float:
    """Seconds by which the pass over the group may be delayed."""
    if is_terminating(leader):
        is_awaited = workers is not None and not is_terminating(workers) and notes_parallel(leader, workers)
        return timing.AT_ONCE if is_awaited else timing.TERMINATING_GROUP_SECONDS
    if after is None or is_terminating(after):
        return timing.AT_ONCE if _has_failed(before, after) else 0.0
    uid = leader["metadata"]["uid"]
    is_leader = after["metadata"]["uid"] == uid
    if _has_failed(before, after) or (is_leader and before is None):
        return timing.AT_ONCE
    if before is not None:
        has_workers = workers is not None and is_controlled_by(workers, uid)
        can_wait = is_leader and has_workers and wakes(before, after) <= Wakes.LATER
        return timing.STARTING_GROUP_SECONDS if can_wait else 0.0
    is_new_worker = after["kind"] == "Pod" and not is_leader and is_undisturbed(after)
    return timing.STARTING_GROUP_SECONDS if is_new_worker or is_controlled_by(after, uid) else 0.0


def _has_failed(before: Object | None, after: Object | None) -> bool:
    """A pod of the group failed or was deleted. Counted once per pod, however many changes follow."""
    if before is None or after is None or after["kind"] != "Pod":
        return False
    if is_terminating(after):
        return not is_terminating(before)
    return is_undisturbed(before) and not is_undisturbed(after)
