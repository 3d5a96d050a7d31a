"""Read the revisions of a set, and the templates that run under unrecorded keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lws.history.revision import find
from lws.kube.metadata import (
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from lws.kube.statefulsets import current_revision_of, update_revision_of
from lws.leaderworkerset.fields import value_at
from lws.leaderworkerset.observe.membership import Membership, leaders_of
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.pod_identity import is_leader
from lws.leaderworkerset.revisions.encoding import without_marker
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.reading import identified, is_ours
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
    """Read revisions from the store, or live if a revision is missing."""

    def __init__(self, cluster: Cluster, store: Store, writes: SetWrites, members: Membership) -> None:
        self._cluster = cluster
        self._store = store
        self._writes = writes
        self._members = members

    def recorded(self, lws: Object) -> tuple[Recorded, ...]:
        """Return the revisions that the set owns, regardless of their labels, or may adopt."""
        owned = self._store.controlled_by(uid_of(lws), "ControllerRevision")
        labelled = self._labelled(lws, "ControllerRevision")
        parsed = (self._writes.parsed(revision) for revision in owned)
        orphans = ((obj, self._writes.parsed(obj)) for obj in labelled if controller_of(obj) is None)
        # `is_ours` is only called for usable revisions: it would check broken data again.
        adoptable = (revision for obj, revision in orphans if not revision.broken and is_ours(obj, lws))
        # Identified by the keys of all groups, so that passes over a set and over its groups see the same
        # history.
        return identified((*parsed, *adoptable), lambda: self._live_keys(lws))

    def _labelled(self, owner: Object, kind: str) -> list[Object]:
        return self._store.labelled(NAME_LABEL, namespace_of(owner), name_of(owner), kind)

    def _live_keys(self, lws: Object) -> frozenset[str]:
        leaders = leaders_of(self._store, lws)
        if leaders is None:
            return self.worker_keys(lws) | self.left_keys(lws)
        if not is_controlled_by(leaders, uid_of(lws)):
            return frozenset()
        return carried_keys(leaders, self._members.groups_of(leaders)) | self.reported_keys(leaders)

    def foreign_revisions(self, lws: Object) -> tuple[Object, ...]:
        """Return ControllerRevisions of other owners that have names for revisions of the set."""
        return tuple(obj for obj in self._writes.taken.of_set(uid_of(lws)) if not is_ours(obj, lws))

    def worker_keys(self, lws: Object) -> frozenset[str]:
        """Return the keys of worker StatefulSets, which leaders of a lost StatefulSet may still own."""
        statefulsets = self._labelled(lws, "StatefulSet")
        return frozenset(key for obj in statefulsets if (key := labels_of(obj).get(REVISION_LABEL)))

    def left_keys(self, lws: Object) -> frozenset[str]:
        """Return the keys of live leaders that a lost StatefulSet may have left. Groups of one pod have no
        workers that show the key.
        """
        pods = self._store.labelled_pods(NAME_LABEL, namespace_of(lws), name_of(lws))
        left = (labels_of(pod) for pod in pods if is_leader(pod) and not is_terminating(pod))
        return frozenset(key for labels in left if (key := labels.get(REVISION_LABEL)))

    def knows_reported(self, leaders: Object) -> bool:
        """Return whether the store has every revision that the leader StatefulSet reports in its status."""
        if leaders["kind"] == "Deployment":
            return True
        return None not in self._reported(leaders)

    def reported_keys(self, leaders: Object) -> frozenset[str]:
        """Return the keys that leaders may be recreated with: the keys of the two templates of their
        StatefulSet, or of the ReplicaSets with replicas.
        """
        if leaders["kind"] == "Deployment":
            replica_sets = self._store.owned_by(uid_of(leaders), "ReplicaSet")
            active = (obj for obj in replica_sets if (obj.get("spec") or {}).get("replicas") != 0)
            return frozenset(key for obj in active if (key := key_of_template(obj)))
        reported, uid = self._reported(leaders), uid_of(leaders)
        own = (obj for obj in reported if obj is not None and is_controlled_by(obj, uid))
        return frozenset(key for obj in own if (key := key_of_template(obj)))

    def _reported(self, leaders: Object) -> list[Object | None]:
        """Read the revisions that the leader StatefulSet reports in its status; None for a missing one."""
        namespace = namespace_of(leaders)
        return [
            self._store.get("ControllerRevision", namespace, name) for name in _reported_revisions(leaders)
        ]

    async def unrecorded(
        self, lws: Object, leaders: Object, keys: Collection[str], first: Object | None = None
    ) -> tuple[Running, ...]:
        """Return the running templates for those of the given keys that have no recorded revision.
        leaders: the leader StatefulSet, controlled by the set. first: the worker StatefulSet to try first.
        """
        if not self._missing(lws, keys):
            return ()
        listed = await self._list(lws)
        return tuple([await self._running(leaders, key, listed, first) for key in self._missing(lws, keys)])

    def _missing(self, lws: Object, keys: Collection[str]) -> list[str]:
        recorded = self.recorded(lws)
        return [key for key in sorted(keys) if find(recorded, key) is None]

    async def _list(self, lws: Object) -> tuple[Object, ...]:
        """List every ControllerRevision of the namespace, untrimmed, and put the set's own into the store. A
        watch may lag, and does not show objects that have lost their label. Without this list, a revision
        that is only missing from the store would be recorded twice.
        """
        page = await self._cluster.list_page(CONTROLLER_REVISIONS, {}, namespace=namespace_of(lws))
        typed = {"apiVersion": CONTROLLER_REVISIONS.api_version, "kind": CONTROLLER_REVISIONS.kind}
        revisions = tuple({**typed, **item} for item in page.get("items") or ())
        for revision in revisions:
            if is_ours(revision, lws):
                self._store.put(revision)
        return revisions

    async def _running(
        self, leaders: Object, key: str, listed: Iterable[Object], first: Object | None
    ) -> Running:
        templates = _templates(leaders, listed)
        template = next((obj for obj in templates if labels_of(obj).get(REVISION_LABEL) == key), None)
        claims = claim_templates_of(leaders) if template is not None else ()
        return Running(key, template, claims, await self._workers(leaders, key, first))

    async def _workers(self, leaders: Object, key: str, first: Object | None) -> Object | None:
        """Return the first worker StatefulSet of the key that still exists, read live. A pod of this leader
        StatefulSet must control it, by UID at each step.
        """
        leader_uids = {group.uid for group in self._members.groups_of(leaders)}
        statefulsets = sorted(
            self._labelled(leaders, "StatefulSet"),
            key=lambda obj: (obj["metadata"].get("creationTimestamp") or "", name_of(obj)),
        )
        for workers in (*([first] if first is not None else []), *statefulsets):
            owner_uid = (controller_of(workers) or {}).get("uid")
            if key_of_template(workers) == key and owner_uid in leader_uids:
                live = await self._read(workers)
                if live is not None:
                    return live
        return None

    async def _read(self, stored: Object) -> Object | None:
        metadata = stored["metadata"]
        try:
            live = await self._cluster.get(stored["kind"], metadata["namespace"], metadata["name"])
        except NotFound:
            return None
        return live if live["metadata"]["uid"] == metadata["uid"] else None


def _reported_revisions(leaders: Object) -> list[str]:
    """Return the names of the revisions that a StatefulSet creates pods from: current and update revision."""
    return [name for name in (current_revision_of(leaders), update_revision_of(leaders)) if name]


def _templates(leaders: Object, listed: Iterable[Object]) -> Iterator[Object]:
    """Yield the pod templates that leaders are recreated from."""
    yield leaders["spec"]["template"]
    reported = _reported_revisions(leaders)
    for revision in listed:
        if revision["metadata"]["name"] in reported and is_controlled_by(revision, uid_of(leaders)):
            template = value_at(revision, ("data", "spec", "template"))
            if is_pod_template(template):
                yield without_marker(template)


def carried_keys(leaders: Object | None, groups: Iterable[GroupFacts]) -> frozenset[str]:
    """Return the keys of the leader StatefulSet, leaders and worker StatefulSets."""
    keys = {key_of_template(leaders)} if leaders is not None else set()
    keys |= {key for group in groups for key in (group.leader_key, group.worker_key)}
    return frozenset(key for key in keys if key)
