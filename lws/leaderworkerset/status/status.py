"""Build the status of a set: counters, conditions, and Events for conditions that become true.

Out: the whole intended status, the smallest patch that leads to it, and announcements.

Types and reasons of conditions, messages of true ones and the notes of announcements are upstream's.
Available excludes Progressing and UpdateInProgress, and nothing else ends these two; a condition that was
never true is absent. One that turns False keeps its reason: its message says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lws.kube.conditions import Condition, find, is_true, with_condition, without_condition
from lws.kube.metadata import name_of
from lws.kube.patches import merge_patch
from lws.kube.pods import NodeWait
from lws.kube.quantities import is_integer, whole_number
from lws.leaderworkerset.memory import failed
from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.status.problems import LAST_PROGRESS, STALLED, Pace, stalled
from lws.leaderworkerset.status.summary import READY, Summary, summarise, what_holds_up
from lws.runtime.actions import ROLLING, Announce, Figures, Object, Problem, Reference, Tally
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL, WORKER_INDEX_LABEL

AVAILABLE = "Available"
PROGRESSING = "Progressing"
UPDATE_IN_PROGRESS = "UpdateInProgress"
REPLICA_FAILURE = "ReplicaFailure"

_TRUE = {
    AVAILABLE: Condition(AVAILABLE, True, "AllGroupsReady", "All replicas are ready"),
    PROGRESSING: Condition(PROGRESSING, True, "GroupsProgressing", "Replicas are progressing"),
    UPDATE_IN_PROGRESS: Condition(
        UPDATE_IN_PROGRESS, True, "GroupsUpdating", "Rolling Upgrade is in progress"
    ),
}
# metav1.Condition allows no longer messages.
_LONGEST_MESSAGE = 32768
# The note of an Event holds 1 KiB.
_LONGEST_TROUBLE = 900


@dataclass(frozen=True, slots=True)
class Revisions:
    """Names of ControllerRevisions and the collision count; what is None stays as the status has it."""

    current: str | None = None
    update: str | None = None
    collisions: int | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What a status is made from.

    replicas: groups that the user wants. floor: groups below this index are out of the update's scope.
    existing: `status.replicas` of the leader StatefulSet, 0 without one.
    problems: what stands in the way, worst first.
    members: what is to be remembered of each group, by index. rollout: its position, None where the status
    says it already or has nothing to say. has_moved: this pass moves it.
    given_up: indices of groups that may not be restarted any more. waits: for a node, of pods of groups that
    are not ready.
    """

    replicas: int
    now: datetime
    floor: int = 0
    groups: tuple[GroupState, ...] = ()
    existing: int = 0
    revisions: Revisions = Revisions()
    problems: tuple[Problem, ...] = ()
    members: Mapping[int, object] = field(default_factory=dict)
    rollout: Mapping[str, Any] | None = None
    has_moved: bool = False
    given_up: tuple[int, ...] = ()
    waits: tuple[NodeWait, ...] = ()


