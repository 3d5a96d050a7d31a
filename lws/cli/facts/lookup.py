"""What is there: one set with everything that belongs to it, read from the API server at one go.

In: a session and a name. Out: the snapshots that the controller would decide from; a `Refusal` that names
close names if there is no such set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lws.cli.facts.names import find
from lws.cli.refusal import Refusal, Unreadable
from lws.cli.session import Session
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.observe.observer import Observer
from lws.leaderworkerset.observe.recent_writes import WriteMemory
from lws.leaderworkerset.revisions.shape import readable_status, spec_fault
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Object
from lws.runtime.errors import Forbidden
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET, NAME_LABEL, WORKER_INDEX_LABEL


@dataclass(frozen=True, slots=True)
class SetObjects:
    """One set.

    lws: the set, whole. groups: what the controller would decide about each group from, by index of the
    group. unknown: groups of which that is not known, with what the API server says against it: the node of
    a leader, say, is nothing that everybody may see. pods: whole, by name. revisions: ControllerRevisions
    with its label, regardless of owner.
    """

    lws: Object
    snapshot: SetSnapshot
    groups: Mapping[int, GroupSnapshot]
    pods: Mapping[str, Object]
    revisions: tuple[Object, ...]
    unknown: Mapping[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.lws["metadata"]["name"])


async def find_set(session: Session, name: str) -> Object:
    """The set of this name, of its status what can be read."""
    return _readable(await find(session, LEADER_WORKER_SET, name))


async def find_history(session: Session, name: str) -> SetObjects:
    """The set with its revisions and leaders: all that commands about revisions ask for."""
    return await history_of(session, await find_set(session, name))


async def history_of(session: Session, lws: Object) -> SetObjects:
    """The same of a set that has been read."""
    return await _read(session, lws, leaders_only=True)


async def all_of(session: Session, lws: Object) -> SetObjects:
    """Everything that belongs to a set."""
    return await _read(session, _readable(lws), leaders_only=False)


def _readable(lws: Object) -> Object:
    """The set, of its status what can be read; a definition of another release may have let anything in."""
    if fault := spec_fault(lws):
        raise Unreadable(lws["metadata"]["name"], fault)
    return {**lws, "status": readable_status(lws["status"])} if "status" in lws else lws


async def _read(session: Session, lws: Object, leaders_only: bool) -> SetObjects:
    cluster, now = session.cluster, session.now
    namespace, name = lws["metadata"]["namespace"], lws["metadata"]["name"]
    of_set = f"{NAME_LABEL}={name}"
    store = Store(lambda before, after: None, TABLES)
    store.put(lws)
    revisions = await cluster.listed("ControllerRevision", namespace, of_set)
    statefulsets = await cluster.listed("StatefulSet", namespace, of_set)
    pods = await cluster.listed(
        "Pod", namespace, f"{of_set},{WORKER_INDEX_LABEL}=0" if leaders_only else of_set
    )
    services = [] if leaders_only else await cluster.listed("Service", namespace, of_set)
    for obj in (*revisions, *statefulsets, *pods, *services):
        store.put(obj)
    observer = Observer(cluster, store, WriteMemory(store))
    snapshot = await observer.observe_set(namespace, name, now)
    if snapshot is None:
        raise Refusal(f"LeaderWorkerSet {name} was deleted meanwhile")
    groups: dict[int, GroupSnapshot] = {}
    unknown: dict[int, str] = {}
    for group in () if leaders_only else snapshot.groups:
        try:
            observed = await observer.observe_group(namespace, group.leader["metadata"]["name"], now)
        except Forbidden as error:
            unknown[group.index] = error.message
            continue
        if observed is not None:
            groups[group.index] = observed
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    return SetObjects(lws, snapshot, groups, by_name, tuple(revisions), unknown)
