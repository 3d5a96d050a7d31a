"""Read the revisions of a set, and the templates that run under keys that no revision records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from lws.history.revision import find
from lws.kube.metadata import (
    controller_of,
    is_controlled_by,
    is_mapping,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from lws.leaderworkerset.observe.membership import Membership
from lws.leaderworkerset.observe.recent_writes import WriteMemory
from lws.leaderworkerset.revisions.encoding import without_marker
from lws.leaderworkerset.revisions.history import Recorded, identified, is_ours
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import Running, claim_templates_of
from lws.leaderworkerset.revisions.shape import is_pod_template
from lws.leaderworkerset.snapshot import GroupFacts
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import CONTROLLER_REVISIONS
from lws.runtime.errors import NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL


class RevisionReader:
    """The history of sets; reads live only where a revision is missing."""

    def __init__(self, cluster: Cluster, store: Store, memory: WriteMemory, members: Membership) -> None:
        self._cluster = cluster
        self._store = store
        self._memory = memory
        self._members = members

    def recorded(self, lws: Object) -> tuple[Recorded, ...]:
        """Revisions that the set owns, whatever their labels, or may adopt."""
        owned = self._store.controlled_by(uid_of(lws), "ControllerRevision")
        labelled = self._labelled(lws, "ControllerRevision")
        parsed = (self._memory.parsed(revision) for revision in owned)
        orphans = ((obj, self._memory.parsed(obj)) for obj in labelled if controller_of(obj) is None)
        # What is broken was looked at once; that is enough.
        may_be_adopted = (found for each, found in orphans if not found.broken and is_ours(each, lws))
        # Of all groups, whichever is asked about: passes over a set and over its groups see the same history.
        return identified((*parsed, *may_be_adopted), lambda: self._carried(lws))

    def _labelled(self, owner: Object, kind: str) -> list[Object]:
        return self._store.labelled(NAME_LABEL, namespace_of(owner), name_of(owner), kind)

    def _carried(self, lws: Object) -> frozenset[str]:
        leader = self._store.get("StatefulSet", namespace_of(lws), name_of(lws))
        if leader is None:
            return self.left_keys(lws)
        if not is_controlled_by(leader, uid_of(lws)):
            return frozenset()
        return carried_keys(leader, self._members.groups_of(leader)) | self.reported_keys(leader)

    def taken(self, lws: Object) -> tuple[Object, ...]:
        """What has names that revisions of the set were to get, and is neither its own nor to be adopted."""
        return tuple(each for each in self._memory.taken.of_set(uid_of(lws)) if not is_ours(each, lws))

    def left_keys(self, lws: Object) -> frozenset[str]:
        """Keys of worker StatefulSets, whose leaders a StatefulSet that is lost may have left behind."""
        siblings = self._labelled(lws, "StatefulSet")
        return frozenset(key for sibling in siblings if (key := labels_of(sibling).get(REVISION_LABEL)))

    def knows_reported(self, leader: Object) -> bool:
        """Whether the store has every revision of its own that the leader StatefulSet reports."""
        namespace = leader["metadata"]["namespace"]
        return all(
            self._store.get("ControllerRevision", namespace, name) for name in _reported_revisions(leader)
        )

    def reported_keys(self, leader: Object) -> frozenset[str]:
        """Keys that leaders may come back with: those of the templates that their StatefulSet holds."""
        namespace = leader["metadata"]["namespace"]
        reported = (
            self._store.get("ControllerRevision", namespace, name) for name in _reported_revisions(leader)
        )
        own = (each for each in reported if each is not None and _is_of(leader, each))
        return frozenset(key for each in own if (key := key_of_template(each)))

    async def unrecorded(
        self, lws: Object, leader: Object, keys: Collection[str], first: Object | None = None
    ) -> tuple[Running, ...]:
        """What runs under those of the keys that no revision records.

        leader: the leader StatefulSet, controlled by the set. first: the worker StatefulSet to be looked at
        before any other.
        """
        if not self._missing(lws, keys):
            return ()
        listed = await self._list(lws)
        return tuple([await self._running(leader, key, listed, first) for key in self._missing(lws, keys)])

    def _missing(self, lws: Object, keys: Collection[str]) -> list[str]:
        recorded = self.recorded(lws)
        return [key for key in sorted(keys) if find(recorded, key) is None]

    async def _list(self, lws: Object) -> tuple[Object, ...]:
        """Every ControllerRevision of the namespace, whole; the store has those of the set from then on.

        A stream may be late, and it does not show what has lost its label. To take a revision for lost that
        is not would write a second one.
        """
        page = await self._cluster.list_page(CONTROLLER_REVISIONS, {}, namespace=namespace_of(lws))
        typed = {"apiVersion": CONTROLLER_REVISIONS.api_version, "kind": CONTROLLER_REVISIONS.kind}
        found = tuple({**typed, **item} for item in page.get("items") or ())
        for each in found:
            if is_ours(each, lws):
                self._store.put(each)
        return found

    async def _running(
        self, leader: Object, key: str, listed: Iterable[Object], first: Object | None
    ) -> Running:
        template = next((each for each in _templates(leader, listed) if _carries(each, key)), None)
        claims = claim_templates_of(leader) if template is not None else ()
        return Running(key, template, claims, await self._workers(leader, key, first))

    async def _workers(self, leader: Object, key: str, first: Object | None) -> Object | None:
        """The first worker StatefulSet of the key that is still there."""
        siblings = self._labelled(leader, "StatefulSet")
        known = [first] if first is not None else []
        for each in (*known, *sorted(siblings, key=_creation)):
            if key_of_template(each) == key and self._is_of_group(each, leader):
                live = await self._read(each)
                if live is not None:
                    return live
        return None

    async def _read(self, known: Object) -> Object | None:
        metadata = known["metadata"]
        try:
            live = await self._cluster.get(known["kind"], metadata["namespace"], metadata["name"])
        except NotFound:
            return None
        return live if live["metadata"]["uid"] == metadata["uid"] else None

    def _is_of_group(self, workers: Object, leader: Object) -> bool:
        """It is of a pod of this leader StatefulSet, by UID at each step."""
        owner = controller_of(workers)
        if owner is None or owner["kind"] != "Pod":
            return False
        pod = self._store.get("Pod", leader["metadata"]["namespace"], owner["name"])
        return pod is not None and pod["metadata"]["uid"] == owner["uid"] and _is_of(leader, pod)


def _reported_revisions(leader: Object) -> Iterator[str]:
    """Names of its own revisions that a StatefulSet makes pods from: its update's, and the one before."""
    status = leader.get("status") or {}
    yield from (name for field in ("currentRevision", "updateRevision") if (name := status.get(field)))


