"""Build the status patch of a DisaggregatedSet: counters, conditions, records, and Events for conditions that
become true.

Types, reasons and messages of Available and Progressing are upstream's. A condition that was never true is
absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from lws import timing
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec
from lws.disaggregatedset.target import TargetRevision
from lws.kube.conditions import Condition, becomes_true, elapsed, find, is_true
from lws.kube.metadata import name_of
from lws.kube.patches import merge_patch
from lws.leaderworkerset.left_alone import unreadable
from lws.leaderworkerset.status import status
from lws.leaderworkerset.status.problems import LAST_PROGRESS, PROGRESSING, STALLED, Pace, rejection_problem
from lws.leaderworkerset.status.status import AVAILABLE
from lws.runtime.actions import ROLLING, Announce, Figures, Object, Problem, Reference
from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL
from lws_api.leaderworkerset.v1 import WORKER_INDEX_LABEL

ROLES_EDITED = "RolesEdited"
IN_ROLLOUT = "InRollout"
"""The state of a set whose slices are not all on the target revision. No condition corresponds to it."""

_REACHED = "All roles have reached their desired replica count, ready and updated to the current revision"
_UNDER_WAY = f"Not {_REACHED[0].lower()}{_REACHED[1:]}"
_LWS_EDITED = "LeaderWorkerSetEdited"
_MOST_PENDING, _MOST_NAMED = 20, 5
_PROGRESS = frozenset({"roleStatuses", "sliceStatuses", "slices", LAST_PROGRESS, "conditions"})


@dataclass(frozen=True, slots=True)
class ObservedRoles:
    """What a pass has observed and decided, as far as it determines the status.

    desired: role → groups over all slices, in the order of the spec; None if no number is specified.
    current: the name of the previous revision.
    rolling: the indices of slices in a rollout.
    rollouts: the records of these rollouts, by index.
    pending: edits that wait for the next revision, and delayed rollouts.
    waiting_for: what has to happen next, in words.
    edited: the children whose templates somebody has edited, by name.
    """

    snapshot: DisaggregatedSnapshot
    spec: DisaggregatedSpec
    target: TargetRevision
    desired: Mapping[str, int | None]
    current: str = ""
    rolling: frozenset[int] = frozenset()
    rollouts: Mapping[str, Any] = field(default_factory=dict)
    pending: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    waiting_for: str = ""
    edited: Sequence[ChildFacts] = ()


@dataclass(frozen=True, slots=True)
class DisaggregatedStatus:
    """The status of a set after a pass.

    patch: a JSON merge patch of the stored status; None if it is up to date.
    due_in: seconds until the set counts as stalled if it makes no progress; None if it already does or has no
      deadline.
    is_stalled: whether the set has made no progress within its deadline.
    roles: the numbers of groups of each role.
    """

    patch: Mapping[str, Any] | None
    announce: tuple[Announce, ...] = ()
    due_in: float | None = None
    is_stalled: bool = False
    roles: tuple[RoleCounts, ...] = ()


def disaggregated_status(observed: ObservedRoles) -> DisaggregatedStatus:
    """Build the status of a set after one pass."""
    snapshot, target, obj = observed.snapshot, observed.target, observed.snapshot.obj
    stored: Mapping[str, Any] = obj.get("status") or {}
    generation = obj["metadata"].get("generation", 0)
    counts = role_counts(observed.desired, snapshot.children, target.key)
    is_reached = all(
        count.existing == count.ready == count.updated == observed.desired[count.name] for count in counts
    )
    # Children of a former revision may still exist although they have no groups.
    is_available = is_reached and not observed.rolling
    pace = Pace(
        deadline=observed.spec.progress_deadline,
        now=snapshot.now,
        is_progressing=not is_available,
        is_paused=observed.spec.paused,
        has_moved=has_come_closer(stored, snapshot.children, target.key),
        settled=0,
        waits=tuple(wait for child in snapshot.children for wait in child.waits),
    )
    last_progress = pace.last_progress(obj)
    due_in = pace.due_in(last_progress)
    before = stored.get("conditions") or []
    desired = (
        *_conditions(before, is_available),
        *_edits(obj, before, observed.edited),
        *status.failure(observed.problems),
    )
    reasons = [*(problem.message for problem in observed.problems), observed.waiting_for]
    conditions = status.conditions_after(before, desired, pace, due_in, reasons, generation)
    fields = {
        "observedGeneration": generation,
        "roleStatuses": [count.stored for count in counts],
        "conditions": conditions,
        LAST_PROGRESS: last_progress,
        "currentRevision": observed.current,
        "updateRevision": target.name,
        "collisionCount": target.collisions or stored.get("collisionCount"),
        "slices": len({child.slice_index for child in snapshot.children if child.existing}),
        "selector": f"{NAME_LABEL}={obj['metadata']['name']},{WORKER_INDEX_LABEL}=0",
        "sliceStatuses": slice_counts(snapshot.children, target.key, observed.rolling),
        "rollouts": dict(observed.rollouts),
        "pending": _bounded(observed.pending),
    }
    # Zeros are omitted, as upstream stores them.
    intended = {name: value for name, value in {**stored, **fields}.items() if value}
    patch = merge_patch(stored, intended)
    announce = (*status.stall_events(obj, before, conditions), *_edit_events(obj, before, conditions))
    is_stalled = is_true(conditions, STALLED)
    return DisaggregatedStatus(patch, announce, due_in or None, is_stalled, counts)


def can_wait(stored: Mapping[str, Any], patch: Mapping[str, Any], slices: int) -> bool:
    """Return whether a patch only reports progress, so that it may be batched.

    Autoscalers act on the number of slices. No condition reports the deletion of the last surplus slice, so
    that patch is written at once.
    """
    has_shrunk = patch.get("slices") == slices < (stored.get("slices") or 0)
    return status.can_wait(stored, patch, _PROGRESS) and not has_shrunk


def _bounded(lines: Sequence[str]) -> list[str]:
    """Return as many lines as there is room for, and the number of further lines."""
    more = len(lines) - _MOST_PENDING
    return [*lines[:_MOST_PENDING], *([f"and {more} more"] if more > 0 else [])]


def _conditions(stored: Sequence[Mapping[str, Any]], is_available: bool) -> Iterator[Condition]:
    """Yield the conditions Available and Progressing, without a condition that was never true."""
    holds, other = (AVAILABLE, PROGRESSING) if is_available else (PROGRESSING, AVAILABLE)
    reason = "AllRolesReady" if is_available else "RolloutInProgress"
    message = _REACHED if is_available else _UNDER_WAY
    yield Condition(holds, True, reason, message)
    if find(stored, other) is not None:
        yield Condition(other, False, reason, message)


def _edits(
    obj: Object, stored: Sequence[Mapping[str, Any]], edited: Sequence[ChildFacts]
) -> Iterator[Condition]:
    """Yield the condition RolesEdited; nothing before it was first true."""
    if edited:
        names = ", ".join(child.name for child in edited[:_MOST_NAMED])
        more = f" and {len(edited) - _MOST_NAMED} more" if len(edited) > _MOST_NAMED else ""
        message = (
            f"{names}{more}: the template is not that of its revision, because it was edited or changed at "
            f"admission. The next rollout or `lws restart disaggregatedset/{name_of(obj)}` replaces it; to "
            f"keep the change, make it in the role"
        )
        yield Condition(ROLES_EDITED, True, _LWS_EDITED, message)
    elif find(stored, ROLES_EDITED) is not None:
        message = "The templates of all LeaderWorkerSets are those of their revisions"
        yield Condition(ROLES_EDITED, False, "AsRecorded", message)


def _edit_events(
    obj: Object, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[Announce]:
    """Yield the Event for RolesEdited becoming true."""
    if (edits := becomes_true(ROLES_EDITED, before, after)) is not None:
        yield Announce(Reference.to(obj), _LWS_EDITED, "Update", edits["message"], "Warning")


_ChildId = tuple[int, str, str]
"""Index of the slice, revision key and role. A role may have two LeaderWorkerSets, which count together."""


def has_come_closer(stored: Mapping[str, Any], children: Sequence[ChildFacts], key: str) -> bool:
    """Return whether more groups are ready on the target revision, or fewer surplus groups exist.

    key: the target revision. Groups of old revisions that become ready again, and recreated groups, do not
    count: they must not hide that no group starts on a new revision.
    """
    slices = stored.get("sliceStatuses") or ()
    listed = {slice_.get("index", 0) for slice_ in slices}
    recorded = [child for child in children if child.slice_index in listed]
    ready, existing, desired = Counter[_ChildId](), Counter[_ChildId](), Counter[_ChildId]()
    for child in recorded:
        child_id = child.slice_index, child.key, child.role
        ready[child_id] += child.ready
        existing[child_id] += child.existing
        desired[child_id] += child.desired
    ready_before = _remembered(slices, "readyReplicas")
    if any(count > ready_before[child_id] for child_id, count in ready.items() if child_id[1] == key):
        return True
    # A recreated group is not surplus.
    before = _remembered(slices, "replicas").items()
    if any(count > max(existing[child_id], desired[child_id]) for child_id, count in before):
        return True
    # Only the sums record a new slice, or a slice that a long status omits.
    roles = {role["name"]: int(role.get("readyReplicas") or 0) for role in stored.get("roleStatuses") or ()}
    is_more_ready = sum(child.ready for child in children if child.role in roles) > sum(roles.values())
    return len(recorded) < len(children) and is_more_ready


def _remembered(slices: Sequence[Mapping[str, Any]], field: str) -> Counter[_ChildId]:
    counts = Counter[_ChildId]()
    for slice_ in slices:
        for revision in slice_.get("revisions") or ():
            for role in revision.get("roles") or ():
                child_id = slice_.get("index", 0), revision.get("revision", ""), role["name"]
                counts[child_id] += int(role.get(field) or 0)
    return counts


# --- Count the groups of each role for the status, in total and by slice and revision. Zeros are left out, as
# the API server stores them.


# A slice of two roles has four counts in a rollout. A status with all counts of a hundred slices would be too
# long.
_MOST_COUNTS = 200


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """The groups of one role over all slices and revisions, of which `updated` are on the target revision."""

    name: str
    existing: int = 0
    ready: int = 0
    updated: int = 0

    @property
    def stored(self) -> dict[str, Any]:
        return _entry(
            self.name, replicas=self.existing, readyReplicas=self.ready, updatedReplicas=self.updated
        )


def role_counts(roles: Iterable[str], children: Sequence[ChildFacts], key: str) -> tuple[RoleCounts, ...]:
    """Count the groups of these roles; `key` is the target revision."""
    by_role = {name: [child for child in children if child.role == name] for name in roles}
    return tuple(
        RoleCounts(
            name,
            existing=sum(child.existing for child in of_role),
            ready=sum(child.ready for child in of_role),
            updated=sum(child.existing for child in of_role if child.key == key),
        )
        for name, of_role in by_role.items()
    )


def slice_counts(children: Iterable[ChildFacts], key: str, rolling: Collection[int]) -> list[dict[str, Any]]:
    """Count groups by slice and revision, the target first. If room is short, `rolling` slices go last."""
    order = sorted(children, key=lambda child: (child.slice_index, child.key != key, child.key, child.role))
    slices = [
        (index, [_revision(*of_key) for of_key in groupby(of_slice, lambda child: child.key)])
        for index, of_slice in groupby(order, lambda child: child.slice_index)
    ]
    entries, room = [], _MOST_COUNTS
    for index, revisions in sorted(slices, key=lambda pair: (pair[0] not in rolling, pair[0])):
        room -= sum(len(revision["roles"]) for revision in revisions)
        if room < 0:
            break
        entries.append({"index": index, "revisions": revisions})
    return sorted(entries, key=lambda entry: entry["index"])


def _revision(key: str, children: Iterable[ChildFacts]) -> dict[str, Any]:
    roles = [_entry(child.role, replicas=child.existing, readyReplicas=child.ready) for child in children]
    return {"revision": key, "roles": roles}


def _entry(name: str, **counts: int) -> dict[str, Any]:
    return {"name": name, **{field: count for field, count in counts.items() if count}}


# --- Collect the problems that keep a DisaggregatedSet from getting its groups, for the condition
# ReplicaFailure and for Events. The worst problem comes first.


def problems_of(snapshot: DisaggregatedSnapshot, encountered: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return all problems of a set, including those that this pass has encountered."""
    # Rejections come last, because the other problems may have caused them.
    own = (*_unreadable(snapshot), *_of_children(snapshot.children))
    return (*encountered, *own, *map(rejection_problem, snapshot.rejections))


