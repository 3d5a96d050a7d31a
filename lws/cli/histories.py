"""Read the history of a set, find the revision that a user names, and report problems of the history."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Generic

from lws.cli.session import Refusal, Session
from lws.cli.sets import readable
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.revisions import record as roles_record
from lws.disaggregatedset.revisions.record import RecordedRoles, RolesRecord, is_ours, read
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.target import target_revision
from lws.history.revision import CHANGE_CAUSE_ANNOTATION, C, Revision, age, usable
from lws.kube.metadata import annotations_of, controller_of, is_controlled_by, name_of
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.fields import REPLICAS
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import scheduler_seen
from lws.leaderworkerset.observe.observer import Environment, Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.revisions.encoding import equality_tree
from lws.leaderworkerset.revisions.history import Record, Recorded, describe
from lws.leaderworkerset.revisions.shape import spec_fault
from lws.leaderworkerset.rollout.state import format_count, format_groups, format_ranges
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import has_hash_groups
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Object
from lws.runtime.errors import Forbidden
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.disaggregatedset.v1 import NAME_LABEL as ROLES_NAME_LABEL
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL, WORKER_INDEX_LABEL


@dataclass(frozen=True)
class History(ABC, Generic[C]):
    """The history of a set.

    revisions: oldest first. target: the target revision; None until it is recorded. causes: name of a
    revision → the change cause that a user gave. recorded_as: heading and field name of the content.
    """

    recorded_as: ClassVar[tuple[str, str]]

    obj: Object
    revisions: tuple[Revision[C], ...]
    target: Revision[C] | None
    causes: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def complaints(self) -> Iterator[str]:
        """Yield the problems of the history, each in one sentence."""
        yield from (revision.broken for revision in self.revisions if revision.broken)

    def numbered(self, number: int) -> Revision[C]:
        """Return the usable revision with this number. Raises a Refusal unless there is exactly one."""
        matches = [revision for revision in self.revisions if revision.number == number]
        if not matches:
            numbers = ", ".join(str(revision.number) for revision in self.revisions) or "none yet"
            raise Refusal(f"set {self.name} has no revision {number}: there is {numbers}")
        if len(matches) > 1:
            raise Refusal(_about_number(number, matches))
        if matches[0].broken:
            raise Refusal(f"revision {number} cannot be used: {matches[0].broken}")
        return matches[0]

    def before(self, revision: Revision[C] | None) -> Revision[C]:
        """Return the newest usable revision that is older than the given one and differs from it.

        If no revision is given, return the newest usable one. Raises a Refusal if there is none.
        """
        earlier = usable(self.revisions)
        if revision is not None:
            earlier = [
                other
                for other in earlier
                if other.number < revision.number and not self.is_same(other, revision)
            ]
        if not earlier:
            raise Refusal(f"set {self.name} has no earlier revision: it has not changed since it was created")
        return earlier[-1]

    @abstractmethod
    def is_same(self, one: Revision[C], other: Revision[C]) -> bool:
        """Return whether both revisions are equivalent for pods."""

    @abstractmethod
    def differences(self, old: Revision[C], new: Revision[C]) -> list[str]:
        """Return one line for each difference that affects pods."""

    @abstractmethod
    def groups_on(self, key: str) -> list[int] | dict[str, int]:
        """Return the groups that run under a revision key, as data."""

    @abstractmethod
    def groups_text(self, key: str) -> str:
        """Return the groups that run under a revision key, in words."""

    @abstractmethod
    def compared(self, revision: Revision[C]) -> Any:
        """Return the part of a revision that `lws diff` compares, as data."""

    @abstractmethod
    def recorded(self, revision: Revision[C]) -> Any:
        """Return the content of a revision, as data."""


@dataclass(frozen=True)
class SetHistory(History[Record]):
    """The history of a LeaderWorkerSet.

    groups: key of a leader → indices. strangers: revisions without an owner that carry the label of the set.
    """

    recorded_as: ClassVar = ("Template", "spec")

    snapshot: SetSnapshot
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    strangers: tuple[Object, ...] = ()

    def numbered(self, number: int) -> Recorded:
        is_known = any(revision.number == number for revision in self.revisions)
        orphan = next((orphan for orphan in self.strangers if orphan.get("revision") == number), None)
        if not is_known and orphan is not None:
            raise Refusal(_about_stranger(orphan))
        revision = super().numbered(number)
        if revision.is_terminating:
            raise Refusal(f"revision {revision.number} is being deleted ({revision.name})")
        same_key = [other for other in usable(self.revisions) if other.key == revision.key]
        if len({other.record.form for other in same_key}) > 1:
            raise Refusal(_about_key(revision.key, same_key))
        return revision

    def before(self, revision: Recorded | None) -> Recorded:
        return self.numbered(super().before(revision).number)

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        yield from map(_about_stranger, self.strangers)
        for number, revisions in _grouped((revision.number, revision) for revision in self.revisions).items():
            if len(revisions) > 1:
                yield _about_number(number, revisions)
        for key, revisions in _grouped(
            (revision.key, revision) for revision in usable(self.revisions)
        ).items():
            if len({revision.record.form for revision in revisions}) > 1:
                yield _about_key(key, revisions)
        keys = {revision.key for revision in self.revisions}
        for key, indices in sorted(self.groups.items()):
            if key not in keys:
                groups = (
                    format_count(len(indices))
                    if has_hash_groups(self.snapshot.lws)
                    else format_groups(indices)
                )
                yield f"{groups} run with key {key or '(none)'}, but its revision no longer exists"

    def is_same(self, one: Recorded, other: Recorded) -> bool:
        is_same_place = (one.record.topology or {}) == (other.record.topology or {})
        return one.record.form == other.record.form and is_same_place

    def differences(self, old: Recorded, new: Recorded) -> list[str]:
        return describe(old.record, new.record)

    def groups_on(self, key: str) -> list[int]:
        return list(self.groups.get(key, ())) if key else []

    def groups_text(self, key: str) -> str:
        """Return the number of groups and their indices: `3 (0-1, 4)`. Hash groups have no indices."""
        indices = self.groups_on(key)
        if has_hash_groups(self.snapshot.lws):
            return str(len(indices))
        return f"{len(indices)} ({', '.join(format_ranges(indices, '-'))})" if indices else "0"

    def compared(self, revision: Recorded) -> dict[str, object]:
        """Return the template as the API server would store it, and the annotations that affect pods."""
        annotations = dict(revision.record.topology or {})
        tree = equality_tree(revision.record.spec)
        return {**tree, **({"metadata": {"annotations": annotations}} if annotations else {})}

    def recorded(self, revision: Recorded) -> dict[str, Any]:
        annotations = dict(revision.record.topology or {})
        return {**revision.record.spec, **({"annotations": annotations} if annotations else {})}


def set_history(snapshot: SetSnapshot, stored: Iterable[Object]) -> SetHistory:
    """Return the history of a LeaderWorkerSet. stored: all ControllerRevisions with its label."""
    listed, target = tuple(stored), assess(snapshot).target
    own = {revision.uid for revision in snapshot.revisions}
    keys = _grouped((group.leader_key or "", group.index) for group in snapshot.groups)
    return SetHistory(
        obj=snapshot.lws,
        revisions=tuple(sorted(snapshot.revisions, key=age)),
        target=next((revision for revision in snapshot.revisions if revision.name == target.name), None),
        causes=_causes(listed),
        snapshot=snapshot,
        groups={key: tuple(indices) for key, indices in keys.items()},
        strangers=tuple(
            revision
            for revision in listed
            if revision["metadata"]["uid"] not in own and _is_template_without_owner(revision)
        ),
    )


def _is_template_without_owner(revision: Object) -> bool:
    """Return whether a revision has no owner and records a template of a set.

    Revisions of StatefulSets carry the label of the set too, but contain a pod template.
    """
    if controller_of(revision) is not None:
        return False
    data = revision.get("data")
    spec = data.get("spec") if isinstance(data, Mapping) else None
    return not (isinstance(spec, Mapping) and "template" in spec)


def _causes(revisions: Iterable[Object]) -> dict[str, str]:
    return {
        name_of(revision): cause
        for revision in revisions
        if (cause := annotations_of(revision).get(CHANGE_CAUSE_ANNOTATION))
    }


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _about_stranger(revision: Object) -> str:
    return (
        f"ControllerRevision {revision['metadata']['name']} (revision {revision.get('revision')}) has no "
        f"owner, and its data does not match its name, so it is no revision of the set: delete it if it is "
        f"not needed"
    )


def _about_number(number: int, revisions: Iterable[Revision[Any]]) -> str:
    names = " and ".join(revision.reference.name for revision in revisions)
    return (
        f"more than one revision has the number {number} ({names}), so nothing says which is meant: delete "
        f"the ControllerRevision that is wrong"
    )


def _about_key(key: str, revisions: Iterable[Recorded]) -> str:
    names = " and ".join(revision.name for revision in revisions)
    return (
        f"different templates share the key {key} ({names}), so nothing says which one its groups run: "
        f"delete the ControllerRevision that is wrong"
    )


@dataclass(frozen=True)
class RolesHistory(History[RolesRecord]):
    """The history of a DisaggregatedSet. snapshot: only the set with its revisions and children."""

    recorded_as: ClassVar = ("Roles", "roles")

    snapshot: DisaggregatedSnapshot

    def is_same(self, one: RecordedRoles, other: RecordedRoles) -> bool:
        return one.record.forms == other.record.forms

    def differences(self, old: RecordedRoles, new: RecordedRoles) -> list[str]:
        return roles_record.describe(old.record, new.record)

    def groups_on(self, key: str) -> dict[str, int]:
        """Return the desired groups of the LeaderWorkerSets with this key: role → number over all slices."""
        counts: dict[str, int] = {}
        for child in self.snapshot.children:
            if child.key == key:
                counts[child.role] = counts.get(child.role, 0) + REPLICAS.effective_in(child.obj)
        return counts

    def groups_text(self, key: str) -> str:
        return ", ".join(f"{role} {count}" for role, count in self.groups_on(key).items()) or "0"

    def compared(self, revision: RecordedRoles) -> list[Object]:
        return list(revision.record.parts)

    def recorded(self, revision: RecordedRoles) -> list[Object]:
        return self.compared(revision)


async def roles_history(session: Session, obj: Object) -> RolesHistory:
    """Read the history of a DisaggregatedSet, with its LeaderWorkerSets."""
    selector = f"{ROLES_NAME_LABEL}={obj['metadata']['name']}"
    stored = await session.cluster.listed("ControllerRevision", session.namespace, selector)
    children = await session.cluster.listed(KIND, session.namespace, selector)
    own = [revision for revision in stored if is_ours(revision, obj)]
    revisions = tuple(sorted((read(revision) for revision in own), key=age))
    identities = [
        (child, identity_of(obj["metadata"]["name"], child["metadata"]["name"])) for child in children
    ]
    facts = tuple(
        ChildFacts(child, identity.role, identity.slice_index, identity.key)
        for child, identity in identities
        if identity is not None and is_controlled_by(child, obj["metadata"]["uid"]) and not spec_fault(child)
    )
    snapshot = DisaggregatedSnapshot(obj, session.now, facts, revisions=revisions)
    name = target_revision(snapshot).name
    target = next((revision for revision in revisions if revision.name == name), None)
    return RolesHistory(obj, revisions, target, _causes(own), snapshot)


@dataclass(frozen=True, slots=True)
class SetObjects:
    """A LeaderWorkerSet `lws` with all its fields, and its objects.

    groups: index of a group → the controller's snapshot of it. unknown: index of a group → message of the API
    server, if the user may not read something in its snapshot, such as nodes. pods: by name, with all fields.
    revisions: all ControllerRevisions with the label of the set, regardless of their owners.
    """

    lws: Object
    snapshot: SetSnapshot
    groups: Mapping[int, GroupSnapshot]
    pods: Mapping[str, Object]
    revisions: tuple[Object, ...]
    unknown: Mapping[int, str] = field(default_factory=dict)


async def leaders_of(session: Session, lws: Object) -> SetObjects:
    """Read a LeaderWorkerSet with its revisions and leader pods, which its history depends on."""
    return await _read(session, lws, leaders_only=True)


async def all_of(session: Session, lws: Object) -> SetObjects:
    """Read everything that belongs to a LeaderWorkerSet."""
    return await _read(session, readable(lws), leaders_only=False)


async def _read(session: Session, lws: Object, leaders_only: bool) -> SetObjects:
    cluster, now = session.cluster, session.now
    namespace, name = lws["metadata"]["namespace"], lws["metadata"]["name"]
    of_set = f"{NAME_LABEL}={name}"
    store = Store(lambda before, after: None, TABLES)
    store.put(lws)
    kinds = ["ControllerRevision", "StatefulSet", "Pod"]
    kinds += ["Deployment", "ReplicaSet"] if has_hash_groups(lws) else []
    kinds += [] if leaders_only else ["Service"]
    pods = f"{of_set},{WORKER_INDEX_LABEL}=0" if leaders_only else of_set
    listed = {
        kind: await cluster.listed(kind, namespace, pods if kind == "Pod" else of_set) for kind in kinds
    }
    for obj in chain.from_iterable(listed.values()):
        store.put(obj)
    observer = Observer(cluster, store, SetWrites(store), Environment(scheduler=scheduler_seen(lws)))
    snapshot = await observer.observe_set(namespace, name, now)
    if snapshot is None:
        raise Refusal(f"LeaderWorkerSet {name} was deleted meanwhile")
    # Jobs are not read: without these facts, progress of prewarming is what the status records.
    snapshot = replace(snapshot, prewarm=None)
    groups: dict[int, GroupSnapshot] = {}
    unknown: dict[int, str] = {}
    for group in () if leaders_only else snapshot.groups:
        try:
            observed = await observer.observe_group(namespace, group.leader["metadata"]["name"], now)
        except Forbidden as error:
            unknown[group.index] = error.message
            continue
        if isinstance(observed, GroupSnapshot):
            groups[group.index] = observed
    by_name = {name_of(pod): pod for pod in listed["Pod"]}
    return SetObjects(lws, snapshot, groups, by_name, tuple(listed["ControllerRevision"]), unknown)


async def _history_of_set(session: Session, lws: Object) -> SetHistory:
    objects = await leaders_of(session, lws)
    return set_history(objects.snapshot, objects.revisions)


_HISTORIES: Mapping[str, Callable[[Session, Object], Awaitable[History[Any]]]] = {
    KIND: _history_of_set,
    ROLES_KIND: roles_history,
}


async def history_of(session: Session, obj: Object) -> History[Any]:
    """Read the history of a set that has already been read."""
    return await _HISTORIES[obj["kind"]](session, obj)
