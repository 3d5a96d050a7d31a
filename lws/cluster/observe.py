"""Which facts make a snapshot: everything that one pass needs, read before its first decision.

In: a key, the store, and the API server for what the store cannot know. Out: a snapshot, or None if there is
nothing to decide about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from lws.actions import Object
from lws.cluster.connection import Cluster
from lws.cluster.errors import NotFound
from lws.cluster.gaps import has_orphans, is_incomplete, lacks_start_ordinal
from lws.cluster.group_memory import GroupMemory
from lws.cluster.history import History, carried_keys
from lws.cluster.leaving import Leaving
from lws.cluster.memory import WriteMemory
from lws.cluster.owners import Owners
from lws.cluster.shortages import Shortage, Shortages
from lws.cluster.store import Store
from lws.group.gang import GangProvider
from lws.group.identity import group_size_of
from lws.group.incident import incident_of
from lws.group.placement import is_placed
from lws.group.snapshot import GroupSnapshot
from lws.kube.metadata import annotations_of, controller_of, is_controlled_by, is_terminating, labels_of
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import NodeLossPolicy
from lws.kube.pods import is_ready
from lws.leaderworkerset import spec
from lws.leaderworkerset.backfill import Running
from lws.leaderworkerset.revisions import find
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.storage import claims_of
from lws_api.leaderworkerset.v1 import (
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    SUBDOMAIN_POLICY_ANNOTATION,
    SubdomainPolicy,
)

# What was refused is tried again by whoever met it, and a success wakes nobody.
_REFUSED_SECONDS = 30.0


class Observer:
    """Makes snapshots from the store; reads live only where a stranger or an orphan may be in the way."""

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        memory: WriteMemory,
        node_loss: NodeLossPolicy | None = None,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._memory = memory
        self._node_loss = node_loss or NodeLossPolicy()
        self._leaving = Leaving(cluster, store)
        self._owners = Owners(store)
        self._history = History(cluster, store, memory)
        self._groups = GroupMemory()
        self._shortages = Shortages(cluster)
        self.gang: GangProvider | None = None
        """Who schedules groups as a whole; None for nobody, or as long as its API is not there."""

    async def observe_set(self, namespace: str, name: str, now: datetime) -> SetSnapshot | None:
        """Everything about one set; None if there is no such set."""
        lws = self._store.get(KIND, namespace, name)
        if lws is None:
            self._shortages.forget(namespace, name)
            return None
        uid = spec.uid_of(lws)
        leader = await self._named("StatefulSet", namespace, name, uid, look_when_absent=True)
        service = await self._named("Service", namespace, name, uid)
        budget = await self._named("PodDisruptionBudget", namespace, name, uid)
        groups = self._group_facts(leader) if leader is not None and is_controlled_by(leader, uid) else ()
        keys = carried_keys(leader, groups)
        unrecorded: tuple[Running, ...] = ()
        if leader is not None and is_controlled_by(leader, uid):
            unrecorded = await self._history.unrecorded(lws, leader, keys)
            keys |= self._history.held_keys(leader)
        revisions = self._history.recorded(lws)
        named = (leader, service, budget)
        reread: Object | None = None
        is_short = is_incomplete(lws, *named) or not revisions or bool(unrecorded)
        if is_short or has_orphans(named, revisions):
            # What is made or adopted now would be made in vain for a set whose end the stream has missed.
            reread = await self._reread(lws)
            if reread is None or spec.uid_of(reread) != uid:
                self._store.drop(lws)
                return None
        shortage = await self._shortage(lws, leader, groups, now)
        leaving = self._leaving.of_set(lws)
        return SetSnapshot(
            lws=lws,
            now=now,
            leader=leader,
            service=service,
            disruption_budget=budget,
            groups=groups,
            revisions=revisions,
            live_keys=keys,
            unrecorded=unrecorded,
            claims=tuple(self._store.labelled(namespace, name, "PersistentVolumeClaim"))
            if claims_of(lws)
            else (),
            owners_alive=self._owners.alive(leader, service, budget),
            reread=reread,
            applied=self._memory.applied.get(leader["metadata"]["uid"]) if leader is not None else None,
            drops_start_ordinal=self._memory.drops_start_ordinal or any(map(lacks_start_ordinal, groups)),
            obstructions=shortage.obstructions,
            look_again=shortage.look_again,
            status_age=self._memory.age(uid),
            leader_age=self._memory.age(leader["metadata"]["uid"]) if leader is not None else None,
            leaving=leaving,
            nodes=await self._leaving.nodes(leaving, now),
            node_loss=self._node_loss,
        )

    async def _shortage(
        self, lws: Object, leader: Object | None, groups: Iterable[GroupFacts], now: datetime
    ) -> Shortage:
        """What the API server refuses, to us or to the controller of the set's StatefulSets."""
        namespace, name = spec.namespace_of(lws), spec.name_of(lws)
        is_ours = leader is not None and is_controlled_by(leader, spec.uid_of(lws))
        candidates = (leader if is_ours else None, *(group.workers for group in groups))
        statefulsets = [each for each in candidates if each is not None]
        short = await self._shortages.of_set(namespace, name, statefulsets, now)
        refused = self._memory.refusals.of_set(namespace, name)
        if not refused:
            return short
        return Shortage((*refused, *short.obstructions), _REFUSED_SECONDS)

    async def observe_group(self, namespace: str, name: str, now: datetime) -> GroupSnapshot | None:
        """Everything about the group of one leader pod; None without such a pod or a set that owns it."""
        leader = self._store.get("Pod", namespace, name)
        lws = self._set_of_leader(leader) if leader is not None else None
        if leader is None or lws is None:
            self._groups.forget(namespace, name)
            return None
        leaving = self._leaving.of_group(leader)
        nodes, loss = await self._leaving.nodes(leaving, now), self._node_loss
        if is_terminating(leader) or is_terminating(lws):
            # All that is decided about a group that goes is whether it can, and its going is many events.
            return GroupSnapshot(lws, leader, now, leaving=leaving, nodes=nodes, node_loss=loss)
        uid = leader["metadata"]["uid"]
        workers = await self._named("StatefulSet", namespace, name, uid)
        service = await self._named("Service", namespace, name, uid)
        pods = self._store.controlled_by(workers["metadata"]["uid"], "Pod") if workers is not None else []
        pod_group = await self._pod_group(leader)
        named = (workers, service, pod_group)
        orphaned = any(obj is not None and controller_of(obj) is None for obj in named)
        key = labels_of(leader).get(REVISION_LABEL, "")
        revision = find(self._history.recorded(lws), key)
        unrecorded = None
        if revision is None:
            unrecorded = await self._unrecorded(lws, key, workers)
            revision = find(self._history.recorded(lws), key)
        snapshot = GroupSnapshot(
            lws=lws,
            leader=leader,
            now=now,
            revision=revision,
            unrecorded=unrecorded,
            worker_statefulset=workers,
            workers=tuple(pods),
            service=service,
            owners_alive=self._owners.alive(*named),
            node=await self._node_of(leader)
            if workers is None and is_placed(lws, revision, leader)
            else None,
            reread=await self._reread(leader) if orphaned else None,
            gang=self.gang,
            pod_group=pod_group,
            drops_start_ordinal=self._memory.drops_start_ordinal,
            leaving=leaving,
            nodes=nodes,
            node_loss=loss,
        )
        size = _size(snapshot)
        found = self._groups.with_losses(snapshot, size)
        leaders = self._store.get("StatefulSet", namespace, spec.name_of(lws))
        if leaders is None or incident_of(found, size) is None:
            return found
        key = labels_of(leaders).get(REVISION_LABEL, "")
        return replace(found, siblings=self._group_facts(leaders), wanted_key=key)

    def leader_pods_of(self, lws: Object) -> list[Object]:
        """Leader pods of a set, in no order."""
        leader = self._store.get("StatefulSet", spec.namespace_of(lws), spec.name_of(lws))
        if leader is None or not is_controlled_by(leader, spec.uid_of(lws)):
            return []
        return self._store.controlled_by(leader["metadata"]["uid"], "Pod")

    async def _named(
        self, kind: str, namespace: str, name: str, owner_uid: str, look_when_absent: bool = False
    ) -> Object | None:
        """The object of this name. Ours come from the store; what may be a stranger is read live, because
        the streams are narrowed by label and do not show strangers.
        """
        known = self._store.get(kind, namespace, name)
        if known is None and not look_when_absent:
            return None
        if known is not None and is_controlled_by(known, owner_uid) and NAME_LABEL in labels_of(known):
            return known
        try:
            live = await self._cluster.get(kind, namespace, name)
        except NotFound:
            if known is not None:
                self._store.drop(known)
            return None
        self._store.put(live)
        return self._store.get(kind, namespace, name)

    def _group_facts(self, leader: Object) -> tuple[GroupFacts, ...]:
        facts = []
        for pod in self._store.controlled_by(leader["metadata"]["uid"], "Pod"):
            metadata = pod["metadata"]
            parent, index = parent_and_ordinal(metadata["name"])
            if parent != leader["metadata"]["name"] or index < 0:
                continue
            workers = self._store.get("StatefulSet", metadata["namespace"], metadata["name"])
            is_its_own = workers is not None and is_controlled_by(workers, metadata["uid"])
            facts.append(
                GroupFacts(
                    index=index,
                    leader=pod,
                    workers=workers if is_its_own else None,
                    obstacle=self._obstacle(pod, workers),
                    worker_uids=self._worker_uids(workers) if is_its_own else (),
                    going=metadata["uid"] in self._memory.going,
                )
            )
        return tuple(sorted(facts, key=lambda group: group.index))

    def _worker_uids(self, workers: Object | None) -> tuple[str, ...]:
        pods = self._store.controlled_by(workers["metadata"]["uid"], "Pod") if workers is not None else []
        return tuple(pod["metadata"]["uid"] for pod in pods if is_ready(pod) and not is_terminating(pod))

    def _obstacle(self, pod: Object, workers: Object | None) -> Object | None:
        """Whatever of a stranger has a name that the group of this leader pod needs."""
        named = [workers]
        if annotations_of(pod).get(SUBDOMAIN_POLICY_ANNOTATION) == SubdomainPolicy.UNIQUE_PER_REPLICA:
            named.append(self._store.get("Service", pod["metadata"]["namespace"], pod["metadata"]["name"]))
        uid = pod["metadata"]["uid"]
        strangers = (
            each
            for each in named
            if each is not None and not is_controlled_by(each, uid) and self._owners.is_foreign(each)
        )
        return next(strangers, None)

    def _set_of_leader(self, leader: Object) -> Object | None:
        """The set that owns the StatefulSet that owns the pod, by UID at each step."""
        owner = controller_of(leader)
        if owner is None or owner["kind"] != "StatefulSet":
            return None
        namespace = leader["metadata"]["namespace"]
        statefulset = self._store.get("StatefulSet", namespace, owner["name"])
        lws = self._store.get(KIND, namespace, owner["name"])
        if statefulset is None or lws is None or statefulset["metadata"]["uid"] != owner["uid"]:
            return None
        return lws if is_controlled_by(statefulset, spec.uid_of(lws)) else None

    async def _unrecorded(self, lws: Object, key: str, workers: Object | None) -> Running | None:
        """What a leader pod and its workers run under a key that no revision records."""
        leader = self._store.get("StatefulSet", spec.namespace_of(lws), spec.name_of(lws))
        if not key or leader is None:
            return None
        found = await self._history.unrecorded(lws, leader, [key], first=workers)
        return found[0] if found else None

    async def _node_of(self, pod: Object) -> Object | None:
        name = pod["spec"].get("nodeName")
        try:
            return await self._cluster.get("Node", "", name) if name else None
        except NotFound:
            return None

    async def _pod_group(self, leader: Object) -> Object | None:
        metadata = leader["metadata"]
        if self.gang is None:
            return None
        name = self.gang.name_of(labels_of(leader))
        return await self._named("PodGroup", metadata["namespace"], name, metadata["uid"])

    async def _reread(self, obj: Object) -> Object | None:
        try:
            return await self._cluster.get(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
        except NotFound:
            return None


def _size(group: GroupSnapshot) -> int:
    """Pods that the group has when it is complete, by its own revision or what else tells."""
    if group.revision is not None:
        return spec.recorded_size(group.revision.spec)
    told = group_size_of(group.leader)
    return told if told is not None else spec.size_of(group.lws)
