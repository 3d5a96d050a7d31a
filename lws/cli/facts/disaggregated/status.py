"""Collect the state of a DisaggregatedSet and of each of its LeaderWorkerSets, as plain facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lws.cli.facts.set_status import WAY_TO_BE_CLEAR, failure_of
from lws.disaggregatedset.key import key_of
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.revisions.target import TargetRevision, target_revision
from lws.disaggregatedset.slices.targets import RoleTargets
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, parse
from lws.disaggregatedset.status.status import AVAILABLE
from lws.kube import conditions
from lws.kube.metadata import is_terminating
from lws.leaderworkerset.status.progress import LAST_PROGRESS
from lws.runtime.actions import Object


@dataclass(frozen=True, slots=True)
class ChildLine:
    """One LeaderWorkerSet. why: it waits, empty if it does not."""

    facts: ChildFacts
    why: str


@dataclass(frozen=True)
class DisaggregatedReport:
    """One set.

    wanted: groups of each role over all slices; None where its scaler is missing. waiting_for: what has to
    happen next, in words; empty when the set is settled. only_here: what the original would do otherwise, a
    sentence each.
    """

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    target: TargetRevision
    lines: tuple[ChildLine, ...]
    wanted: Mapping[str, int | None]
    is_settled: bool
    waiting_for: str
    only_here: tuple[str, ...]

    @property
    def obj(self) -> Object:
        return self.snapshot.obj

    @property
    def groups(self) -> int:
        """Groups that are wanted in all."""
        return sum(count or 0 for count in self.wanted.values())

    @property
    def last_progress(self) -> str:
        """When the controller last saw it move (RFC 3339); empty where it has not."""
        return str((self.obj.get("status") or {}).get(LAST_PROGRESS) or "")

    @property
    def pending(self) -> list[str]:
        """Paths of what waits for the next revision, then what else is waited for, in words."""
        return list((self.obj.get("status") or {}).get("pending") or ())

    def ready(self, role: str, updated: bool = False) -> int:
        """Ready groups of a role, at most those wanted. updated: only those of the target revision."""
        key = self.target.key
        count = sum(
            child.ready
            for child in self.snapshot.children
            if child.role == role
            and (child.key == key or not updated)
            and child.slice_index < self.spec.slices
        )
        return min(count, self.wanted.get(role) or 0)


def report_on(snapshot: DisaggregatedSnapshot) -> DisaggregatedReport:
    """How the set stands."""
    obj, target = snapshot.obj, target_revision(snapshot)
    spec = parse(obj)
    planned = plan(snapshot)
    wanted = RoleTargets(snapshot, spec, target.key).in_all()
    is_settled = _is_settled(snapshot, spec, target)
    waiting_for = planned.waiting_for
    if not waiting_for and any(planned.sequences):
        failure = failure_of(obj)
        waiting_for = f"{WAY_TO_BE_CLEAR}: {failure}" if failure else "the controller to take its next step"
    return DisaggregatedReport(
        snapshot=snapshot,
        spec=spec,
        target=target,
        lines=tuple(_lines(snapshot, target.key)),
        wanted=wanted,
        is_settled=is_settled,
        waiting_for=""
        if is_settled
        else waiting_for or "the controller to say in the status that all is done",
        only_here=tuple(_only_here(obj, target)),
    )


def _is_settled(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec, target: TargetRevision) -> bool:
    """Its status is the next thing one would ask for."""
    obj, status = snapshot.obj, snapshot.obj.get("status") or {}
    is_seen = int(status.get("observedGeneration") or 0) >= int(obj["metadata"].get("generation") or 0)
    if not is_seen or is_terminating(obj) or target.actions or snapshot.orphans:
        return False
    for child in snapshot.children:
        is_wanted = child.key == target.key and child.slice_index < spec.slices and spec.role(child.role)
        if not is_wanted or not child.is_settled or child.existing != child.wanted:
            return False
    existing = {(child.slice_index, child.role) for child in snapshot.children}
    if len(existing) != spec.slices * len(spec.roles):
        return False
    return conditions.is_true(status.get("conditions"), AVAILABLE)


def _lines(snapshot: DisaggregatedSnapshot, key: str) -> Iterator[ChildLine]:
    order = sorted(snapshot.children, key=lambda child: (child.slice_index, child.key != key, child.key))
    for child in order:
        yield ChildLine(child, "; ".join(_reasons(child)))


def _reasons(child: ChildFacts) -> Iterator[str]:
    if child.is_leaving:
        yield "it is being deleted"
        return
    if child.existing > child.wanted:
        yield f"{child.existing - child.wanted} of its groups are still terminating"
    if child.ready < child.wanted:
        yield f"{child.wanted - child.ready} of its groups are not ready"
    if failure := failure_of(child.obj):
        yield failure


def _only_here(obj: Object, target: TargetRevision) -> Iterator[str]:
    """The original hashes what is written, in its order; equal is not enough for it."""
    computed = key_of(record(obj).roles)
    if computed != target.key and not target.is_new:
        yield (
            f"the roles run under key {target.key}; the original controller would compute {computed} for "
            f"them as they are written now, and start a rollout over it"
        )
