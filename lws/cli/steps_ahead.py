"""List the steps of a DisaggregatedSet from now until its rollout ends, if every new group becomes ready.

The product's own passes run against a model of all other controllers, which act once the passes cannot.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lws.disaggregatedset.groups import child_facts
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.revisions.record import read
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.target import target_revision
from lws.kube.conditions import timestamp
from lws.kube.metadata import is_terminating
from lws.kube.patches import with_merged
from lws.runtime.actions import (
    Action,
    Create,
    Delete,
    Merge,
    Object,
    Plan,
    Reference,
    SetOwner,
    Status,
    Verbatim,
)
from lws_api.disaggregatedset.v1 import KIND, SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND as CHILD_KIND

# Each group takes a few passes. A set that needs more than this many passes never settles.
_PASSES_PER_GROUP = 20
_PASSES_AT_LEAST = 200

Counts = Mapping[str, Mapping[str, int]]
"""Key → role → number of groups."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a LeaderWorkerSet's number of groups: 0 before its creation and after its deletion."""

    role: str
    key: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class StepAhead:
    """The changes of one pass in one slice. counts: desired groups of its LeaderWorkerSets after the pass."""

    slice_index: int
    changes: tuple[Change, ...]
    counts: Counts


@dataclass(frozen=True, slots=True)
class StepsAhead:
    """The result of a simulation: its steps, what it is waiting for (empty if settled), and the end state."""

    steps: tuple[StepAhead, ...]
    waiting_for: str
    end: DisaggregatedSnapshot


def steps_ahead(snapshot: DisaggregatedSnapshot) -> StepsAhead:
    """Simulate the rollout until nothing changes any more."""
    model = Model(snapshot)
    steps: list[StepAhead] = []
    for _ in range(_PASSES_AT_LEAST + _PASSES_PER_GROUP * _groups(snapshot)):
        now = model.snapshot
        planned = plan(now)
        model.carry_out(planned)
        if any(planned.sequences):
            steps += _between(now, model.snapshot)
        # If a pass writes only a status, the others act at once, which saves a third of the passes.
        elif not model.move() and not planned.statuses:
            break
    return StepsAhead(tuple(steps), planned.waiting_for, model.snapshot)


def _groups(snapshot: DisaggregatedSnapshot) -> int:
    """Return the approximate number of groups, now and later."""
    spec = snapshot.obj.get("spec") or {}
    requested = sum((role.get("spec") or {}).get("replicas") or 1 for role in spec.get("roles") or ())
    scaled = sum((scaler.get("spec") or {}).get("replicas") or 0 for scaler in snapshot.scalers)
    running = sum(child.desired for child in snapshot.children)
    return int(requested * (spec.get("slices") or 1) + scaled + running)


def _between(before: DisaggregatedSnapshot, after: DisaggregatedSnapshot) -> Iterator[StepAhead]:
    former, now = _counts(before), _counts(after)
    for index in sorted({slice_index for slice_index, _, _ in (*former, *now)}):
        child_ids = [child_id for child_id in dict.fromkeys((*former, *now)) if child_id[0] == index]
        pairs = ((child_id, former[child_id], now[child_id]) for child_id in child_ids)
        changes = tuple(Change(role, key, old, new) for (_, key, role), old, new in pairs if old != new)
        if changes:
            counts: dict[str, dict[str, int]] = {}
            for _, key, role in child_ids:
                if groups := now[index, key, role]:
                    counts.setdefault(key, {})[role] = groups
            yield StepAhead(index, changes, counts)


def _counts(snapshot: DisaggregatedSnapshot) -> Counter[tuple[int, str, str]]:
    """Return the desired groups of the LeaderWorkerSets: (slice, key, role) → number."""
    counts = Counter[tuple[int, str, str]]()
    for child in snapshot.children:
        counts[child.slice_index, child.key, child.role] += child.desired
    return counts


