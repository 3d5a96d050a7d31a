"""Which facts make a snapshot: everything that one pass needs, read before its first decision.

In: a key, the store, and the API server for what the store cannot know. Out: a snapshot, or None if there is
nothing to decide about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from lws import timing
from lws.kube.metadata import is_controlled_by, is_terminating, name_of, namespace_of, uid_of
from lws.kube.nodes import NodeLossPolicy
from lws.leaderworkerset import fields
from lws.leaderworkerset.assessment.likeness import may_be_adopted
from lws.leaderworkerset.children.disruption_budget import wants_disruption_budget
from lws.leaderworkerset.children.services import leader_service_name
from lws.leaderworkerset.group.failures import incident_of
from lws.leaderworkerset.group.gangs import GangProvider
from lws.leaderworkerset.group.placement import is_placed
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.observe.failed_creates import NOBODY, Beside, FailedCreates, Shortage, Shortages
from lws.leaderworkerset.observe.history import RevisionReader, carried_keys
from lws.leaderworkerset.observe.identities import Identities
from lws.leaderworkerset.observe.membership import Membership, Owners
from lws.leaderworkerset.observe.recent_writes import WriteMemory
from lws.leaderworkerset.observe.replaced_pods import GroupMemory
from lws.leaderworkerset.observe.terminating_pods import Leaving
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import Running
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.tables import LEADER_WORKER_SET
from lws.leaderworkerset.templates.claims import claims_of
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.lookup import Lookup
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL, SubdomainPolicy


@dataclass(frozen=True, slots=True)
class _Children:
    """What carries a name that a set gives, regardless of owner; and its own groups and revisions."""

    leader: Object | None
    service: Object | None
    leader_service: Object | None
    disruption_budget: Object | None
    groups: tuple[GroupFacts, ...]
    revisions: tuple[Recorded, ...]
    live_keys: frozenset[str]
    knows_live_keys: bool
    unrecorded: tuple[Running, ...]

    @property
    def leader_uid(self) -> str:
        return self.leader["metadata"]["uid"] if self.leader is not None else ""

    @property
    def named(self) -> Named:
        return (self.leader, self.service, self.disruption_budget, self.leader_service)


async def _everywhere(namespace: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Environment:
    """What a snapshot depends on beside objects. covers: whether the pod webhook sees pods of a namespace.
    gang: who schedules groups as a whole; None for nobody, or as long as its API is not there. beside: who
    does what no pass waits for.
    """

    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy)
    covers: Callable[[str], Awaitable[bool]] = _everywhere
    gang: Callable[[], GangProvider | None] = lambda: None
    beside: Beside = NOBODY


class Observer:
    """Makes snapshots from the store; reads live only where a stranger or an orphan may be in the way."""

    def __init__(
        self, cluster: Cluster, store: Store, memory: WriteMemory, environment: Environment | None = None
    ) -> None:
        self._store = store
        self._memory = memory
        self._environment = environment or Environment()
        self._leaving = Leaving(cluster, store)
        self._owners = Owners(store, LEADER_WORKER_SET)
        self._lookup = Lookup(cluster, store, LEADER_WORKER_SET.label)
        self.members = Membership(store, memory.going)
        """Which pods make up groups, as far as the store knows."""
        self._history = RevisionReader(cluster, store, memory, self.members)
        self._identities = Identities(store, self.members, self._history, self._lookup)
        self._groups = GroupMemory(store.last_disrupted)
        self._shortages = Shortages(FailedCreates(cluster, self._environment.beside))

    def forget(self, obj: Object) -> None:
        """There is no such object any more."""
        self.members.forget(obj)

    async def observe_set(self, namespace: str, name: str, now: datetime) -> SetSnapshot | None:
        """Everything about one set; None if there is no such set."""
        lws = self._store.get(KIND, namespace, name)
        if lws is None:
            self._shortages.forget(namespace, name)
            return None
        if is_terminating(lws):
            # The garbage collector takes it down: there is nothing to decide.
            return SetSnapshot(lws, now)
        if fault := self._memory.fault_of(lws):
            return SetSnapshot(lws=lws, now=now, fault=fault)
        if why_left_alone(lws, covered := await self._environment.covers(namespace)) is not None:
            return SetSnapshot(lws, now, is_covered=covered)
        return await self._observe_whole_set(lws, now)

    async def _observe_whole_set(self, lws: Object, now: datetime) -> SetSnapshot | None:
        """The set with all that it is made of."""
        children = await self._children(lws)
        # The set may be deleted already: nothing is created or adopted for it before a live read.
        in_doubt = has_gaps(lws, children.named, children.revisions) or bool(children.unrecorded)
        reread = await self._lookup.reread(lws) if in_doubt else None
        if in_doubt and (reread is None or is_terminating(reread)):
            return SetSnapshot(reread, now) if reread is not None else None
        shortage = self._shortage(lws, children, now)
        leaving = self._leaving.of_set(lws)
        return SetSnapshot(
            lws=lws,
            now=now,
            leader=children.leader,
            service=children.service,
            leader_service=children.leader_service,
            disruption_budget=children.disruption_budget,
            groups=children.groups,
            revisions=children.revisions,
            live_keys=children.live_keys,
            knows_live_keys=children.knows_live_keys,
            taken=self._history.taken(lws),
            unrecorded=children.unrecorded,
            claims=self._claims(lws),
            owners_alive=self._owners.alive(*children.named),
            reread=reread,
            applied=self._memory.applied.get(children.leader_uid),
            drops_start_ordinal=self._memory.drops_start_ordinal,
            obstructions=shortage.obstructions,
            look_again=shortage.look_again,
            refused_at=shortage.refused_at,
            leaders_refused=self._memory.refusals.of_leaders(namespace_of(lws), name_of(lws)),
            leaving=leaving,
            nodes=await self._leaving.nodes(leaving, now),
            node_loss=self._environment.node_loss,
        )

    async def _children(self, lws: Object) -> _Children:
        namespace, name, uid = namespace_of(lws), name_of(lws), uid_of(lws)
        leader = await self._lookup.named("StatefulSet", namespace, name, uid, look_when_absent=True)
        is_ours = leader is not None and is_controlled_by(leader, uid)
        groups = await self._groups_of(leader) if leader is not None and is_ours else ()
        live_keys, unrecorded = await self._keys(lws, leader, groups)
        return _Children(
            leader=leader,
            service=await self._lookup.named("Service", namespace, name, uid),
            leader_service=await self._leader_service(lws),
            disruption_budget=await self._lookup.named("PodDisruptionBudget", namespace, name, uid),
            groups=groups,
            # After those that are not: they may be recorded meanwhile.
            revisions=self._history.recorded(lws),
            live_keys=live_keys,
            knows_live_keys=leader is None or self._history.knows_reported(leader),
            unrecorded=unrecorded,
        )

    async def _groups_of(self, leader: Object) -> tuple[GroupFacts, ...]:
        groups = self.members.groups_of(leader)
        hidden = [
            group for group in groups if group.workers is None and self.members.hides_workers(group.leader)
        ]
        for each in hidden:
            place = each.leader["metadata"]
            await self._lookup.named(
                "StatefulSet", place["namespace"], place["name"], "", look_when_absent=True
            )
        return self.members.groups_of(leader) if hidden else groups

    async def _leader_service(self, lws: Object) -> Object | None:
        """Where the set asks for none, only its own is of interest."""
        namespace, name = namespace_of(lws), leader_service_name(name_of(lws))
        known = self._store.get("Service", namespace, name)
        is_own = known is not None and is_controlled_by(known, uid_of(lws))
        if fields.LEADER_SERVICE.of(lws) is None and not is_own:
            return None
        return await self._lookup.named("Service", namespace, name, uid_of(lws))

    async def _keys(
        self, lws: Object, leader: Object | None, groups: Iterable[GroupFacts]
    ) -> tuple[frozenset[str], tuple[Running, ...]]:
        """Keys that something of the set carries or comes back with, and what runs under unrecorded ones."""
        keys = carried_keys(leader, groups)
        if leader is None:
            return keys | self._history.left_keys(lws), ()
        if not is_controlled_by(leader, uid_of(lws)):
            return keys, ()
        unrecorded = await self._history.unrecorded(lws, leader, keys)
        return keys | self._history.reported_keys(leader), unrecorded

    def _claims(self, lws: Object) -> tuple[Object, ...]:
        if not claims_of(lws):
            return ()
        place = (namespace_of(lws), name_of(lws))
        return tuple(self._store.labelled(NAME_LABEL, *place, "PersistentVolumeClaim"))

    def _shortage(self, lws: Object, children: _Children, now: datetime) -> Shortage:
        """What the API server refuses, to us or to the controller of the set's StatefulSets."""
        namespace, name, leader = namespace_of(lws), name_of(lws), children.leader
        is_ours = leader is not None and is_controlled_by(leader, uid_of(lws))
        workers = (group.workers for group in children.groups if group.workers_short)
        candidates = (leader if is_ours else None, *workers)
        statefulsets = [candidate for candidate in candidates if candidate is not None]
        short = self._shortages.of_set(namespace, name, statefulsets, now)
        refused = self._memory.refusals.of_set(namespace, name)
        if not refused:
            return short
        obstructions = (*refused, *short.obstructions)
        return replace(short, obstructions=obstructions, look_again=timing.LOOK_AGAIN_SECONDS)

    async def observe_group(self, namespace: str, name: str, now: datetime) -> GroupSnapshot | None:
        """Everything about the group of a leader pod; None without it, or a readable set that owns it."""
        leader = self._store.get("Pod", namespace, name)
        lws = self.members.set_of_leader(leader) if leader is not None else None
        leaders = self._store.get("StatefulSet", namespace, name_of(lws)) if lws is not None else None
        if leader is None or lws is None or leaders is None or self._memory.fault_of(lws):
            self._groups.forget(namespace, name)
            return None
        if why_left_alone(lws, covered := await self._environment.covers(namespace)) is not None:
            return GroupSnapshot(lws, leader, now, is_covered=covered)
        leaving = self._leaving.of_group(leader)
        nodes, loss = await self._leaving.nodes(leaving, now), self._environment.node_loss
        # All that is decided about a group that goes is whether it can, and its going is many events.
        going = GroupSnapshot(lws, leader, now, leaving=leaving, nodes=nodes, node_loss=loss)
        if is_terminating(leader) or is_terminating(lws):
            return going
        uid = leader["metadata"]["uid"]
        is_hidden = self.members.hides_workers(leader)
        workers = await self._lookup.named("StatefulSet", namespace, name, uid, look_when_absent=is_hidden)
        group = await self._identities.of_group(going, leaders, workers)
        service = await self._lookup.named("Service", namespace, name, uid)
        pod_group = await self._pod_group(group.leader)
        named = (workers, service, pod_group)
        orphaned = any(obj is not None and may_be_adopted(obj) for obj in named)
        reread = await self._lookup.reread(leader) if orphaned else None
        if orphaned and (reread is None or is_terminating(reread)):
            return replace(going, leader=reread) if reread is not None else None
        is_placing = workers is None and is_placed(lws, group.revision, leader)
        snapshot = replace(
            group,
            service=service,
            owners_alive=self._owners.alive(*named),
            node=await self._lookup.node_of(leader) if is_placing else None,
            reread=reread,
            gang=self._environment.gang(),
            pod_group=pod_group,
            drops_start_ordinal=self._memory.drops_start_ordinal,
        )
        return self._with_losses(self._with_former_workers(snapshot), leaders)

    def _with_former_workers(self, snapshot: GroupSnapshot) -> GroupSnapshot:
        """Who has the names that the workers of a new group need."""
        if snapshot.worker_statefulset is not None:
            return snapshot
        found = self._leaving.former_workers(snapshot.leader, snapshot.size)
        return replace(snapshot, former_workers=found) if found else snapshot

    def _with_losses(self, snapshot: GroupSnapshot, leaders: Object) -> GroupSnapshot:
        """What is remembered of its workers; where that costs the group, how its siblings stand."""
        size = snapshot.size
        found = self._groups.with_losses(snapshot, size)
        # The plan judges it anew. Always to look at the siblings would cost 1.4 ms a pass where there are
        # 1,000 groups: seven times what the rest of it costs.
        if incident_of(found, size) is None:
            return found
        key = key_of_template(leaders) or ""
        return replace(found, siblings=self.members.groups_of(leaders), wanted_key=key)

    async def _pod_group(self, leader: Object) -> Object | None:
        metadata = leader["metadata"]
        gang = self._environment.gang()
        name = gang.name_of(leader) if gang is not None else ""
        if not name:
            return None
        return await self._lookup.named("PodGroup", metadata["namespace"], name, metadata["uid"])