def _unreadable(snapshot: DisaggregatedSnapshot) -> Iterator[Problem]:
    for name, fault in sorted(snapshot.unreadable.items()):
        problem = unreadable(fault)
        yield replace(problem, message=f"LeaderWorkerSet {name}: {problem.message}", is_reported=True)


def _of_children(children: Iterable[ChildFacts]) -> Iterator[Problem]:
    """Yield the problems of children, which the children have already reported by Events of their own."""
    for child in children:
        conditions = (child.obj.get("status") or {}).get("conditions")
        condition = find(conditions, status.REPLICA_FAILURE)
        if condition is not None and is_true(conditions, status.REPLICA_FAILURE) and not child.is_terminating:
            where = f"role {child.role} of slice {child.slice_index} ({child.name})"
            message = f"{where}: {condition.get('message', '')}"
            yield Problem(str(condition.get("reason", "")), message, is_reported=True)


def without_nodes(children: Iterable[ChildFacts], now: datetime) -> tuple[str, ...]:
    """Describe the slices and roles with a pod that has been unscheduled for long, and the reason."""
    reasons = {
        (child.slice_index, child.role, f"scheduling gate {wait.gate}" if wait.gate else "nodes")
        for child in children
        for wait in child.waits
        if wait.until is None and elapsed(wait.since, now) >= timing.NODE_WAIT_IS_LONG
    }
    return tuple(
        f"slice {index}: role {role}: pods wait for {awaited}" for index, role, awaited in sorted(reasons)
    )


def recheck_after(children: Iterable[ChildFacts]) -> float | None:
    """Return the seconds until the next look at unready groups; None if every group serves."""
    is_awaited = any(child.ready < child.desired for child in children)
    return timing.NODE_WAIT_IS_LONG.total_seconds() if is_awaited else None


# --- Compute the gauges of a DisaggregatedSet.


DESIRED, EXISTING, READY, UPDATED, STUCK = "desired", "existing", "ready", "updated", "stalled"


def figures_of(
    name: str, revision: str, desired: Mapping[str, int | None], status: DisaggregatedStatus, is_rolling: bool
) -> Figures:
    """Return the gauges of a set at this revision; desired groups are None if no number is specified."""
    numbers: dict[tuple[str, str], float] = {(ROLLING, ""): is_rolling, (STUCK, ""): status.is_stalled}
    for role in status.roles:
        numbers[DESIRED, role.name] = desired.get(role.name) or 0
        numbers[EXISTING, role.name] = role.existing
        numbers[READY, role.name] = role.ready
        numbers[UPDATED, role.name] = role.updated
    return Figures(KIND, name, numbers, revision)