def _templates(leader: Object, listed: Iterable[Object]) -> Iterator[Object]:
    """Pod templates that leaders come back with."""
    yield leader["spec"]["template"]
    reported = frozenset(_reported_revisions(leader))
    for each in listed:
        if each["metadata"]["name"] in reported and _is_of(leader, each):
            template = _template_in(each.get("data"))
            if is_pod_template(template):
                yield without_marker(template)


def _template_in(data: Any) -> Any:
    """What a StatefulSet's own revision holds, whatever it is."""
    for part in ("spec", "template"):
        data = data.get(part) if is_mapping(data) else None
    return data


def _is_of(leader: Object, obj: Object) -> bool:
    return is_controlled_by(obj, leader["metadata"]["uid"])


def _carries(obj: Object, key: str) -> bool:
    return labels_of(obj).get(REVISION_LABEL) == key


def _creation(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp") or "", obj["metadata"]["name"]


def carried_keys(leader: Object | None, groups: Iterable[GroupFacts]) -> frozenset[str]:
    """Keys that the leader StatefulSet, leaders and worker StatefulSets carry."""
    keys = {key_of_template(leader)} if leader is not None else set()
    known = tuple(groups)
    keys.update([group.leader_key for group in known], [group.worker_key for group in known])
    return frozenset(key for key in keys if key)