# --- Report whether objects of a set are still to be created, recorded or adopted. If so, the set is first
# read from the API server instead of the cache.


Named = tuple[Object | None, Object | None, Object | None, Object | None]


def has_gaps(lws: Object, named: Named, revisions: Collection[Recorded]) -> bool:
    """Whether anything is still to be created, recorded or adopted.

    named: leader StatefulSet, Service, budget, Service of the leaders.
    """
    return is_incomplete(lws, *named) or not revisions or has_orphans(named, revisions)


def has_orphans(objects: Iterable[Object | None], revisions: Iterable[Recorded]) -> bool:
    """Whether the set may adopt any of these."""
    if any(obj is not None and may_be_adopted(obj) for obj in objects):
        return True
    return any(recorded.is_orphan for recorded in revisions)


def is_incomplete(
    lws: Object,
    leader: Object | None,
    service: Object | None,
    budget: Object | None,
    of_leaders: Object | None = None,
) -> bool:
    """Whether an object of the set is still to be created. of_leaders: the Service of its leaders."""
    spec = SetSpec.of(lws)
    needs_service = spec.subdomain_policy == SubdomainPolicy.SHARED
    lacks_budget = budget is None and wants_disruption_budget(spec)
    lacks_of_leaders = of_leaders is None and spec.leader_service is not None
    return leader is None or (service is None and needs_service) or lacks_budget or lacks_of_leaders
