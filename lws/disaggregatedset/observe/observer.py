"""Read the snapshot of a DisaggregatedSet from the store, and what the store lacks from the API server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from lws.disaggregatedset import spec
from lws.disaggregatedset.groups import child_facts, runs_hash_group
from lws.disaggregatedset.names import Identity, child_name, identity_of, scaler_name, service_name
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.revisions.record import RecordedRoles, is_ours
from lws.disaggregatedset.slices.state import recorded_children, rollout_record
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.tables import DISAGGREGATED_SET
from lws.kube.metadata import (
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
)
from lws.kube.statefulsets import desired_replicas
from lws.leaderworkerset import fields
from lws.leaderworkerset.observe.membership import Membership, Owners, leaders_of
from lws.leaderworkerset.pod_identity import is_leader, is_of_hash_group
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import has_hash_groups
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.lookup import Lookup
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_NAME_LABEL

Named = dict[tuple[str, str], Object]
_Own = tuple[Object, Identity, str]


class DisaggregatedObserver:
    """Builds snapshots from the store. It reads live only if something is to be created, or if another object
    may have a name of the set's objects.
    """

    def __init__(self, cluster: Cluster, store: Store, memory: DisaggregatedMemory) -> None:
        self._store = store
        self._memory = memory
        self._lookup = Lookup(cluster, store, NAME_LABEL)
        self._members = Membership(store, deleting=())
        self._owners = Owners(store, DISAGGREGATED_SET)
        self._leftovers = Leftovers(store)

    def forget(self, obj: Object) -> None:
        """Drop the records of a deleted object."""
        self._members.forget(obj)

    async def observe(self, namespace: str, name: str, now: datetime) -> DisaggregatedSnapshot | None:
        """Read everything about one set; None if there is no such set."""
        obj = self._store.get(KIND, namespace, name)
        if obj is None:
            return None
        if is_terminating(obj):
            # The garbage collector deletes its objects.
            return DisaggregatedSnapshot(obj, now)
        if fault := self._memory.fault_of(obj):
            return DisaggregatedSnapshot(obj, now, fault=fault)
        uid, own = obj["metadata"]["uid"], self._own(obj)
        children, revisions = self._children(obj, own, now), self._revisions(obj)
        orphans = self._orphans(obj)
        scalers = tuple(self._store.controlled_by(uid, SCALER_KIND))
        desired = _Names(obj, children, revisions)
        # Before anything is created or adopted, a live read checks that the set still exists.
        has_orphans = bool(orphans) or any(revision.is_orphan for revision in revisions)
        in_doubt = has_orphans or desired.lacks_any([identity for _, identity, _ in own.values()], scalers)
        set_read_live = await self._lookup.reread(obj) if in_doubt else None
        if in_doubt and (set_read_live is None or is_terminating(set_read_live)):
            return DisaggregatedSnapshot(set_read_live, now) if set_read_live is not None else None
        strangers = await self._strangers(obj, desired)
        lingering, orphaned = self._leftovers.of_lost(obj, own.keys())
        return DisaggregatedSnapshot(
            obj=obj,
            now=now,
            children=children,
            unreadable={child: fault for child, (_, _, fault) in own.items() if fault},
            orphans=orphans,
            services=tuple(self._store.controlled_by(uid, "Service")),
            scalers=scalers,
            strangers=strangers,
            revisions=revisions,
            taken_revisions=self._memory.taken.of_set(uid),
            lingering=lingering,
            orphaned=orphaned,
            owners_alive=self._owners.existing_owners(*strangers.values()),
            set_read_live=set_read_live,
            rejections=self._memory.refusals.of_set(namespace, name),
        )

    def _own(self, obj: Object) -> dict[str, _Own]:
        """Return the set's LeaderWorkerSets by name, each with its identity and why it cannot be read."""
        name, own = obj["metadata"]["name"], {}
        for child in self._store.controlled_by(obj["metadata"]["uid"], CHILD_KIND):
            identity = identity_of(name, child["metadata"]["name"])
            if identity is not None:
                own[child["metadata"]["name"]] = child, identity, self._memory.fault_of(child)
        return own

    def _children(self, obj: Object, own: Mapping[str, _Own], now: datetime) -> tuple[ChildFacts, ...]:
        children, initial = [], recorded_children(obj)
        for name, (child, identity, fault) in own.items():
            if not fault:
                groups = self._groups_of(child)
                existing = self._leftovers.existing(child, groups is not None, initial.get(name))
                facts = child_facts(child, identity, groups, now, existing)
                children.append(replace(facts, template_hash=self._memory.template_hash_of(child)))
        return tuple(sorted(children, key=lambda child: child.name))

    def _groups_of(self, child: Object) -> Iterable[GroupFacts] | None:
        leaders = leaders_of(self._store, child)
        if leaders is None or not is_controlled_by(leaders, child["metadata"]["uid"]):
            return None
        return self._members.groups_of(leaders)

    def _orphans(self, obj: Object) -> tuple[Object, ...]:
        namespaced_name = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        return tuple(
            child
            for child in self._store.labelled(NAME_LABEL, *namespaced_name, CHILD_KIND)
            if controller_of(child) is None
            and not is_terminating(child)
            and identity_of(namespaced_name[1], child["metadata"]["name"]) is not None
        )

    def _revisions(self, obj: Object) -> tuple[RecordedRoles, ...]:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        own = self._store.controlled_by(obj["metadata"]["uid"], "ControllerRevision")
        orphans = self._store.labelled(NAME_LABEL, namespace, name, "ControllerRevision")
        by_name = {
            revision["metadata"]["name"]: revision for revision in (*own, *orphans) if is_ours(revision, obj)
        }
        return tuple(self._memory.parsed(by_name[revision_name]) for revision_name in sorted(by_name))

    async def _strangers(self, obj: Object, desired: _Names) -> Named:
        """Return live objects of other owners that have names of this set's objects."""
        namespace, uid = obj["metadata"]["namespace"], obj["metadata"]["uid"]
        others: Named = {}
        for kind, name in desired.names():
            existing = await self._lookup.named(kind, namespace, name, uid)
            if existing is not None and not is_controlled_by(existing, uid):
                others[kind, name] = existing
        return others


