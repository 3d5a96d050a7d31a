"""Determine the identity of the pods of a group, whatever their labels and annotations were edited to.

Out: the group with its revision, its pods as they should be, and the edits that were found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lws.history.revision import find
from lws.kube.metadata import labels_of
from lws.leaderworkerset.group.labels import (
    PodMarks,
    edits_of,
    lacks_group,
    marks_of_leader,
    marks_of_worker,
    put_right,
    was_admitted,
    without_group,
)
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.observe.history import RevisionReader
from lws.leaderworkerset.observe.membership import Membership, own_workers
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import Origin, key_of_template, with_key
from lws.leaderworkerset.revisions.recovery import Running, reconstruct
from lws.leaderworkerset.spec import recorded_size
from lws.runtime.actions import Object
from lws.runtime.lookup import Lookup
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import REVISION_LABEL


@dataclass(frozen=True, slots=True)
class Identities:
    """Looks into the store; reads live only where a revision is missing, or a leader lacks what the pod
    webhook gives it.
    """

    store: Store
    members: Membership
    history: RevisionReader
    lookup: Lookup

    async def of_group(self, group: GroupSnapshot, leaders: Object, workers: Object | None) -> GroupSnapshot:
        """The group with all that tells who its pods are.

        leaders: the StatefulSet that controls its leader. workers: the StatefulSet of the leader's name,
        whosever it is.
        """
        pod, lws = group.leader, group.lws
        own = own_workers(pod, workers)
        pods = self.store.controlled_by(workers["metadata"]["uid"], "Pod") if workers is not None else []
        origin = self.members.origin_of(pod, leaders, own)
        revision, unrecorded = await self._revision(lws, leaders, origin, workers)
        # A label of a revision that there is stays until the StatefulSet controller shows that it is wrong.
        label = labels_of(pod).get(REVISION_LABEL, "")
        carried = find(self.history.recorded(lws), label)
        key = origin.key if origin.made is not None or carried is None else None
        size = _size(lws, revision, unrecorded)
        marks = await self._marks(pod, marks_of_leader(pod, key, size, leaders["spec"]["template"], own), own)
        leader = with_key(put_right(pod, marks), origin.key)
        of_workers = _marks_of_workers(leader, own, pods, size)
        return replace(
            group,
            leader=leader,
            revision=revision,
            unrecorded=unrecorded,
            is_shown=origin.is_shown,
            worker_statefulset=workers,
            workers=tuple(put_right(each, of_worker) for each, of_worker in of_workers),
            edited=edits_of(((pod, marks), *of_workers)),
        )

    async def _revision(
        self, lws: Object, leaders: Object, origin: Origin, workers: Object | None
    ) -> tuple[Recorded | None, Running | None]:
        """The revision of a leader pod; where none is recorded, what runs under its key."""
        key = origin.key or ""
        revision = find(self.history.recorded(lws), key)
        if revision is not None or not key:
            return revision, None
        found = await self.history.unrecorded(lws, leaders, [key], first=workers)
        # It may have been recorded meanwhile.
        return find(self.history.recorded(lws), key), found[0] if found else None

    async def _marks(self, pod: Object, marks: PodMarks, own: Object | None) -> PodMarks:
        """A leader that the pod webhook has never seen lacks more than labels, and must not look complete."""
        if own is not None or not lacks_group(pod):
            return marks
        whole = await self.lookup.reread(pod)
        return marks if whole is not None and was_admitted(whole) else without_group(marks)


def _size(lws: Object, revision: Recorded | None, unrecorded: Running | None) -> int | None:
    """Pods per group; None where neither a revision nor what runs says it."""
    if revision is not None:
        return recorded_size(revision.record.spec)
    made = reconstruct(lws, unrecorded) if unrecorded is not None else None
    return recorded_size(made.record.spec) if made is not None else None


def _marks_of_workers(
    leader: Object, workers: Object | None, pods: list[Object], size: int | None
) -> list[tuple[Object, PodMarks]]:
    if workers is None:
        return [(pod, PodMarks()) for pod in pods]
    is_same = key_of_template(workers) == labels_of(leader).get(REVISION_LABEL)
    return [(pod, marks_of_worker(pod, leader, workers, size if is_same else None)) for pod in pods]
