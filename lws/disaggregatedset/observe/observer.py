"""Read the snapshot of a DisaggregatedSet from the store, and from the API server what the store lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from lws.disaggregatedset import spec
from lws.disaggregatedset.groups import child_facts
from lws.disaggregatedset.names import Identity, child_name, identity_of, scaler_name, service_name
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.revisions.record import RecordedRoles, is_ours
from lws.disaggregatedset.slices.state import remembered, remembered_children
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot, number_of
from lws.disaggregatedset.tables import DISAGGREGATED_SET
from lws.kube.metadata import controller_of, is_controlled_by, is_terminating, labels_of
from lws.kube.statefulsets import wanted_replicas
from lws.leaderworkerset import fields
from lws.leaderworkerset.observe.membership import Membership, Owners
from lws.leaderworkerset.snapshot import GroupFacts
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.lookup import Lookup
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_NAME_LABEL

Named = dict[tuple[str, str], Object]
_Own = tuple[Object, Identity, str]


def _place_of(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


class DisaggregatedObserver:
    """Makes snapshots from the store; reads live only where something is to be made or a stranger may be in
    the way.
    """

    def __init__(self, cluster: Cluster, store: Store, memory: DisaggregatedMemory) -> None:
        self._store = store
        self._memory = memory
        self._lookup = Lookup(cluster, store, NAME_LABEL)
        self._members = Membership(store, going=())
        self._owners = Owners(store, DISAGGREGATED_SET)
        self._leftovers = Leftovers(store)

    def forget(self, obj: Object) -> None:
        """There is no such object any more."""
        self._members.forget(obj)

    async def observe(self, namespace: str, name: str, now: datetime) -> DisaggregatedSnapshot | None:
        """Everything about one set; None if there is no such set."""
        obj = self._store.get(KIND, namespace, name)
        if obj is None:
            return None
        if is_terminating(obj):
            # The garbage collector takes it down: there is nothing to decide.
            return DisaggregatedSnapshot(obj, now)
        if fault := self._memory.fault_of(obj):
            return DisaggregatedSnapshot(obj, now, fault=fault)
        return await self._observe_whole(obj, now)

    async def _observe_whole(self, obj: Object, now: datetime) -> DisaggregatedSnapshot | None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        uid = obj["metadata"]["uid"]
        own = self._own(obj)
        unreadable = {name: fault for name, (_, _, fault) in own.items() if fault}
        children, revisions = self._children(obj, own, now), self._revisions(obj)
        orphans = self._orphans(obj)
        scalers = tuple(self._store.controlled_by(uid, SCALER_KIND))
        wanted = _Wanted(obj, children, revisions)
        # What is made or adopted now would be made in vain for a set whose end the stream has missed.
        has_orphans = bool(orphans) or any(revision.is_orphan for revision in revisions)
        in_doubt = has_orphans or wanted.lacks_any([identity for _, identity, _ in own.values()], scalers)
        reread = await self._lookup.reread(obj) if in_doubt else None
        if in_doubt and (reread is None or is_terminating(reread)):
            return DisaggregatedSnapshot(reread, now) if reread is not None else None
        strangers = await self._strangers(obj, wanted)
        lingering, orphaned = self._leftovers.of_lost(obj, own.keys())
        return DisaggregatedSnapshot(
            obj=obj,
            now=now,
            children=children,
            unreadable=unreadable,
            orphans=orphans,
            services=tuple(self._store.controlled_by(uid, "Service")),
            scalers=scalers,
            strangers=strangers,
            revisions=revisions,
            taken=self._memory.taken.of_set(uid),
            lingering=lingering,
            orphaned=orphaned,
            owners_alive=self._owners.alive(*strangers.values()),
            reread=reread,
            obstructions=self._memory.refusals.of_set(namespace, name),
        )

    def _own(self, obj: Object) -> dict[str, _Own]:
        """By name: its LeaderWorkerSets, which of them each is, and why it cannot be read."""
        name, known = obj["metadata"]["name"], {}
        for each in self._store.controlled_by(obj["metadata"]["uid"], CHILD_KIND):
            identity = identity_of(name, each["metadata"]["name"])
            if identity is not None:
                known[each["metadata"]["name"]] = each, identity, self._memory.fault_of(each)
        return known

    def _children(self, obj: Object, own: Mapping[str, _Own], now: datetime) -> tuple[ChildFacts, ...]:
        known, began = [], remembered_children(obj)
        for name, (each, identity, fault) in own.items():
            if not fault:
                groups = self._groups_of(each)
                left = self._leftovers.beside(each, groups is not None, began.get(name))
                known.append(child_facts(each, identity, groups, now, left))
        return tuple(sorted(known, key=lambda each: each.name))

    def _groups_of(self, child: Object) -> Iterable[GroupFacts] | None:
        leader = self._store.get("StatefulSet", *_place_of(child))
        if leader is None or not is_controlled_by(leader, child["metadata"]["uid"]):
            return None
        return self._members.groups_of(leader)

    def _orphans(self, obj: Object) -> tuple[Object, ...]:
        place = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        return tuple(
            each
            for each in self._store.labelled(NAME_LABEL, *place, CHILD_KIND)
            if controller_of(each) is None
            and not is_terminating(each)
            and identity_of(place[1], each["metadata"]["name"]) is not None
        )

    def _revisions(self, obj: Object) -> tuple[RecordedRoles, ...]:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        own = self._store.controlled_by(obj["metadata"]["uid"], "ControllerRevision")
        nobodys = self._store.labelled(NAME_LABEL, namespace, name, "ControllerRevision")
        known = {each["metadata"]["name"]: each for each in (*own, *nobodys) if is_ours(each, obj)}
        return tuple(self._memory.parsed(known[each]) for each in sorted(known))

    async def _strangers(self, obj: Object, wanted: _Wanted) -> Named:
        """Live objects of other owners that have names of this set."""
        namespace, uid = obj["metadata"]["namespace"], obj["metadata"]["uid"]
        known: Named = {}
        for kind, name in wanted.names():
            there = await self._lookup.named(kind, namespace, name, uid)
            if there is not None and not is_controlled_by(there, uid):
                known[kind, name] = there
        return known


class _Wanted:
    """Which names the set gives, as far as its spec, its children and its history show."""

    def __init__(
        self, obj: Object, children: Iterable[ChildFacts], revisions: Collection[RecordedRoles]
    ) -> None:
        self._obj, self._name = obj, obj["metadata"]["name"]
        self._spec = spec.parse(obj)
        self._recorded = {revision.name for revision in revisions}
        newest = max(revisions, key=lambda each: each.number, default=None)
        self._target = newest.key if newest is not None else ""
        self._keys = {child.key for child in children} | ({self._target} - {""})

    def lacks_any(self, children: Collection[Identity], scalers: Iterable[Object]) -> bool:
        """Something is yet to be made, or may be: whether an edit needs a new revision is decided later."""
        status = self._obj.get("status") or {}
        if status.get("observedGeneration") != self._obj["metadata"].get("generation", 0):
            return True
        if status.get("updateRevision") not in (None, *self._recorded):
            # The pass that said so could not record it.
            return True
        there = {(child.slice_index, child.role) for child in children if child.key == self._target}
        slices, roles = range(self._spec.slices), self._spec.roles
        if any((index, role.name) not in there for index in slices for role in roles):
            return True
        names = {child_name(self._name, child) for child in children}
        if any(name not in names for index in slices for name in self._began_with(index)):
            return True
        names = {scaler["metadata"]["name"] for scaler in scalers}
        return any(role.is_external and scaler_name(self._name, role.name) not in names for role in roles)

    def _began_with(self, index: int) -> Iterator[str]:
        """Names of children that the rollout of a slice began with. What no sibling of a revision is left of
        does not come back.
        """
        memory = remembered(self._obj, index)
        for name in memory.initial if memory is not None else ():
            identity = identity_of(self._name, name)
            if identity is None or identity.key in self._keys:
                yield name

    def names(self) -> Iterator[tuple[str, str]]:
        """By kind, of all that is made."""
        for role in self._spec.roles:
            yield SCALER_KIND, scaler_name(self._name, role.name)
            for key in sorted(self._keys):
                for index in range(self._spec.slices):
                    child = child_name(self._name, Identity(index, key, role.name))
                    yield CHILD_KIND, child
                    yield "Service", service_name(child)


# --- Count groups that are left of deleted LeaderWorkerSets of a DisaggregatedSet. They take the place of
# others until they are gone: leaders that exist, and those a StatefulSet will still create.


# Groups of a child that are looked for: what a status remembers may be any number.
_MOST = 4096


class Leftovers:
    """What the store knows of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_lost(self, obj: Object, known: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Groups of children that are gone: those that the garbage collector takes away after them, and those
        that stay, for the next child of the name to take over. known: names of children that are there.
        """
        lingering, orphaned, namespace = dict[str, int](), dict[str, int](), obj["metadata"]["namespace"]
        for name, groups in remembered_children(obj).items():
            # A stranger that has taken the name has a StatefulSet and pods of its own.
            if name in known or self._store.get(CHILD_KIND, namespace, name) is not None:
                continue
            if count := self._left_of(namespace, name, groups):
                (orphaned if self._is_orphaned(namespace, name) else lingering)[name] = count
        return lingering, orphaned

    def beside(self, child: Object, has_statefulset: bool, began: int | None) -> int:
        """Groups in the place of a child, those counted in that a predecessor has left, or that a StatefulSet
        which is yet to be lowered may make. has_statefulset: of its own. began: with how many a rollout that
        goes on began; without one, nobody asks.
        """
        if has_statefulset and began is None:
            return 0
        metadata, most = child["metadata"], max(number_of(child, fields.REPLICAS), began or 0)
        return self._left_of(metadata["namespace"], metadata["name"], most)

    def _left_of(self, namespace: str, name: str, groups: int) -> int:
        """Number of existing or future groups of the children of this name, up to a count."""
        told = self._live_statefulset(namespace, name)
        still_wanted = wanted_replicas(told) if told is not None else 0
        return max(still_wanted, self._leaders_of(namespace, name, groups))

    def _leaders_of(self, namespace: str, name: str, groups: int) -> int:
        """Include leaders right above the recorded number: the status that recorded it may be stale."""
        there = 0
        for index in range(_MOST):
            pod = self._store.get("Pod", namespace, f"{name}-{index}")
            if index >= groups and (pod is None or labels_of(pod).get(CHILD_NAME_LABEL) != name):
                break
            there += pod is not None
        return there

    def _is_orphaned(self, namespace: str, name: str) -> bool:
        former = self._live_statefulset(namespace, name)
        return former is not None and controller_of(former) is None

    def _live_statefulset(self, namespace: str, name: str) -> Object | None:
        """The StatefulSet of the children of this name, unless it is terminating and creates no more pods."""
        found = self._store.get("StatefulSet", namespace, name)
        return found if found is not None and _is_of(found, name) and not is_terminating(found) else None


def _is_of(leaders: Object, name: str) -> bool:
    """Whether a StatefulSet was made for a child of this name: by its owner; without one, by its label."""
    owner = controller_of(leaders)
    if owner is None:
        return labels_of(leaders).get(CHILD_NAME_LABEL) == name
    return (owner.get("kind"), owner.get("name")) == (CHILD_KIND, name)
