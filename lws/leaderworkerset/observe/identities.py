"""Determine the identity of the pods of a group, even if their labels and annotations were edited."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lws.history.revision import find
from lws.kube.metadata import labels_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.labels import (
    PodMarks,
    edits_of,
    lacks_group,
    marks_of_leader,
    marks_of_worker,
    own_workers,
    put_right,
    was_admitted,
    without_group,
)
from lws.leaderworkerset.observe.history import RevisionReader
from lws.leaderworkerset.observe.membership import Membership
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
    """Reads from the store, and live if a revision is missing or a leader lacks what the pod webhook adds."""

    store: Store
    members: Membership
    history: RevisionReader
    lookup: Lookup

    async def of_group(self, group: GroupSnapshot, leaders: Object, workers: Object | None) -> GroupSnapshot:
        """The group with its revision, its pods as they should be, and the edits to restore.

        leaders: the StatefulSet that controls its leader. workers: the StatefulSet with the name of the
        workers, regardless of owner.
        """
        pod, lws = group.leader, group.lws
        own = own_workers(pod, workers)
        pods = self.store.controlled_by(workers["metadata"]["uid"], "Pod") if workers is not None else []
        origin = self.members.origin_of(pod, leaders, own)
        revision, unrecorded = await self._revision(lws, leaders, origin, workers)
        # The label of a recorded revision remains until the StatefulSet controller shows that it is wrong.
        labelled = find(self.history.recorded(lws), labels_of(pod).get(REVISION_LABEL, ""))
        key = origin.key if origin.made is not None or labelled is None else None
        size = _size(lws, revision, unrecorded)
        marks = await self._marks(pod, marks_of_leader(pod, key, size, leaders["spec"]["template"], own), own)
        leader = with_key(put_right(pod, marks), origin.key)
        marks_by_worker = _marks_of_workers(leader, own, pods, size)
        return replace(
            group,
            leader=leader,
            revision=revision,
            unrecorded=unrecorded,
            is_shown=origin.is_shown,
            worker_statefulset=workers,
            workers=tuple(put_right(worker, worker_marks) for worker, worker_marks in marks_by_worker),
            edited=edits_of(((pod, marks), *marks_by_worker)),
        )

    async def _revision(
        self, lws: Object, leaders: Object, origin: Origin, workers: Object | None
    ) -> tuple[Recorded | None, Running | None]:
        """The revision of a leader pod; if none is recorded, the templates that run under its key."""
        key = origin.key or ""
        revision = find(self.history.recorded(lws), key)
        if revision is not None or not key:
            return revision, None
        unrecorded = await self.history.unrecorded(lws, leaders, [key], first=workers)
        # It may have been recorded meanwhile.
        return find(self.history.recorded(lws), key), unrecorded[0] if unrecorded else None

    async def _marks(self, pod: Object, marks: PodMarks, own: Object | None) -> PodMarks:
        """Leave out the group of a leader that the pod webhook has not mutated: it lacks more than labels,
        and must not look complete.
        """
        if own is not None or not lacks_group(pod):
            return marks
        live = await self.lookup.reread(pod)
        return marks if live is not None and was_admitted(live) else without_group(marks)


def _size(lws: Object, revision: Recorded | None, unrecorded: Running | None) -> int | None:
    """Pods per group; None if neither a revision nor running templates show it."""
    if revision is not None:
        return recorded_size(revision.record.spec)
    rebuilt = reconstruct(lws, unrecorded) if unrecorded is not None else None
    return recorded_size(rebuilt.record.spec) if rebuilt is not None else None


def _marks_of_workers(
    leader: Object, workers: Object | None, pods: list[Object], size: int | None
) -> list[tuple[Object, PodMarks]]:
    if workers is None:
        return [(pod, PodMarks()) for pod in pods]
    is_same = key_of_template(workers) == labels_of(leader).get(REVISION_LABEL)
    return [(pod, marks_of_worker(pod, leader, workers, size if is_same else None)) for pod in pods]