@dataclass(frozen=True, slots=True)
class SetStatus:
    """intended: the whole status. patch: JSON merge patch from the stored one, None where that is as good.

    due_in: seconds until the set counts as stalled if nothing happens; None where it does, or cannot.
    """

    intended: Mapping[str, Any]
    patch: Mapping[str, Any] | None
    announce: tuple[Announce, ...] = ()
    due_in: float | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is counted among the groups wanted. is_updating: one from `floor` on is outdated."""

    replicas: int
    ready: int
    updated: int
    is_updating: bool

    @property
    def holding(self) -> tuple[str, ...]:
        """The conditions that hold for certain, the one to be announced first."""
        if self.is_updating:
            return (UPDATE_IN_PROGRESS, PROGRESSING)
        return (AVAILABLE,) if self.ready == self.replicas else (PROGRESSING,)


def is_update_done(groups: Sequence[GroupState], replicas: int, floor: int) -> bool:
    """True once every wanted group is ready and on the target revision, and no partition holds one back."""
    settled = {group.index for group in groups if group.settled}
    return floor == 0 and settled.issuperset(range(replicas))


def set_status(spec: SetSpec, observed: Observed) -> SetStatus:
    """The status of a set, complete after one pass: conditions that depend on each other change together."""
    lws = spec.lws
    stored: Mapping[str, Any] = lws.get("status") or {}
    generation = lws["metadata"].get("generation", 0)
    scope = _scope(observed)
    held_up = what_holds_up(name_of(lws), "; ".join(problem.message for problem in observed.problems))
    summary = summarise(observed.groups, observed.replicas, observed.floor, spec.paused, held_up)
    pace = _pace(spec, observed, scope, summary)
    last_progress = pace.last_progress(stored)
    due_in = pace.due_in(last_progress)
    before = stored.get("conditions") or []
    conditions = list(before)
    wanted = (*_conditions(before, scope), *_failure(observed.problems), *failed(before, observed.given_up))
    for condition in (*wanted, *_stall(before, pace, due_in, _trouble(summary, observed))):
        conditions = with_condition(conditions, condition, generation, observed.now)
    if not observed.problems:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    if pace.deadline is None:
        conditions = without_condition(conditions, STALLED)
    made = {
        **_counters(lws, observed),
        **_memory(stored, observed),
        "groups": summary.stored(lws["metadata"]["name"]),
        LAST_PROGRESS: last_progress,
        "observedGeneration": generation,
        "conditions": conditions,
    }
    # Zero and absent are the same for readers; the API has always stored absence.
    empty = {name for name, value in made.items() if not value}
    whole = {**stored, **made}
    # Null stands for what could not be read.
    intended = {name: value for name, value in whole.items() if name not in empty and value is not None}
    patch = merge_patch(stored, intended)
    if patch is not None and _only_forgets(patch):
        patch = None
    announce = tuple(_announcements(lws, scope, before, conditions, intended))
    return SetStatus(intended, patch, announce, due_in or None)


def _pace(spec: SetSpec, observed: Observed, scope: _Scope, summary: Summary) -> Pace:
    lws, deadline = spec.lws, spec.progress_deadline
    stored = lws.get("status") or {}
    return Pace(
        deadline=timedelta(seconds=deadline) if deadline is not None else None,
        now=observed.now,
        is_progressing=PROGRESSING in scope.holding,
        was_progressing=is_true(stored.get("conditions"), PROGRESSING),
        is_paused=spec.paused,
        has_moved=observed.has_moved
        or stored.get("observedGeneration") != lws["metadata"].get("generation", 0),
        settled=summary.counts.get(READY, 0),
        waits=observed.waits,
    )


def _memory(stored: Mapping[str, Any], observed: Observed) -> dict[str, Any]:
    """What cannot be found out again. Restarts are counted by passes over groups; those of groups that are no
    longer wanted have nobody else to forget them.
    """
    counted = stored.get("restarts") or {}
    here = {group.index for group in observed.groups} if counted else set()
    indices = {each: index for each in counted if (index := whole_number(each)) is not None}
    wanted = (each for each, index in indices.items() if index in here or index < observed.replicas)
    kept = {each: counted[each] for each in wanted}
    members = {str(index): str(each) for index, each in sorted(observed.members.items())}
    position = {"rollout": dict(observed.rollout)} if observed.rollout is not None else {}
    return {"members": members, "restarts": kept, **position}


def _only_forgets(patch: Mapping[str, Any]) -> bool:
    """Nothing but memory of groups that are gone would be taken away: that can wait for the next write."""
    forgotten = patch.get("members", {})
    return patch.keys() <= {"members"} and (
        forgotten is None or all(value is None for value in forgotten.values())
    )


def _counters(lws: Object, observed: Observed) -> dict[str, Any]:
    """Counters include the surge; names and the collision count are passed on."""
    revisions = observed.revisions
    remembered = {
        "currentRevision": revisions.current,
        "updateRevision": revisions.update,
        "collisionCount": revisions.collisions,
    }
    selector = f"{NAME_LABEL}={lws['metadata']['name']},{WORKER_INDEX_LABEL}=0"
    return {
        "replicas": observed.existing,
        "readyReplicas": sum([group.ready for group in observed.groups]),
        "updatedReplicas": _updated(observed),
        "hpaPodSelector": selector,
        **{field: value for field, value in remembered.items() if value is not None},
    }


def _updated(observed: Observed) -> int:
    """Groups on the target revision. Beside a surge they stay fewer than are asked for until those are all
    settled: Kueue, which takes the rollout for done otherwise, would delete the pods of the surge while it
    stands in for others.
    """
    updated, wanted = sum([group.updated for group in observed.groups]), observed.replicas
    settled = sum([group.settled for group in observed.groups if group.index < wanted])
    is_needed = observed.existing > wanted and settled < wanted
    return min(updated, wanted - 1) if is_needed else updated


def _scope(observed: Observed) -> _Scope:
    wanted = [group for group in observed.groups if group.index < observed.replicas]
    return _Scope(
        replicas=observed.replicas,
        ready=sum([group.ready for group in wanted]),
        updated=sum([group.updated for group in wanted]),
        is_updating=any(group.outdated and group.index >= observed.floor for group in wanted),
    )


def _conditions(stored: Sequence[Mapping[str, Any]], scope: _Scope) -> Iterator[Condition]:
    """The three conditions, those that hold first; one that was never True stays absent instead of False."""
    # An update is over only when all groups are ready again, those below `floor` too.
    is_ending = is_true(stored, UPDATE_IN_PROGRESS) and AVAILABLE not in scope.holding
    if not stored and scope.replicas and PROGRESSING not in scope.holding:
        # Groups that are ready by the first status were created before it, as Events have said.
        yield _false(PROGRESSING, scope)
    for type_ in scope.holding:
        yield _TRUE[type_]
    for type_ in (AVAILABLE, PROGRESSING, UPDATE_IN_PROGRESS):
        if type_ in scope.holding or find(stored, type_) is None:
            continue
        is_still_true = type_ == UPDATE_IN_PROGRESS and is_ending
        yield _TRUE[type_] if is_still_true else _false(type_, scope)


def _false(type_: str, scope: _Scope) -> Condition:
    return Condition(type_, False, _TRUE[type_].reason, _why_false(type_, scope))


def _why_false(type_: str, scope: _Scope) -> str:
    if type_ == PROGRESSING:
        return "No group is being created or replaced"
    if type_ == UPDATE_IN_PROGRESS:
        return "No group is waiting to be updated"
    if scope.ready < scope.replicas:
        return f"{scope.ready} of {scope.replicas} groups are ready"
    return f"All groups are ready, {scope.updated} of {scope.replicas} groups are on the target revision"


def _failure(problems: Sequence[Problem]) -> Iterator[Condition]:
    if problems:
        message = "; ".join(problem.message for problem in problems)[:_LONGEST_MESSAGE]
        yield Condition(REPLICA_FAILURE, True, problems[0].reason, message)


def _stall(
    stored: Sequence[Mapping[str, Any]], pace: Pace, due_in: float | None, why: str
) -> Iterator[Condition]:
    """Absent until it was true once, like the others; without a deadline there is none."""
    if pace.deadline is not None and (due_in == 0 or find(stored, STALLED) is not None):
        yield stalled(pace, pace.deadline, due_in, why)


def _trouble(summary: Summary, observed: Observed) -> str:
    """Which groups a set waits for, and what for."""
    found = [*(problem.message for problem in observed.problems), *map(str, summary.unsettled)]
    return "; ".join(found)[:_LONGEST_TROUBLE]


def _announcements(
    lws: Object,
    scope: _Scope,
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    intended: Mapping[str, Any],
) -> Iterator[Announce]:
    if any(not is_true(before, type_) for type_ in scope.holding):
        yield _announcement(lws, scope, intended.get("readyReplicas", 0))
    stall = find(after, STALLED)
    if stall is not None and is_true(after, STALLED) and not is_true(before, STALLED):
        yield Announce(Reference.to(lws), STALLED, "Update", stall["message"], "Warning")


def _announcement(lws: Object, scope: _Scope, ready: int) -> Announce:
    """One event for all conditions that have become true, in the name of the first that holds."""
    said = _TRUE[scope.holding[0]]
    note = f"{said.message}, with {ready} groups ready of total {scope.replicas} groups"
    return Announce(regarding=Reference.to(lws), reason=said.reason, action="Update", note=note)


# --- Decide whether a change of the status can be batched with later ones. How long it waits is decided
# elsewhere. Conditions, generations, names of revisions and groups above `spec.replicas` are never delayed.


# Changes with every group that gets ready, moves or goes. The last of these changes comes with a condition,
# or `has_shrunk` says so.
_PROGRESS = frozenset(
    {"replicas", "readyReplicas", "updatedReplicas", "members", "groups", LAST_PROGRESS, "conditions"}
)


def can_wait(
    stored: Mapping[str, Any], patch: Mapping[str, Any], progress: Collection[str] = _PROGRESS
) -> bool:
    """It says only how far the set has come. progress: the fields that say that."""
    if not patch.keys() <= set(progress):
        return False
    return "conditions" not in patch or _significant(patch["conditions"]) == _significant(
        stored.get("conditions")
    )


def has_shrunk(stored: Mapping[str, Any], patch: Mapping[str, Any], wanted: int) -> bool:
    """The last group too many is gone, which no condition says: a set that is scaled down stays available.

    Of fifty sets that were scaled down at once the last said so after 13 s, which autoscalers read. wanted:
    groups that are to be there, a surge included.
    """
    before, after = stored.get("replicas"), patch.get("replicas", wanted + 1) or 0
    return is_integer(before) and before > wanted == after


def has_surged(stored: Mapping[str, Any], patch: Mapping[str, Any], replicas: int) -> bool:
    """More groups are on top of `replicas` than the status has said. Kueue makes room for these by what the
    status says, as long as fewer than `replicas` are updated: until then their pods are gated.
    """
    after = {**stored, **patch}
    existing, updated = _count(after, "replicas"), _count(after, "updatedReplicas")
    is_needed_again = updated < replicas <= _count(stored, "updatedReplicas")
    return existing > replicas and (existing > _count(stored, "replicas") or is_needed_again)


def is_first_word(stored: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Nothing was ever said, and all there is to say is that groups are being created."""
    return not stored and [type_ for type_, status, _ in _significant(patch.get("conditions"))] == [
        PROGRESSING
    ]


