"""Find the pods and StatefulSets that make up the groups of a set, by owner UIDs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from lws.kube.names import parent_and_ordinal
from lws.kube.ownership import Ownership
from lws.kube.pods import NodeWait, has_gate, is_ready, restarted_containers, wait_for_node
from lws.kube.statefulsets import current_revision_of, has_seen_template, update_revision_of
from lws.leaderworkerset.assessment.ownership import ownership_of_service, ownership_of_workers
from lws.leaderworkerset.children.services import build_group_service
from lws.leaderworkerset.pod_identity import (
    group_key,
    group_name,
    group_number,
    is_of_hash_group,
    own_workers,
)
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL, key_of_template
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import leaders_kind
from lws.leaderworkerset.tables import LEADER_WORKER_SET
from lws.runtime.actions import Object
from lws.runtime.client.resources import Workload
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_REPLACEMENT_GATE,
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    SUBDOMAIN_POLICY_ANNOTATION,
    SubdomainPolicy,
)


@dataclass(frozen=True, slots=True)
class _CachedGroup:
    """Facts of a group, and the objects that they were derived from.
    named: name of the ControllerRevision or ReplicaSet that the leader was created from. controller_key:
    revision key of that template; None if unknown. is_member: whether the set uses the leader's name.
    is_open: whether facts depend on other objects, too.
    """

    pod: Object
    workers: Object | None
    pods: tuple[Object, ...]
    named: str
    controller_key: str | None
    facts: GroupFacts
    is_member: bool
    is_open: bool


def leader_pods_of(store: Store, lws: Object) -> list[Object]:
    """Return the leader pods of a set, in no particular order."""
    leaders = leaders_of(store, lws)
    if leaders is None or not is_controlled_by(leaders, uid_of(lws)):
        return []
    return list(pods_of_leaders(store, leaders))


def leaders_of(store: Store, lws: Object) -> Object | None:
    """Return the StatefulSet or Deployment that has the name of the set, regardless of owner."""
    return store.get(leaders_kind(lws), namespace_of(lws), name_of(lws))


def pods_of_leaders(store: Store, leaders: Object) -> Iterable[Object]:
    """Return the pods that a leader StatefulSet or Deployment controls."""
    uid = leaders["metadata"]["uid"]
    if leaders["kind"] == "StatefulSet":
        return store.owned_by(uid, "Pod")
    replica_sets = store.owned_by(uid, "ReplicaSet")
    return chain.from_iterable(store.owned_by(uid_of(replica_set), "Pod") for replica_set in replica_sets)


def workers_of(store: Store, leader: Object) -> Object | None:
    """Return the StatefulSet with the name of the workers of this leader pod, regardless of owner. Upstream
    0.11.0 gave the workers of a Hash group the name of the leader pod.
    """
    namespace, name = namespace_of(leader), name_of(leader)
    workers = store.get("StatefulSet", namespace, group_name(leader))
    if is_of_hash_group(leader) and own_workers(leader, workers) is None:
        return own_workers(leader, store.get("StatefulSet", namespace, name)) or workers
    return workers


def former_pods(store: Store, namespace: str, leader: str, own: str = "") -> tuple[Object, ...]:
    """Return the workers of former leaders that had the name of this one, with any index and revision. They
    include workers without an owner, which the next StatefulSet would adopt. own: UID of the current leader's
    StatefulSet.
    """
    by_name = {name_of(pod): pod for pod in _former_pods(store, namespace, leader, own)}
    return tuple(by_name[name] for name in sorted(by_name))


def has_former_workers(store: Store, namespace: str, leader: str) -> bool:
    """Return whether anything is left of the workers of former leaders that had this name."""
    is_left = worker_statefulset_named(store, namespace, leader) is not None
    # Each pod of a large group asks for this when it ends: the first one that is left answers.
    return is_left or any(_former_pods(store, namespace, leader, own=""))


def _former_pods(store: Store, namespace: str, leader: str, own: str) -> Iterator[Object]:
    pods = store.labelled_pods(GROUP_KEY_LABEL, namespace, group_key(namespace, leader))
    workers = worker_statefulset_named(store, namespace, leader)
    if workers is not None:
        # Pods of this StatefulSet count even if their labels were edited.
        pods += store.owned_by(uid_of(workers), "Pod")
    is_any_left = False
    for pod in pods:
        if _is_worker_of(pod, leader, own):
            is_any_left = True
            yield pod
    if not is_any_left:
        # Pods of a deleted StatefulSet are terminating. They may have lost the label of their group. The
        # leader StatefulSet of another set may have the name of this leader.
        terminating, set_name = store.terminating_pods_of(namespace, leader), leader.rpartition("-")[0]
        of_set = (pod for pod in terminating if labels_of(pod).get(NAME_LABEL) == set_name)
        yield from (pod for pod in of_set if _is_worker_of(pod, leader, own))


def worker_statefulset_named(store: Store, namespace: str, leader: str) -> Object | None:
    """Return the worker StatefulSet with the name of a leader, regardless of which leader controls it, or
    left it without an owner. A leader StatefulSet of another set with this name is not returned.
    """
    workers = store.get("StatefulSet", namespace, leader)
    if workers is None:
        return None
    owner = controller_of(workers)
    if owner is None:
        is_of_group = labels_of(workers).get(GROUP_KEY_LABEL) == group_key(namespace, leader)
    else:
        is_of_group = owner.get("kind") == "Pod"
    return workers if is_of_group else None


def _is_worker_of(pod: Object, leader: str, own: str) -> bool:
    owner = controller_of(pod)
    if owner is None:
        return parent_and_ordinal(name_of(pod))[0] == leader
    return (owner["kind"], owner["name"]) == ("StatefulSet", leader) and owner["uid"] != own


class Membership:
    """Find the groups of sets in the store. deleting: UIDs of pods that passes are deleting."""

    def __init__(self, store: Store, deleting: Container[str]) -> None:
        self._store = store
        self._owners = Owners(store, LEADER_WORKER_SET)
        self._deleting = deleting
        # By leader StatefulSet and UID of the leader pod. Most of a thousand groups have not changed since
        # the last pass, and the store never changes an object in place.
        self._cached: dict[tuple[str, str], dict[str, _CachedGroup]] = {}

    def set_of_leader(self, leader: Object) -> Object | None:
        """Return the set that owns the StatefulSet or Deployment of a leader pod, by UID at each step."""
        leaders = self._owner(leader, ("StatefulSet", "ReplicaSet"))
        if leaders is not None and leaders["kind"] == "ReplicaSet":
            leaders = self._owner(leaders, ("Deployment",))
        lws = self._owner(leaders, (KIND,)) if leaders is not None else None
        if leaders is None or lws is None or name_of(leaders) != name_of(lws):
            return None
        return lws if leaders["kind"] == leaders_kind(lws) else None

    def is_orphaned(self, leader: Object) -> bool:
        """Return whether the StatefulSet or Deployment of a leader has lost its set, but not its leaders."""
        leaders = self._owner(leader, ("StatefulSet", "ReplicaSet"))
        if leaders is not None and leaders["kind"] == "ReplicaSet":
            leaders = self._owner(leaders, ("Deployment",))
        return leaders is not None and not is_terminating(leaders) and controller_of(leaders) is None

    def _owner(self, obj: Object, kinds: Container[str]) -> Object | None:
        owner = controller_of(obj)
        if owner is None or owner["kind"] not in kinds:
            return None
        stored = self._store.get(owner["kind"], namespace_of(obj), owner["name"])
        return stored if stored is not None and uid_of(stored) == owner["uid"] else None

    def groups_of(self, leaders: Object) -> tuple[GroupFacts, ...]:
        """Return the groups whose leader pods this StatefulSet or Deployment controls, sorted by index."""
        owner, owned_by = leaders["metadata"], self._store.owned_by
        namespaced_name = (owner["namespace"], owner["name"])
        cached_groups, groups = self._cached.get(namespaced_name, {}), {}
        is_hash = leaders["kind"] == "Deployment"
        # Revision keys by name. There are one or two.
        keys_by_name: dict[str, str | None] = {}
        facts = []
        for pod in pods_of_leaders(self._store, leaders):
            metadata = pod["metadata"]
            if is_hash:
                workers = workers_of(self._store, pod)
            else:
                # Inlined instead of calling `workers_of`: this runs for every group in every pass.
                workers = self._store.get("StatefulSet", metadata["namespace"], metadata["name"])
            pods = owned_by(workers["metadata"]["uid"], "Pod") if workers is not None else ()
            uid = metadata["uid"]
            cached = cached_groups.get(uid)
            if cached is not None and cached.pod is pod:
                named = cached.named
            else:
                cached, named = None, _named_revision(pod)
            if named not in keys_by_name:
                keys_by_name[named] = self._controller_key(named, leaders)
            controller_key = keys_by_name[named]
            if (
                cached is None
                or cached.workers is not workers
                or cached.pods is not pods
                or cached.controller_key != controller_key
            ):
                group = _facts_of(pod, workers, pods, controller_key)
                is_ordinal = metadata["name"] == f"{owner['name']}-{group.index}"
                is_member = group.index >= 0 and (is_ordinal or is_of_hash_group(pod))
                # Only then may an object of another owner have a name that the group needs.
                is_open = group.worker_statefulset is not workers or _has_own_service(group.leader)
                cached = _CachedGroup(pod, workers, pods, named, controller_key, group, is_member, is_open)
            groups[uid] = cached
            if cached.is_member:
                is_open = cached.is_open or uid in self._deleting
                facts.append(
                    self._with_neighbours(cached.facts, workers, owner["name"]) if is_open else cached.facts
                )
        # If the owner has been deleted meanwhile, `forget` was called before.
        if self._store.has(leaders["kind"], *namespaced_name, owner["uid"]):
            self._cached[namespaced_name] = groups
        return tuple(sorted(facts, key=attrgetter("index")))

    def hidden_workers(self, pod: Object) -> str:
        """Return the name of the StatefulSet of which the store has a worker of this live leader, but not the
        StatefulSet itself; empty if there is none. The StatefulSet may have lost the label that watches
        select. A gated leader has no workers yet.
        """
        if is_terminating(pod) or has_gate(pod, GROUP_REPLACEMENT_GATE):
            return ""
        if workers_of(self._store, pod) is not None:
            return ""
        # As in `workers_of`, a Hash group may have either name.
        return next((name for name in {group_name(pod), name_of(pod)} if self._has_worker(pod, name)), "")

    def _has_worker(self, leader: Object, workers: str) -> bool:
        worker = self._store.get("Pod", namespace_of(leader), f"{workers}-1")
        owner = controller_of(worker) if worker is not None and not is_terminating(worker) else None
        return owner is not None and (owner["kind"], owner["name"]) == ("StatefulSet", workers)

    def origin_of(self, leader: Object, leaders: Object, workers: Object | None) -> Origin:
        """Determine the revision that a leader pod was created from, by its controller and its workers.
        leaders: the StatefulSet or Deployment of the leader. workers: the StatefulSet that the leader
        controls.
        """
        named = _named_revision(leader)
        controller_key = self._controller_key(named, leaders)
        is_reported = bool(named) and named in (current_revision_of(leaders), update_revision_of(leaders))
        is_shown = controller_key is not None or workers is not None or is_reported
        return Origin(key_of_leader(leader, workers, controller_key), controller_key, is_shown)

    def _controller_key(self, named: str, leaders: Object) -> str | None:
        """Return the key of the template that a controller created a leader pod from; None if unknown.
        named: the ControllerRevision or ReplicaSet that the pod names. leaders: the StatefulSet or Deployment
        of the leader.
        """
        metadata = leaders["metadata"]
        if leaders["kind"] == "Deployment":
            replica_set = self._store.get("ReplicaSet", metadata["namespace"], named)
            return key_of_template(replica_set) if replica_set is not None else None
        revision = self._store.get("ControllerRevision", metadata["namespace"], named)
        if revision is not None and is_controlled_by(revision, metadata["uid"]):
            return key_of_template(revision)
        # If the watch of revisions lags, the StatefulSet still has its newest template.
        is_newest = bool(named) and named == update_revision_of(leaders) and has_seen_template(leaders)
        return key_of_template(leaders) if is_newest else None

    def forget(self, obj: Object) -> None:
        """Drop what is cached about a deleted object."""
        if obj["kind"] in ("StatefulSet", "Deployment"):
            self._cached.pop((namespace_of(obj), name_of(obj)), None)

    def _with_neighbours(self, group: GroupFacts, workers: Object | None, set_name: str) -> GroupFacts:
        """Add facts that depend on other objects."""
        is_being_deleted = group.leader["metadata"]["uid"] in self._deleting
        name_clash = self._name_clash(group.leader, workers, set_name)
        if not is_being_deleted and name_clash is None:
            return group
        return replace(group, is_being_deleted=is_being_deleted, name_clash=name_clash)

    def _name_clash(self, pod: Object, workers: Object | None, set_name: str) -> Object | None:
        """Return the object of another owner that has a name which the group of this leader pod needs."""
        uid = uid_of(pod)
        if workers is not None and not is_controlled_by(workers, uid):
            ownership = ownership_of_workers(workers, pod, set_name, self._owners.existing_owners(workers))
            if ownership == Ownership.NAME_CLASH:
                return workers
        service = self._store.get("Service", namespace_of(pod), group_name(pod))
        if service is None or is_controlled_by(service, uid) or not _has_own_service(pod):
            return None
        intent = build_group_service(set_name, pod)
        ownership = ownership_of_service(service, uid, intent, self._owners.existing_owners(service))
        return service if ownership == Ownership.NAME_CLASH else None


def _has_own_service(leader: Object) -> bool:
    policy = annotations_of(leader).get(SUBDOMAIN_POLICY_ANNOTATION)
    return policy == SubdomainPolicy.UNIQUE_PER_REPLICA and GROUP_INDEX_LABEL in labels_of(leader)


def _named_revision(pod: Object) -> str:
    """Return the name of the ControllerRevision or ReplicaSet that a leader pod was created from."""
    if is_of_hash_group(pod):
        return str((controller_of(pod) or {})["name"])
    return labels_of(pod).get(STATEFULSET_REVISION_LABEL, "")


def _facts_of(
    pod: Object, workers: Object | None, pods: Sequence[Object], controller_key: str | None
) -> GroupFacts:
    """Derive the facts of a group from its objects.
    workers: the StatefulSet with the name of the workers. pods: the pods that this StatefulSet controls.
    controller_key: revision key of the template from which the pod's controller created it; None if unknown.
    """
    own = own_workers(pod, workers)
    live = [worker for worker in pods if not is_terminating(worker)] if own is not None else []
    waiting = [] if is_terminating(pod) else [pod, *live]
    return GroupFacts(
        index=group_number(pod),
        leader=as_made(pod, key_of_leader(pod, own, controller_key), controller_key),
        worker_statefulset=own,
        worker_uids=tuple(worker["metadata"]["uid"] for worker in live if is_ready(worker)),
        restarted=tuple(end for member in (pod, *live) for end in restarted_containers(member)),
        waits=tuple(wait for member in waiting if (wait := _wait_of(member)) is not None),
    )


def _wait_of(pod: Object) -> NodeWait | None:
    wait, node = wait_for_node(pod), annotations_of(pod).get(RETURNS_TO_ANNOTATION)
    if wait is None or not node or wait.until is not None or wait.gate:
        return wait
    return replace(wait, pod=name_of(pod), node=node)


# --- Find the revision key that a leader pod was created from, even if its label was edited.


def key_of_leader(leader: Object, workers: Object | None, controller_key: str | None) -> str | None:
    """Return the key of a leader pod, on which two of its label, its StatefulSet and its workers agree.

    No source is reliable alone. The label may have been edited, and so may the record of the StatefulSet
    controller, which is a label too. Workers that were adopted from a previous leader may have another
    revision. workers: the StatefulSet that this pod controls. controller_key: the key of the template that
    its controller created it from; None if unknown.
    """
    label = labels_of(leader).get(REVISION_LABEL)
    of_workers = key_of_template(workers) if workers is not None else None
    if label and label in (controller_key, of_workers):
        return label
    return controller_key or of_workers or label


@dataclass(frozen=True, slots=True)
class Origin:
    """The revision that a leader pod was created from. key: None if nothing shows it. controller_key: as in
    `key_of_leader`. is_shown: whether its StatefulSet, its ReplicaSet or its workers show the revision.
    """

    key: str | None
    controller_key: str | None
    is_shown: bool


def with_key(leader: Object, key: str | None) -> Object:
    """Return the leader pod with this key as its label; the same object if it has that label already."""
    if not key or labels_of(leader).get(REVISION_LABEL) == key:
        return leader
    metadata = leader["metadata"]
    return {**leader, "metadata": {**metadata, "labels": {**labels_of(leader), REVISION_LABEL: key}}}


def as_made(leader: Object, key: str | None, controller_key: str | None) -> Object:
    """Return the leader pod with its key as its label, without a StatefulSet controller's label for another
    key: that was edited, and must not make an outdated leader look updated. controller_key: as in
    `key_of_leader`.
    """
    pod = with_key(leader, key)
    if controller_key is None or controller_key == key:
        return pod
    labels = {name: value for name, value in labels_of(pod).items() if name != STATEFULSET_REVISION_LABEL}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


# --- Report whether the controllers of objects of other owners still exist, by the store. An owner of a kind
# that is not watched is assumed to exist.


class Owners:
    """Find the controllers of objects in the store.
    workload: the kind of workload whose objects may need the names of these objects.
    """

    def __init__(self, store: Store, workload: Workload) -> None:
        self._store = store
        self._workload = workload
        self._watched = {workload.resource.kind, *workload.owners}

    def existing_owners(self, *objects: Object | None) -> frozenset[str]:
        """Return the UIDs of the controllers that exist."""
        return frozenset(
            owner["uid"]
            for obj in objects
            if obj is not None and (owner := controller_of(obj)) is not None and self._is_alive(obj, owner)
        )

    def _is_alive(self, obj: Object, owner: Object) -> bool:
        if owner["kind"] not in self._watched:
            return True
        stored = self._store.get(owner["kind"], obj["metadata"]["namespace"], owner["name"])
        if stored is not None:
            return bool(stored["metadata"]["uid"] == owner["uid"])
        # Objects of the workload's own kind are all watched; of other kinds, only those with the label.
        workload = self._workload
        return owner["kind"] != workload.resource.kind and workload.label not in labels_of(obj)
