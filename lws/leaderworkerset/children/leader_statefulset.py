"""Plan the leader StatefulSet, and which leaders to delete before it is written.

Out: writes in this order: revision, checkpoint, deletions of leaders, StatefulSet. Pods that the StatefulSet
controller gave up creating are retried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lws import timing
from lws.actions import Action, Apply, Delete, Merge, Object, Plan, Postponable, Reference, soonest
from lws.children import Child, plan_obstacle
from lws.kube.conditions import moment_of, timestamp
from lws.kube.differences import patches
from lws.kube.metadata import (
    annotations_of,
    is_controlled_by,
    is_terminating,
    is_tools_own,
    labels_of,
    missing_labels,
    uid_of,
    without_tools_own,
)
from lws.kube.statefulsets import current_revision_of, partition_of
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.assessment import (
    Assessment,
    Position,
    beginning,
    remember,
    remembered_position,
)
from lws.leaderworkerset.assessment.target_revision import Choice, equal_keys
from lws.leaderworkerset.revisions.history import restore
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.rollout.groups import (
    FIELD_MANAGER,
    GroupState,
    LeaderStatefulSet,
)
from lws.leaderworkerset.rollout.plan import is_small_step, plan_rollout
from lws.leaderworkerset.rollout.scale_down import leftovers
from lws.leaderworkerset.rollout.state import Rollout, RolloutState, statefulset_max_unavailable
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.status.figures import ROLLOUT, recreated, replaced_for_nothing
from lws.leaderworkerset.templates.objects import (
    RollingUpdate,
    build_leader_statefulset,
)
from lws_api.leaderworkerset.v1 import NAME_LABEL, PODS_RETRIED_AT_ANNOTATION, REVISION_LABEL

_TEMPLATE, _STRATEGY = ("spec", "template"), ("spec", "updateStrategy")


@dataclass(frozen=True, slots=True)
class LeaderStep:
    """A part of the plan, and the position of the rollout once it is carried out. has_moved: it changes."""

    plan: Plan
    position: Position | None = None
    has_moved: bool = False


def plan_leaders(snapshot: SetSnapshot, assessment: Assessment) -> LeaderStep:
    """Intent before deed: what a crash must not lose is written first."""
    child = Child(assessment.ownership, snapshot.leader, "the former leader StatefulSet")
    blocked = plan_obstacle(snapshot.owner, child)
    return (
        LeaderStep(blocked) if blocked is not None else _roll(snapshot, assessment.target, assessment.rollout)
    )


def _roll(snapshot: SetSnapshot, choice: Choice, state: RolloutState) -> LeaderStep:
    lws, leader, known = snapshot.lws, snapshot.leader, remembered_position(snapshot.lws)
    told = state.statefulset
    rollout = plan_rollout(state)
    if leader is None or told is None:
        created = _create_leaders(snapshot, choice, rollout)
        return LeaderStep(Plan(((*choice.actions, created),), waiting_for=rollout.waiting_for))
    if known is not None and not told.is_current and not (told.observed or current_revision_of(leader)):
        # A StatefulSet learns the former of its two templates by its first report.
        waiting_for = "the StatefulSet controller to report on the revision that the set came from"
        patience = timing.REPORT_WITHIN.total_seconds()
        return LeaderStep(Plan((choice.actions,), waiting_for=waiting_for, again_after=patience))
    unseen = _unseen_surge(snapshot, state, told, rollout)
    if unseen is not None:
        rollout = plan_rollout(replace(state, stays=True))
    if snapshot.leaders_refused:
        # They would come back as they were, and be deleted once more with every try.
        rollout = rollout.within(told)
    position = Position(choice.name, rollout.partition)
    guard = _guard(lws, leader, position, choice.key)
    applying = _apply_leaders(snapshot, leader, choice, rollout)
    applying = _telling_leftovers(snapshot, told, state.groups, applying)
    going = _replace_leaders(snapshot, choice, rollout)
    rehearsal = _rehearse(applying) if going and not told.is_current else ()
    sequence = (*choice.actions, *guard, *rehearsal, *going, *applying)
    # Leaders that the partition covers already have nothing to wait for.
    newly = [each for index, each in zip(rollout.replace, going, strict=True) if index < told.partition]
    small_step = Postponable(Reference.to(leader), (*guard, *newly, *applying))
    # A StatefulSet controller that falls silent must not hold the rollout until the next resync.
    report_due = timing.REPORT_WITHIN.total_seconds() if told.awaited else None
    planned = Plan(
        (sequence,),
        again_after=soonest((report_due, unseen)),
        waiting_for=rollout.waiting_for,
        postponable=(small_step,) if is_small_step(state, rollout) else (),
    )
    return LeaderStep(planned, position, has_moved=bool(guard))


def _unseen_surge(
    snapshot: SetSnapshot, state: RolloutState, told: LeaderStatefulSet, rollout: Rollout
) -> float | None:
    """Seconds until everybody can have seen the surge; None where nothing has to wait for that.

    The step that comes right after the surge never waits. Later ones may give it back, and end that others
    count with it.
    """
    goes_on = rollout.partition < told.partition < state.replicas or rollout.replicas < told.replicas
    is_scaled = not told.is_current or told.last_replicas != state.replicas
    if not goes_on or is_scaled or state.paused or not state.outdated:
        return None
    surge = range(state.replicas, told.replicas)
    created = (moment_of(group.created) for group in snapshot.groups if group.index in surge)
    ages = [abs(snapshot.now - each) for each in created if each is not None]
    unseen = timing.SURGE_SHOWN - min(ages, default=timing.SURGE_SHOWN)
    return unseen.total_seconds() if unseen > timedelta(0) else None


def _rehearse(applying: Iterable[Action]) -> tuple[Apply, ...]:
    """A new template may be refused, by validation or by a policy, and leaders that went for it would come
    back as they were.
    """
    found = (each for each in applying if isinstance(each, Apply))
    why = "would it be taken: what goes before it comes back by it"
    return tuple(replace(each, why=why, announce=(), is_rehearsal=True) for each in found)


def _guard(lws: Object, leader: Object, position: Position, key: str) -> tuple[Action, ...]:
    """What must be remembered before the StatefulSet is told; nothing where it stays where it is."""
    is_new = key_of_template(leader) != key
    if not is_new and position.partition == partition_of(leader):
        return ()
    return (remember(lws, position),) if position != remembered_position(lws) else ()


def _create_leaders(snapshot: SetSnapshot, choice: Choice, planned: Rollout) -> Apply:
    lws = snapshot.lws
    begun = beginning(snapshot, choice, planned)
    then, key, revision = snapshot.spec, choice.key, choice.revision
    if begun.former is not None:
        then, key, revision = SetSpec.of(restore(lws, begun.former)), begun.former.key, begun.former.reference
    update = RollingUpdate(
        begun.rollout.partition, begun.rollout.replicas, statefulset_max_unavailable(snapshot.spec)
    )
    return Apply(
        build_leader_statefulset(then, key, update),
        why=begun.rollout.why,
        announce=events.created_leaders(lws, revision),
        failure=events.failed_leaders(lws, "create"),
    )


def _apply_leaders(
    snapshot: SetSnapshot, stored: Object, choice: Choice, rollout: Rollout
) -> tuple[Apply | Merge, ...]:
    lws = snapshot.lws
    update = RollingUpdate(rollout.partition, rollout.replicas, statefulset_max_unavailable(snapshot.spec))
    intent = build_leader_statefulset(snapshot.spec, choice.key, update, stored)
    paths = patches.changed_paths(intent, stored, FIELD_MANAGER, _is_kept)
    # Without these labels it would drop out of every stream, or count as another revision.
    lost = missing_labels(stored, intent["metadata"]["labels"], (NAME_LABEL, REVISION_LABEL))
    if not paths or (not lost and _is_fought_over(snapshot, stored, intent)):
        return ()
    why = rollout.why or f"changed: {', '.join('.'.join(path) for path in paths[:5])}"
    is_begun = key_of_template(stored) == choice.key
    announce = events.moved_leaders(lws, stored, rollout, choice.revision, is_begun)
    patch = _beside_template(intent, stored, paths)
    if patch is not None:
        patch = without_tools_own(stored, patch)
        return (Merge(Reference.to(stored), patch, why=why, announce=announce),)
    failure = events.failed_leaders(lws, "update")
    applying = Apply(intent, why=why, uid=stored["metadata"]["uid"], announce=announce, failure=failure)
    return (applying, *_take_off_tools_own(stored))


def _take_off_tools_own(stored: Object) -> tuple[Merge, ...]:
    """What an apply leaves, because somebody else has written it."""
    patch = without_tools_own(stored, {})
    if all(
        patches.is_owned(stored, FIELD_MANAGER, ("metadata", field, key))
        for field, keys in patch.get("metadata", {}).items()
        for key in keys
    ):
        return ()
    return (
        Merge(Reference.to(stored), patch, why="a deployment tool would take it for its own, and prune it"),
    )


def _beside_template(
    intent: Object, stored: Object, paths: Sequence[patches.Path]
) -> Mapping[str, Any] | None:
    """A patch in place of the apply, where that could bring fields of the template that were dropped once.

    Since then their feature gate may have been opened, and every leader would be rolled at the pace of the
    StatefulSet controller, for a number of groups or a label. The next template brings them.
    """
    if any(path[:2] in (_TEMPLATE, _STRATEGY) for path in paths):
        # Steps of a rollout are applied: when that was, tells how long a report on it may take.
        return None
    if not patches.was_dropped_below(intent, stored, FIELD_MANAGER, _TEMPLATE):
        return None
    return patches.merge_patch_of(intent, paths)


def _is_fought_over(snapshot: SetSnapshot, stored: Object, intent: Object) -> bool:
    """This very intent was applied already, and what differs since then is no change of the spec."""
    return snapshot.applied == (patches.digest(intent), stored["metadata"].get("generation", 0))


def _is_kept(path: patches.Path) -> bool:
    """What an earlier release copied to the StatefulSet stays until the next rollout writes it anyway."""
    return path[:1] == ("metadata",) and path[1] in ("labels", "annotations") and is_tools_own(path[-1])


def _telling_leftovers(
    snapshot: SetSnapshot,
    stored: LeaderStatefulSet,
    groups: Sequence[GroupState],
    applying: tuple[Apply | Merge, ...],
) -> tuple[Apply | Merge, ...]:
    """The write that scales the set down, with the Event about groups that stay. stored: before it."""
    wanted = snapshot.spec.replicas
    if stored.last_replicas is None or wanted >= stored.last_replicas:
        return applying
    found = leftovers(groups, {group.index: group.leader for group in snapshot.groups}, wanted)
    said = events.left_behind(snapshot.lws, wanted, stored.replicas, found)
    return (*(replace(each, announce=(*each.announce, *said)) for each in applying[:1]), *applying[1:])


def _replace_leaders(snapshot: SetSnapshot, choice: Choice, rollout: Rollout) -> tuple[Action, ...]:
    if not rollout.replace:
        return ()
    pods = {group.index: group.leader for group in snapshot.groups}
    in_vain = equal_keys(snapshot, choice)
    return tuple(
        Delete(
            Reference.to(pods[index]),
            "Foreground",
            why=f"group {index} moves to the new revision",
            tallies=(
                recreated(snapshot.lws, ROLLOUT),
                *([replaced_for_nothing(snapshot.lws)] if _key_of(pods[index]) in in_vain else ()),
            ),
        )
        for index in rollout.replace
    )


def _key_of(leader: Object) -> str:
    return labels_of(leader).get(REVISION_LABEL, "")


_NEVER = datetime.min.replace(tzinfo=UTC)
_MOST_AT_ONCE = timing.RETRY_NEXT_PODS_AFTER // timing.RETRY_PODS_EACH


def plan_retries(snapshot: SetSnapshot) -> Plan:
    """Those that have waited longest come first."""
    refused = _refused(snapshot)
    pause = max(timing.RETRY_PODS_AFTER, len(refused) * timing.RETRY_PODS_EACH)
    waits = [(_last_try(each, snapshot) + pause - snapshot.now, each) for each in refused]
    due = sorted((each for each in waits if each[0] <= timedelta()), key=lambda each: each[0])
    again_after = [wait for wait, _ in waits if wait > timedelta()]
    if due:
        again_after.append(timing.RETRY_NEXT_PODS_AFTER if len(due) > _MOST_AT_ONCE else pause)
    return Plan(
        sequences=tuple((_retry(each, snapshot.now),) for _, each in due[:_MOST_AT_ONCE]),
        again_after=soonest(each.total_seconds() for each in again_after),
    )


def _refused(snapshot: SetSnapshot) -> list[Object]:
    """StatefulSets of the set that are short of pods for that, the leaders' first."""
    if not snapshot.refused_at:
        return []
    leader, uid = snapshot.leader, uid_of(snapshot.lws)
    # Any write that succeeds would count as the end of a refusal of what the leaders' is to be told.
    may_change = leader is not None and is_controlled_by(leader, uid) and not snapshot.leaders_refused
    workers = (group.workers for group in snapshot.groups if not group.leader_terminating)
    return [
        each
        for each in (leader if may_change else None, *workers)
        if each is not None and each["metadata"]["uid"] in snapshot.refused_at and not is_terminating(each)
    ]


def _last_try(statefulset: Object, snapshot: SetSnapshot) -> datetime:
    """When its controller last tried, as far as that is known."""
    retried_at = moment_of(annotations_of(statefulset).get(PODS_RETRIED_AT_ANNOTATION))
    moments = (retried_at, snapshot.refused_at[statefulset["metadata"]["uid"]])
    # A clock that is so far ahead is not believed.
    latest = snapshot.now + timedelta(seconds=timing.SKEW_SECONDS)
    return max((each for each in moments if each is not None and each <= latest), default=_NEVER)


def _retry(statefulset: Object, now: datetime) -> Merge:
    patch = {"metadata": {"annotations": {PODS_RETRIED_AT_ANNOTATION: timestamp(now)}}}
    why = "pods of it were refused, and its controller waits ever longer before it tries again"
    return Merge(Reference.to(statefulset), without_tools_own(statefulset, patch), why=why)