def _count(status: Mapping[str, Any], field: str) -> int:
    count = status.get(field)
    return count if is_integer(count) else 0


def _significant(conditions: Any) -> list[tuple[str, ...]]:
    """What holds and why, and what does not: without the numbers in messages, and why not."""
    found = [
        (condition["type"], condition["status"], condition.get("reason", ""))
        for condition in conditions or ()
    ]
    return [(type_, status, reason if status == "True" else "") for type_, status, reason in found]


# --- Numbers of a set for metrics, and the names that passes and series use for them.


DESIRED, READY_GROUPS, UPDATED, BY_STATE = "desired", "ready", "updated", "by state"
FAILED, STUCK = "failed", "stalled"
DELAYED = "delayed"
"""A group whose recreation waits for the end of its back-off."""
RECREATED, SPURIOUS = "recreated", "spurious"
"""Groups that this process has deleted to have them made anew; those of them that were replaced for a
revision that means the same as theirs.
"""

CONTAINER_RESTARTED, DISRUPTION, MISSING_REVISION = "ContainerRestarted", "Disruption", "MissingRevision"
POD_DELETED, POD_FAILED, POD_REPLACED, ROLLOUT = "PodDeleted", "PodFailed", "PodReplaced", "Rollout"
RECREATION_REASONS = (
    CONTAINER_RESTARTED,
    DISRUPTION,
    MISSING_REVISION,
    POD_DELETED,
    POD_FAILED,
    POD_REPLACED,
    ROLLOUT,
)
"""Why a group is recreated."""