@dataclass(slots=True)
class Model:
    """A model of the API server, and of the LeaderWorkerSets with everything that runs for them.

    going_broken: UID of a LeaderWorkerSet → number of the groups it must delete that neither serve nor start.
    """

    snapshot: DisaggregatedSnapshot
    made: int = 0
    going_broken: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The set exists, because the command has read it.
        self.snapshot = replace(self.snapshot, set_read_live=self.snapshot.obj, rejections=())

    def carry_out(self, planned: Plan) -> None:
        for sequence in planned.sequences:
            for action in sequence:
                self._carry_out(action)
        for status in planned.statuses:
            self._report(status)

    def move(self) -> bool:
        """Let the other controllers act. Return whether they changed anything."""
        key = target_revision(self.snapshot).key
        children = [child for child in self.snapshot.children if not child.is_terminating]
        moved = tuple(_complete(child) if child.key == key else self._shrunk(child) for child in children)
        self.going_broken.clear()
        scalers = tuple(scaler for scaler in self.snapshot.scalers if not is_terminating(scaler))
        services = tuple(service for service in self.snapshot.services if not is_terminating(service))
        before = self.snapshot
        self.snapshot = replace(before, children=moved, scalers=scalers, services=services)
        return self.snapshot != before

    def _shrunk(self, child: ChildFacts) -> ChildFacts:
        """Return the state of an old LeaderWorkerSet after the other controllers acted.

        Surplus groups are deleted, starting groups become ready, and all other groups stay as they are.
        """
        surplus, failed = child.present - child.desired, child.present - child.ready - child.starting
        broken = self.going_broken.get(child.obj["metadata"]["uid"], min(surplus, failed))
        failing = 0 if child.is_settled else min(child.desired, max(0, failed - broken))
        if not failing:
            return _complete(child)
        on_top = child.desired if failing == child.desired else child.failed_on_top
        ready = child.desired - failing
        return replace(
            _complete(child), ready=ready, is_settled=False, broken_on_top=on_top, failed_on_top=on_top
        )

    def _lowered(self, before: ChildFacts, after: ChildFacts) -> ChildFacts:
        """Return a LeaderWorkerSet after its number of desired groups was lowered: the highest indices go.

        Failed groups below those on top count as the lowest.
        """
        uid, removed = before.obj["metadata"]["uid"], before.desired - after.desired
        broken, failed = (min(removed, count) for count in (before.broken_on_top, before.failed_on_top))
        self.going_broken[uid] = self.going_broken.get(uid, 0) + failed
        starting = max(0, before.starting - (broken - failed))
        if before.present - before.ready - starting - self.going_broken[uid] >= after.desired:
            return replace(after, broken_on_top=after.desired, failed_on_top=after.desired, starting=0)
        return replace(
            after,
            broken_on_top=before.broken_on_top - broken,
            failed_on_top=before.failed_on_top - failed,
            starting=starting,
        )

    def _carry_out(self, action: Action) -> None:
        match action:
            case Create():
                self._put(self._stored(action.intent))
            case Merge():
                self._change(action.target, action.patch)
            case SetOwner(owner=owner, patch=patch):
                stored = self._find(action.target) or {}
                owners = [*((stored.get("metadata") or {}).get("ownerReferences") or ()), owner]
                self._change(action.target, with_merged(patch, {"metadata": {"ownerReferences": owners}}))
            case Delete():
                self._drop(action.target)
            case _:
                raise TypeError(f"no pass over a {KIND} plans {type(action).__name__}")

    def _stored(self, intent: Object) -> dict[str, Any]:
        self.made += 1
        generated = {
            # Differs from all UIDs in the cluster.
            "uid": f"{intent['kind']}-{intent['metadata']['name']}-{self.made}",
            "resourceVersion": str(self.made),
            "generation": 1,
            "creationTimestamp": timestamp(self.snapshot.now),
        }
        values = {
            name: json.loads(value.text) if isinstance(value, Verbatim) else value
            for name, value in intent.items()
        }
        return {**values, "metadata": {**intent["metadata"], **generated}}

    def _find(self, target: Reference) -> Object | None:
        snapshot = self.snapshot
        if target.kind == CHILD_KIND:
            candidates = [*(child.obj for child in snapshot.children), *snapshot.orphans]
        else:
            candidates = [snapshot.obj, *snapshot.services, *snapshot.scalers, *snapshot.strangers.values()]
        return next((obj for obj in candidates if Reference.to(obj).uid == target.uid), None)

    def _change(self, target: Reference, patch: Object) -> None:
        if target.kind == "ControllerRevision":
            self._renumber(target, patch)
            return
        stored = self._find(target)
        if stored is None:
            return
        after = with_merged(stored, patch)
        if after.get("spec") != stored.get("spec"):
            generation = stored["metadata"].get("generation", 0) + 1
            after = with_merged(after, {"metadata": {"generation": generation}})
        self._put(after)

    def _renumber(self, target: Reference, patch: Object) -> None:
        """Change the number, the labels or the owner of a revision, the only fields that are ever written."""
        labels = (patch.get("metadata") or {}).get("labels") or {}
        is_owned = "ownerReferences" in (patch.get("metadata") or {})
        self.snapshot = replace(
            self.snapshot,
            revisions=tuple(
                replace(
                    revision,
                    number=patch.get("revision", revision.number),
                    labels={**revision.labels, **labels},
                    is_orphan=revision.is_orphan and not is_owned,
                )
                if revision.reference.uid == target.uid
                else revision
                for revision in self.snapshot.revisions
            ),
        )

    def _put(self, obj: Object) -> None:
        snapshot, kind, uid = self.snapshot, obj["kind"], obj["metadata"]["uid"]
        if kind == KIND:
            self.snapshot = replace(snapshot, obj=obj, set_read_live=obj)
        elif kind == "ControllerRevision":
            self.snapshot = replace(snapshot, revisions=(*snapshot.revisions, read(obj)))
        elif kind == CHILD_KIND:
            self._put_child(obj)
        else:
            of_kind = "scalers" if kind == SCALER_KIND else "services"
            others = [obj for obj in getattr(snapshot, of_kind) if obj["metadata"]["uid"] != uid]
            name = obj["metadata"]["name"]
            strangers = {key: stranger for key, stranger in snapshot.strangers.items() if key != (kind, name)}
            changed: dict[str, Any] = {of_kind: (*others, obj), "strangers": strangers}
            self.snapshot = replace(snapshot, **changed)

    def _put_child(self, obj: Object) -> None:
        snapshot, uid = self.snapshot, obj["metadata"]["uid"]
        former = next((child for child in snapshot.children if child.obj["metadata"]["uid"] == uid), None)
        if former is None:
            identity = identity_of(snapshot.obj["metadata"]["name"], obj["metadata"]["name"])
            assert identity is not None, "only what has the name of a child is made or adopted"
            is_adopted = any(orphan["metadata"]["uid"] == uid for orphan in snapshot.orphans)
            facts = child_facts(obj, identity, None if is_adopted else (), snapshot.now)
        else:
            is_told = obj["metadata"].get("generation") != former.obj["metadata"].get("generation")
            facts = replace(former, obj=obj, is_settled=former.is_settled and not is_told)
            if facts.desired < former.desired:
                facts = self._lowered(former, facts)
        others = [child for child in snapshot.children if child.obj["metadata"]["uid"] != uid]
        self.snapshot = replace(
            snapshot,
            children=tuple(sorted((*others, facts), key=lambda child: child.name)),
            orphans=tuple(orphan for orphan in snapshot.orphans if orphan["metadata"]["uid"] != uid),
        )

    def _drop(self, target: Reference) -> None:
        snapshot, uid = self.snapshot, target.uid
        self.snapshot = replace(
            snapshot,
            children=tuple(child for child in snapshot.children if child.obj["metadata"]["uid"] != uid),
            services=tuple(service for service in snapshot.services if service["metadata"]["uid"] != uid),
            scalers=tuple(scaler for scaler in snapshot.scalers if scaler["metadata"]["uid"] != uid),
            revisions=tuple(revision for revision in snapshot.revisions if revision.reference.uid != uid),
        )

    def _report(self, status: Status) -> None:
        stored = self._find(status.target)
        if stored is not None:
            self._put(with_merged(stored, {"status": status.patch}))


def _complete(child: ChildFacts) -> ChildFacts:
    desired = child.desired
    has_all = desired == child.present == child.existing == child.ready
    if child.is_settled and has_all and not child.broken_on_top:
        return child
    return replace(
        child,
        existing=desired,
        with_pods=0,
        ready=desired,
        is_settled=True,
        broken_on_top=0,
        starting=0,
        failed_on_top=0,
        judged_in=None,
    )