class _Names:
    """The names of the set's objects, from its spec, its children and its history."""

    def __init__(
        self, obj: Object, children: Iterable[ChildFacts], revisions: Collection[RecordedRoles]
    ) -> None:
        self._obj, self._name = obj, obj["metadata"]["name"]
        self._spec = spec.parse(obj)
        self._recorded = {revision.name for revision in revisions}
        newest = max(revisions, key=lambda revision: revision.number, default=None)
        self._target = newest.key if newest is not None else ""
        self._keys = {child.key for child in children} | ({self._target} - {""})

    def lacks_any(self, children: Collection[Identity], scalers: Iterable[Object]) -> bool:
        """Return whether an object is missing or may be missing. Whether an edit needs a new revision is
        decided later.
        """
        status = self._obj.get("status") or {}
        if status.get("observedGeneration") != self._obj["metadata"].get("generation", 0):
            return True
        if status.get("updateRevision") not in (None, *self._recorded):
            # The pass that wrote this status could not create the revision.
            return True
        existing = {(child.slice_index, child.role) for child in children if child.key == self._target}
        slices, roles = range(self._spec.slices), self._spec.roles
        if any((index, role.name) not in existing for index in slices for role in roles):
            return True
        names = {child_name(self._name, child) for child in children}
        if any(name not in names for index in slices for name in self._began_with(index)):
            return True
        names = {scaler["metadata"]["name"] for scaler in scalers}
        return any(role.is_external and scaler_name(self._name, role.name) not in names for role in roles)

    def _began_with(self, index: int) -> Iterator[str]:
        """Yield the names of the children with which a slice's rollout began, except children of a revision
        that has no child left, which are not recreated.
        """
        memory = rollout_record(self._obj, index)
        for name in memory.initial if memory is not None else ():
            identity = identity_of(self._name, name)
            if identity is None or identity.key in self._keys:
                yield name

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield kind and name of every object of the set."""
        for role in self._spec.roles:
            yield SCALER_KIND, scaler_name(self._name, role.name)
            for key in sorted(self._keys):
                for index in range(self._spec.slices):
                    child = child_name(self._name, Identity(index, key, role.name))
                    yield CHILD_KIND, child
                    yield "Service", service_name(child)


# --- Count the remaining groups of deleted LeaderWorkerSets of a DisaggregatedSet: groups whose leader pod
# exists, and groups that a StatefulSet or Deployment will still create. Until they are deleted, they count
# like other groups.


# The maximum number of groups to check, because a status may contain any number.
_MOST = 4096


class Leftovers:
    """Counts groups of children that no longer exist, from their pods and the controllers of these."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_lost(self, obj: Object, existing: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Count the groups of deleted children by name. The first result holds groups that the garbage
        collector deletes, the second one groups that stay until the next child of the same name adopts them.

        existing: the names of existing children.
        """
        lingering, orphaned, namespace = dict[str, int](), dict[str, int](), obj["metadata"]["namespace"]
        for name, groups in recorded_children(obj).items():
            # Another owner's object of this name has leaders of its own.
            if name in existing or self._store.get(CHILD_KIND, namespace, name) is not None:
                continue
            # Nothing shows whether the groups of a deleted child had indices.
            pods = self._indexed_leaders(namespace, name, groups) or self._hash_leaders(namespace, name)
            if count := max(pods, self._still_desired(namespace, name)):
                former = self._live_leaders(namespace, name)
                is_orphaned = former is not None and controller_of(former) is None
                (orphaned if is_orphaned else lingering)[name] = count
        return lingering, orphaned

    def existing(self, child: Object, has_leaders: bool, began: int | None) -> int:
        """Count a child's existing groups, a predecessor's, and those that may still be created.

        has_leaders: whether the child has a StatefulSet or Deployment of its own. If so, the result is 0
          without a rollout: its leader pods are counted instead.
        began: the child's groups at the start of the current rollout; None without a rollout.
        """
        if has_leaders and began is None:
            return 0
        namespace, name = child["metadata"]["namespace"], child["metadata"]["name"]
        most = max(fields.REPLICAS.effective_in(child), began or 0)
        is_hash = has_hash_groups(child)
        pods = (
            self._hash_leaders(namespace, name) if is_hash else self._indexed_leaders(namespace, name, most)
        )
        return max(pods, self._still_desired(namespace, name))

    def _still_desired(self, namespace: str, name: str) -> int:
        leaders = self._live_leaders(namespace, name)
        return desired_replicas(leaders) if leaders is not None else 0

    def _indexed_leaders(self, namespace: str, name: str, groups: int) -> int:
        """Count this name's leader pods, also right above the recorded number, which may be stale."""
        count = 0
        for index in range(_MOST):
            pod = self._store.get("Pod", namespace, f"{name}-{index}")
            if index >= groups and (pod is None or labels_of(pod).get(CHILD_NAME_LABEL) != name):
                break
            count += pod is not None
        return count

    def _hash_leaders(self, namespace: str, name: str) -> int:
        """Count the Hash groups of this name, whose leaders have other names. The Deployment and ReplicaSets
        of a deleted child are gone before its pods.
        """
        labelled = self._store.labelled_pods(CHILD_NAME_LABEL, namespace, name)
        leaders = (pod for pod in labelled if is_leader(pod) and is_of_hash_group(pod))
        return sum(map(runs_hash_group, leaders))

    def _live_leaders(self, namespace: str, name: str) -> Object | None:
        """Return the StatefulSet or Deployment of the children of this name, unless it is terminating and
        creates no more pods.
        """
        stored = (self._store.get(kind, namespace, name) for kind in ("StatefulSet", "Deployment"))
        live = (leaders for leaders in stored if leaders is not None and not is_terminating(leaders))
        return next((leaders for leaders in live if _is_of(leaders, name)), None)


def _is_of(leaders: Object, name: str) -> bool:
    """Return whether this StatefulSet or Deployment belongs to a child of this name, by owner or, if it has
    none, label.
    """
    owner = controller_of(leaders)
    if owner is None:
        return labels_of(leaders).get(CHILD_NAME_LABEL) == name
    return (owner.get("kind"), owner.get("name")) == (CHILD_KIND, name)