def figures_of(lws: Object, status: Mapping[str, Any], replicas: int, failed: int) -> Figures:
    """How a set stands. status: the one that is intended. replicas: groups that the user wants. failed:
    groups that have used up their restarts.
    """
    conditions = status.get("conditions")
    rolling = is_true(conditions, UPDATE_IN_PROGRESS)
    numbers: dict[tuple[str, str], float] = {
        (DESIRED, ""): replicas,
        (READY_GROUPS, ""): status.get("readyReplicas", 0),
        (UPDATED, ""): status.get("updatedReplicas", 0),
        (FAILED, ""): failed,
        (STUCK, ""): is_true(conditions, STALLED),
        (ROLLING, ""): rolling,
    }
    counts = (status.get("groups") or {}).get("counts") or {}
    numbers |= {(BY_STATE, state): count for state, count in counts.items()}
    began = (find(conditions, UPDATE_IN_PROGRESS) or {}).get("lastTransitionTime") if rolling else None
    revision = status.get("updateRevision") or ""
    return Figures(KIND, lws["metadata"]["name"], numbers, revision, began or "")


def starts_of(groups: Iterable[GroupFacts], ready: Collection[int]) -> dict[str, str]:
    """By UID of each leader, when it was created if its group is ready, else nothing. ready: indices."""
    return {group.uid: group.created if group.index in ready else "" for group in groups}


def recreated(lws: Object, reason: str) -> Tally:
    """One more group that is made anew; reason: one of `RECREATION_REASONS`."""
    return Tally(KIND, lws["metadata"]["name"], RECREATED, reason)


def replaced_for_nothing(lws: Object) -> Tally:
    """One more group that was replaced for a revision that means the same."""
    return Tally(KIND, lws["metadata"]["name"], SPURIOUS)


def delayed(lws: Object) -> Figures:
    """A group whose recreation waits."""
    return Figures(KIND, lws["metadata"]["name"], {(DELAYED, ""): 1})
