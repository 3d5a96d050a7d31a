"""Map changes of objects to the passes over sets and groups that they trigger, with their longest delay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lws import timing
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
)
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import waits_for_kubelet
from lws.kube.pods import has_gate, is_ready, wait_for_node
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
from lws.leaderworkerset.observe.membership import (
    has_former_workers,
    leader_pods_of,
    pods_of_leaders,
    workers_of,
)
from lws.leaderworkerset.pod_identity import (
    are_hash_workers,
    group_key,
    group_name,
    is_hash_key,
    is_leader,
    is_marked_hash,
    is_of_hash_group,
    must_return_to,
    notes_parallel,
    own_workers,
)
from lws.leaderworkerset.restart_counts import is_kept
from lws.leaderworkerset.tables import LEADER_WORKER_SET, is_undisturbed, wakes
from lws.runtime.actions import Key, Object, Route, Wake
from lws.runtime.leadership.election import Scope
from lws.runtime.store import Store
from lws.runtime.stored_fields import Wakes
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_REPLACEMENT_GATE,
    KIND,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    SCHEDULING_LEVEL_LABEL,
)


class Routing:
    """Map changes of stored objects to the passes that they trigger. is_as_written: reports whether the
    status of a set is as our last write left it.
    """

    def __init__(self, store: Store, is_as_written: Callable[[Object], bool] = lambda lws: False) -> None:
        self._store = store
        self._is_as_written = is_as_written

    @property
    def routes(self) -> dict[str, Route]:
        """The route of each kind of object."""
        return {
            **dict.fromkeys(ROUTES, self._woken_by_child),
            "Pod": self._woken_by_pod,
            KIND: self._woken_by_set,
            "StatefulSet": self._woken_by_leaders,
            "Deployment": self._woken_by_leaders,
            "ReplicaSet": self._woken_by_replica_set,
            "PodGroup": self._woken_by_pod_group,
        }

    def _woken_by_child(self, before: Object | None, after: Object | None) -> list[Wake]:
        keys: Iterable[Key] = keys_of(before, after)
        if all(_is_of_other_owner(obj) for obj in (before, after) if obj is not None):
            # An object of another owner matters only if an existing set or group needs its name. Most do not:
            # Services and revisions of DisaggregatedSets caused 10 passes in a rollout of two roles.
            keys = filter(self._exists, keys)
        return [(key, self._delay(key, before, after)) for key in keys]

    def _woken_by_pod(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Wake the passes of a changed pod, and the set when a pod of a Hash group is deleted. New leaders of
        the set wait for the last pod of a former group.
        """
        woken = self._without_deleted_leaders(before, after)
        if before is None or after is not None or not is_marked_hash(before):
            return woken
        namespace, set_name = before["metadata"]["namespace"], labels_of(before).get(NAME_LABEL, "")
        siblings = self._store.owned_by((controller_of(before) or {}).get("uid", ""), "Pod")
        keys = [] if siblings and not is_leader(before) else [Key("set", namespace, set_name)]
        if self._store.kept(namespace, group_name(before)) or self._has_left_workers(before):
            # Workers of a deleted leader are only found by the name of their group.
            keys.append(Key("group", namespace, group_name(before)))
        return [*woken, *((key, 0.0) for key in keys if all(key != other for other, _ in woken))]

    def _has_left_workers(self, leader: Object) -> bool:
        """Return whether a leader of a Hash group was deleted without its workers."""
        workers = self._store.get("StatefulSet", leader["metadata"]["namespace"], group_name(leader))
        return workers is not None and controller_of(workers) is None

    def _woken_by_pod_group(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Wake the passes of a changed PodGroup, and the group if the set owned the PodGroup and it was
        deleted or edited. The pass over the group recreates or repairs the PodGroup.
        """
        woken = self._woken_by_child(before, after)
        owner = controller_of(before) if before is not None else None
        if before is None or owner is None or owner["kind"] != KIND or not _is_lost_or_edited(before, after):
            return woken
        namespace, labels = before["metadata"]["namespace"], labels_of(before)
        index = labels.get(GROUP_INDEX_LABEL, "")
        key = index if is_hash_key(index) else group_key(namespace, f"{labels.get(NAME_LABEL)}-{index}")
        leaders = filter(is_leader, self._store.labelled_pods(GROUP_KEY_LABEL, namespace, key))
        return [*woken, *((Key("group", namespace, pod["metadata"]["name"]), 0.0) for pod in leaders)]

    def _without_deleted_leaders(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Wake the passes of a changed object, except the pass over a Hash group whose leader is deleted.
        Such a leader is never recreated, and there is nothing to decide about its workers unless a finalizer
        keeps them. The deletion of workers caused 4 of 12 passes over each group that a rollout replaced.
        """
        woken = self._woken_by_child(before, after)
        if not all(_is_hash_worker(obj) for obj in (before, after) if obj is not None):
            return woken
        return [wake for wake in woken if wake[0].kind != "group" or self._exists(wake[0])]

    def _exists(self, key: Key) -> bool:
        kind = KIND if key.kind == "set" else "Pod"
        return self._store.get(kind, key.namespace, key.name) is not None

    def _woken_by_set(self, before: Object | None, after: Object | None) -> list[Wake]:
        if before is not None and after is not None and self._is_own_write(before, after):
            return []
        woken = [*self._woken_by_child(before, after), *self._kept_groups(after or before or {})]
        if before is None or after is None:
            return [*woken, *self._groups_of_set(before or after or {})]
        return [*woken, *self._groups_of_set(after)] if wakes(before, after) is Wakes.ALL else woken

    def _is_own_write(self, before: Object, after: Object) -> bool:
        """Return whether the change is our own status write, which needs no pass. Passes over groups write
        `restarts`; such a write needs a pass over the set.
        """
        if wakes(before, after) is not Wakes.SET or not self._is_as_written(after):
            return False
        if annotations_of(before) != annotations_of(after):
            return False
        old, new = (obj.get("status") or {} for obj in (before, after))
        return bool(old.get("restarts") == new.get("restarts"))

    def _woken_by_leaders(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Wake the passes of a changed leader StatefulSet or Deployment, and all of its groups if it was
        unknown or an orphan, because no pass has observed these groups.
        """
        obj = after or before or {}
        woken = [*self._without_deleted_leaders(before, after), *self._kept_groups(obj)]
        if after is not None and controller_of(after) is None:
            # No pass over a set admits these leaders.
            pods, namespace = pods_of_leaders(self._store, after), after["metadata"]["namespace"]
            gated = [pod for pod in pods if has_gate(pod, GROUP_REPLACEMENT_GATE)]
            return [*woken, *((Key("group", namespace, name_of(pod)), 0.0) for pod in gated)]
        owner = controller_of(after) if after is not None and _was_unowned(before) else None
        if after is None or owner is None or owner["kind"] != KIND:
            return woken
        # The store may not have the set yet, so its metadata comes from the owner reference.
        metadata = {**after["metadata"], "name": owner["name"], "uid": owner["uid"]}
        identity = GroupIdentity.HASH if after["kind"] == "Deployment" else GroupIdentity.ORDINAL
        spec = {"groupIdentity": identity}
        return [*woken, *self._groups_of_set({"kind": KIND, "metadata": metadata, "spec": spec})]

    def _woken_by_replica_set(self, before: Object | None, after: Object | None) -> list[Wake]:
        """Wake the passes of a changed ReplicaSet, and all of its groups if it was unknown or an orphan:
        until now, its pods could not be recognised as leaders.
        """
        woken = [*self._woken_by_child(before, after), *self._kept_groups(after or before or {})]
        if after is None or not _was_unowned(before):
            return woken
        namespace = after["metadata"]["namespace"]
        pods = self._store.owned_by(after["metadata"]["uid"], "Pod")
        return [*woken, *((Key("group", namespace, pod["metadata"]["name"]), 0.0) for pod in pods)]

    def keys(self, scope: Scope) -> Iterator[Key]:
        """Yield the key of every set and every group in the namespaces of `scope`."""
        for lws in self._store.of_kind(KIND):
            if scope(lws["metadata"]["namespace"]):
                yield Key("set", lws["metadata"]["namespace"], lws["metadata"]["name"])
                yield from (key for key, _ in self._groups_of_set(lws))
        for workers in self._store.of_kind("StatefulSet"):
            is_left = controller_of(workers) is None and GROUP_KEY_LABEL in labels_of(workers)
            if is_left and scope(workers["metadata"]["namespace"]):
                yield Key("group", workers["metadata"]["namespace"], name_of(workers))
        for pod in self._store.of_kind("Pod"):
            is_due = is_kept(pod) or has_gate(pod, GROUP_REPLACEMENT_GATE)
            is_due = is_due or (is_terminating(pod) and workers_of(self._store, pod) is not None)
            if is_due and scope(pod["metadata"]["namespace"]):
                yield from (key for key in _keys_of_pod(pod) if key.kind == "group")

    def _delay(self, key: Key, before: Object | None, after: Object | None) -> float:
        """Return the seconds by which the pass over `key` may be delayed."""
        # The worker StatefulSet of an Ordinal group has the name of the leader pod.
        obj = after or before or {}
        name = key.name if key.kind == "group" else obj["metadata"]["name"]
        owner = controller_of(obj)
        if (key.kind, obj["kind"]) == ("set", "StatefulSet") and owner is not None and owner["kind"] == "Pod":
            name = owner["name"]
        leader = self._store.get("Pod", key.namespace, name)
        workers = workers_of(self._store, leader) if leader is not None else None
        if key.kind == "set":
            return set_delay_of(before, after, leader, workers)
        if leader is None:
            return 0.0
        if _is_awaited_by(leader, workers, obj):
            # Only the end of the last one counts. Each of seven workers caused two passes.
            is_left = has_former_workers(self._store, key.namespace, name)
            return timing.TERMINATING_GROUP_SECONDS if is_left else 0.0
        return group_delay_of(before, after, leader, workers)

    def _kept_groups(self, owner: Object) -> Iterator[Wake]:
        """Wake the groups that a finalizer keeps because their restart budget is exhausted.
        owner: the set or its StatefulSet, which decide how long the finalizer keeps the groups.
        """
        for pod in self._store.kept(owner["metadata"]["namespace"], owner["metadata"]["name"]):
            yield from ((key, 0.0) for key in _keys_of_pod(pod) if key.kind == "group")

    def _groups_of_set(self, lws: Object) -> Iterator[Wake]:
        """Wake every group of a set: passes over groups read the spec and labels of the set."""
        for pod in leader_pods_of(self._store, lws):
            yield Key("group", pod["metadata"]["namespace"], pod["metadata"]["name"]), 0.0


def _is_hash_worker(obj: Object) -> bool:
    """Return whether this is a worker of a Hash group, not kept by our finalizer, or its StatefulSet."""
    if obj["kind"] == "Pod":
        return is_marked_hash(obj) and not is_leader(obj) and not is_kept(obj)
    return are_hash_workers(obj)


def _was_unowned(before: Object | None) -> bool:
    """Return whether the object was unknown or an orphan."""
    return before is None or controller_of(before) is None


def _is_lost_or_edited(before: Object, after: Object | None) -> bool:
    """Return whether an object was deleted, or its labels or owners edited while it was not terminating."""
    if after is None:
        return True
    old, new = ((labels_of(obj), obj["metadata"].get("ownerReferences")) for obj in (before, after))
    return old != new and not is_terminating(after)


def _is_of_other_owner(obj: Object) -> bool:
    """Return whether the controller of the object is neither a set nor an object created for one."""
    owner = controller_of(obj)
    return owner is not None and owner["kind"] not in (KIND, *LEADER_WORKER_SET.owners)


_REPORTED = (observed_generation_of, current_revision_of, update_revision_of)


def set_delay_of(
    before: Object | None, after: Object | None, leader: Object | None, workers: Object | None
) -> float:
    """Return the seconds by which the set's pass may be delayed. leader, workers: of the object's group."""
    obj = after or before or {}
    owner_kind = (controller_of(obj) or {}).get("kind")
    if before is None and owner_kind == KIND and obj["kind"] not in ("Workload", "PodGroup"):
        # A pass over the set has just created the object, and continues when its controller reports.
        return timing.STARTING_SET_SECONDS
    if obj["kind"] == "Pod":
        return _delay_of_leader(before, after, workers)
    if obj["kind"] == "ReplicaSet" and before is not None and after is not None:
        # Changes of leader pods enqueue the set; the ReplicaSet only shows why one is missing.
        return timing.STARTING_GROUP_SECONDS if wakes(before, after) is Wakes.SET else 0.0
    if obj["kind"] != "StatefulSet":
        return 0.0
    if owner_kind == KIND:
        return _delay_of_leaders(before, after)
    return _delay_of_workers(before, after, leader) if owner_kind == "Pod" else 0.0


def _delay_of_leader(before: Object | None, after: Object | None, workers: Object | None) -> float:
    """Return the delay for a change of a leader pod. There is no delay for a new pod, which may have the
    wrong revision, or for a group that becomes ready. The delay is long while the pod is scheduled and
    starts, or if it is gone after its deletion.
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
    """Return the delay for a change of the leader StatefulSet. If only its counts change, leader pods were
    deleted or recreated. The set can wait for these unless they belong to a surge.
    """
    if before is None or after is None or wakes(before, after) is not Wakes.SET:
        return 0.0
    if _has_observed_write(before, after):
        return timing.AT_ONCE
    # Simulated controllers report no generation; a changed count may then be all that they report.
    if not observed_generation_of(before) or any(field(before) != field(after) for field in _REPORTED):
        return 0.0
    old, new = map(existing_replicas, (before, after))
    requested = whole_number(annotations_of(after).get(REPLICAS_ANNOTATION))
    has_surged = new > old and requested is not None and new > requested
    return 0.0 if has_surged or max(old, new) > desired_replicas(after) else timing.STARTING_SET_SECONDS


def _has_observed_write(before: Object, after: Object) -> bool:
    """Return whether the StatefulSet controller has just observed our last write: the step may continue. A
    delay cost 0.1 s for each of 100 groups: 0.960 of the ideal speed with slow pods, 0.977 without.
    """
    return 0 < observed_generation_of(before) < observed_generation_of(after) and has_seen_template(after)


def _delay_of_workers(before: Object | None, after: Object | None, leader: Object | None) -> float:
    """Return the delay for a change of a worker StatefulSet. The set only waits until the workers are ready,
    as they come and go with their leader, or before it. If some are missing, its status should soon show why.
    """
    if leader is None or is_terminating(leader) or has_gate(leader, GROUP_REPLACEMENT_GATE):
        return timing.STARTING_SET_SECONDS
    if after is None or is_terminating(after):
        return 0.0
    if before is None:
        return 0.0 if is_settled(after) else timing.STARTING_SET_SECONDS
    if wakes(before, after) is not Wakes.SET or is_settled(before) != is_settled(after):
        return 0.0
    return timing.STARTING_GROUP_SECONDS if is_short(after) else timing.STARTING_SET_SECONDS


def keys_of(before: Object | None, after: Object | None) -> set[Key]:
    """Return the keys of the sets and groups that a change may concern. Keys follow from the controller
    reference; labels only show which set an orphan may concern. A superfluous key costs a pass that writes
    nothing, a missing key costs correctness.
    """
    woken = wakes(before, after) if before is not None and after is not None else Wakes.ALL
    if woken is Wakes.NONE:
        return set()
    # A change of fields that routes read enqueues all keys; after any other change the keys are the same.
    objects = (before, after) if woken is Wakes.ALL else (after,)
    keys = {key for obj in objects if obj is not None for key in ROUTES[obj["kind"]](obj)}
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
        # The owner, a worker StatefulSet, has the name of the leader pod, or in a Hash group its host name.
        leader = annotations_of(pod).get(LEADER_NAME_ANNOTATION) if is_marked_hash(pod) else None
        yield Key("group", namespace, leader or owner["name"])
        if leader and is_kept(pod):
            # If the leader is deleted, its kept workers are found by their owner's name.
            yield Key("group", namespace, owner["name"])
        if set_name and not leader and parent_and_ordinal(owner["name"])[0] != set_name:
            # The name label of the pod was edited: the pod may be a leader.
            yield Key("group", namespace, pod["metadata"]["name"])
            yield Key("set", namespace, owner["name"])
        elif set_name and (waits_for_kubelet(pod) or (must_return_to(pod) and wait_for_node(pod))):
            # The pod may be stuck on a lost node, or wait for one, which the status of the set reports.
            yield Key("set", namespace, set_name)


def _keys_of_child(obj: Object) -> Iterator[Key]:
    """Yield keys for objects that are created for a set or a group, by their controller reference."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    set_name = labels_of(obj).get(NAME_LABEL)
    owner = controller_of(obj)
    if owner is None and set_name:
        yield Key("set", namespace, set_name)
    if owner is None or owner["kind"] not in (KIND, *LEADER_WORKER_SET.owners):
        # An orphan, or an object of another owner whose name a set or group may need.
        yield Key("set", namespace, name)
        yield Key("group", namespace, name)
        # The status of the set reports name clashes of its groups.
        parent, ordinal = parent_and_ordinal(name)
        if ordinal >= 0 and obj["kind"] != "ControllerRevision":
            yield Key("set", namespace, parent)
    elif owner["kind"] in (KIND, "Deployment"):
        yield Key("set", namespace, owner["name"])
    elif owner["kind"] == "Pod":
        yield Key("group", namespace, owner["name"])
        if set_name and obj["kind"] == "StatefulSet":
            yield Key("set", namespace, set_name)


def _keys_by_label(obj: Object) -> Iterator[Key]:
    if set_name := labels_of(obj).get(NAME_LABEL):
        yield Key("set", obj["metadata"]["namespace"], set_name)


def _keys_of_pod_group(pod_group: Object) -> Iterator[Key]:
    owner = controller_of(pod_group)
    namespace = pod_group["metadata"]["namespace"]
    if owner is not None and owner["kind"] == "Pod":
        yield Key("group", namespace, owner["name"])
    elif SCHEDULING_LEVEL_LABEL in labels_of(pod_group):
        yield Key("set", namespace, labels_of(pod_group).get(NAME_LABEL, ""))


ROUTES = {
    "LeaderWorkerSet": _keys_of_set,
    "Pod": _keys_of_pod,
    "StatefulSet": _keys_of_child,
    "Deployment": _keys_of_child,
    "ReplicaSet": _keys_of_child,
    "Job": _keys_of_child,
    "Service": _keys_of_child,
    "PodDisruptionBudget": _keys_of_child,
    "ControllerRevision": _keys_of_child,
    "PersistentVolumeClaim": _keys_by_label,
    "PodGroup": _keys_of_pod_group,
    "Workload": _keys_by_label,
}


def group_delay_of(
    before: Object | None, after: Object | None, leader: Object, workers: Object | None
) -> float:
    """Return the seconds by which the pass over the group of this leader and its workers may be delayed."""
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


def _is_awaited_by(leader: Object, workers: Object | None, obj: Object) -> bool:
    """Return whether a gated leader waits for the end of this worker or worker StatefulSet."""
    if not has_gate(leader, GROUP_REPLACEMENT_GATE) or is_of_hash_group(leader):
        return False
    is_leader = obj["metadata"]["uid"] == leader["metadata"]["uid"]
    return obj["kind"] in ("Pod", "StatefulSet") and not is_leader and own_workers(leader, workers) is None


def _has_failed(before: Object | None, after: Object | None) -> bool:
    """Return whether a pod fails or starts to terminate by this change; later changes do not count."""
    if before is None or after is None or after["kind"] != "Pod":
        return False
    if is_terminating(after):
        return not is_terminating(before)
    return is_undisturbed(before) and not is_undisturbed(after)
