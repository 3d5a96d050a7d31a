"""What must be done for one set: record its revision, move its leaders one step, give it a Service, say how
it is.

In: a SetSnapshot. Out: a Plan. This file is the table of contents; each question is answered in a file of
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lws.actions import Action, Apply, Create, Delete, Merge, Object, Plan, Reference, Status
from lws.kube import applied, quantities
from lws.kube.metadata import is_controlled_by, is_terminating, missing_labels
from lws.kube.names import byte_length, tightest_derived_name
from lws.kube.ownership import Standing, clash_note, standing_of
from lws.kube.statefulsets import update_revision_of
from lws.leaderworkerset import announcements, spec
from lws.leaderworkerset.groups import (
    FIELD_MANAGER,
    PATIENCE,
    GroupState,
    Wanted,
    group_states,
    leader_statefulset,
)
from lws.leaderworkerset.objects import (
    RollingUpdate,
    build_adoption,
    build_leader_statefulset,
    build_service,
    is_tools_own,
)
from lws.leaderworkerset.revision_choice import (
    Choice,
    choose_revision,
    former_revision,
    plan_adoption,
    plan_pruning,
)
from lws.leaderworkerset.revisions import restore
from lws.leaderworkerset.rollout import plan_rollout
from lws.leaderworkerset.rollout_state import Budget, Rollout, RolloutState, budget
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status import Observed, Problem, Revisions, is_update_done, set_status
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL, SubdomainPolicy

# A clash ends by somebody else's deed, which no event of ours may show.
_LOOK_AGAIN_SECONDS = 30.0

_DROPS_START_ORDINAL = Problem(
    "StartOrdinalUnsupported",
    "the API server drops spec.ordinals.start of StatefulSets, so workers would be taken for leaders and no "
    "more of them are created: requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature",
)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one part of the pass contributes to the plan; the fields are those of Plan."""

    sequence: tuple[Action, ...] = ()
    problem: Problem | None = None
    waiting_for: str = ""
    again_after: float | None = None


def plan(snapshot: SetSnapshot) -> Plan:
    """One step towards what the set asks for, and its status."""
    if is_terminating(snapshot.lws):
        # Everything hangs from the set by owner references: the garbage collector takes it down.
        return Plan(waiting_for="the set to be gone")
    standing = standing_of(
        snapshot.leader,
        spec.uid_of(snapshot.lws),
        {NAME_LABEL: spec.name_of(snapshot.lws)},
        snapshot.owners_alive,
    )
    choice = choose_revision(snapshot, standing)
    groups = _groups(snapshot, choice)
    leaders = _plan_leaders(snapshot, standing, choice, groups)
    service = _plan_service(snapshot)
    problems = _problems(snapshot, (leaders, service))
    sequences = [leaders.sequence, service.sequence, plan_adoption(snapshot, choice)]
    is_done = standing == Standing.OURS and is_update_done(
        groups, spec.replicas_of(snapshot.lws), _floor(snapshot)
    )
    if is_done:
        sequences.append(plan_pruning(snapshot, choice))
    revisions = Revisions()
    # Otherwise nothing of that name exists.
    if leaders.sequence[: len(choice.actions)] == choice.actions:
        current = choice.name if is_done else former_revision(snapshot, choice)
        revisions = Revisions(current, choice.name, choice.collisions)
    status = _plan_status(snapshot, groups, problems, revisions)
    return Plan(
        sequences=tuple(sequence for sequence in sequences if sequence),
        statuses=(status,) if status is not None else (),
        announce=announcements.problems(snapshot.lws, problems),
        again_after=leaders.again_after or service.again_after,
        waiting_for=leaders.waiting_for or service.waiting_for,
    )


def _plan_leaders(
    snapshot: SetSnapshot, standing: Standing, choice: Choice, groups: tuple[GroupState, ...]
) -> _Part:
    """Revision first, then leaders that must go, then the leader StatefulSet: intent before deed."""
    lws, leader = snapshot.lws, snapshot.leader
    if leader is not None and standing == Standing.CLASH:
        note = clash_note(leader, "LeaderWorkerSet", spec.name_of(lws))
        return _Part(problem=Problem("NameClash", note), waiting_for=note, again_after=_LOOK_AGAIN_SECONDS)
    if standing == Standing.LEAVING:
        return _Part(waiting_for="the former leader StatefulSet to be gone", again_after=_LOOK_AGAIN_SECONDS)
    if leader is not None and standing == Standing.ORPHAN:
        # Its pods are looked at only once it is ours: nothing but the owner changes until then.
        return _adopt(snapshot, leader)
    position = leader_statefulset(leader, choice.key, snapshot.now) if leader is not None else None
    state = RolloutState(
        replicas=spec.replicas_of(lws),
        budget=_budget(lws),
        floor=_floor(snapshot),
        groups=groups,
        statefulset=position,
        paused=spec.is_paused(lws),
    )
    rollout = plan_rollout(state)
    return _Part(
        (*choice.actions, *_replace_leaders(snapshot, rollout), *_apply_leaders(snapshot, choice, rollout)),
        waiting_for=rollout.waiting_for,
        # A StatefulSet controller that falls silent must not hold the rollout until the next resync.
        again_after=PATIENCE.total_seconds() if position is not None and position.awaited else None,
    )


def _apply_leaders(snapshot: SetSnapshot, choice: Choice, rollout: Rollout) -> tuple[Action, ...]:
    lws, stored = snapshot.lws, snapshot.leader
    update = RollingUpdate(rollout.partition, rollout.replicas, _max_unavailable(lws))
    intent = build_leader_statefulset(lws, choice.key, update)
    if stored is None:
        announce = announcements.created_leaders(lws, choice.revision)
        failure = announcements.failed_leaders(lws, "create")
        return (Apply(intent, why=rollout.why, announce=announce, failure=failure),)
    changed = applied.differences(intent, stored, FIELD_MANAGER, _is_kept_annotation)
    # Without these labels it would drop out of every stream, or count as another revision.
    lost = missing_labels(stored, intent["metadata"]["labels"], (NAME_LABEL, REVISION_LABEL))
    if not changed or (not lost and _is_fought_over(snapshot, stored, intent)):
        return ()
    # The step that starts a rollout is announced by the revision itself.
    moved = choice.revision if not choice.is_new else None
    return (
        Apply(
            intent,
            why=rollout.why or f"changed: {', '.join(changed[:5])}",
            uid=stored["metadata"]["uid"],
            announce=announcements.moved_leaders(lws, stored, rollout.partition, rollout.replicas, moved),
            failure=announcements.failed_leaders(lws, "update"),
        ),
    )


def _is_fought_over(snapshot: SetSnapshot, stored: Object, intent: Object) -> bool:
    """This very intent was applied already, and what differs since then is no change of the spec."""
    return snapshot.applied == (applied.digest(intent), stored["metadata"].get("generation", 0))


def _is_kept_annotation(path: applied.Path) -> bool:
    """What an earlier release copied to the StatefulSet stays until the next rollout writes it anyway."""
    return path[:2] == ("metadata", "annotations") and len(path) == 3 and is_tools_own(path[2])


def _replace_leaders(snapshot: SetSnapshot, rollout: Rollout) -> tuple[Action, ...]:
    pods = {group.index: group.leader for group in snapshot.groups}
    return tuple(
        Delete(Reference.to(pods[index]), "Foreground", why=f"group {index} moves to the new revision")
        for index in rollout.replace
    )


def _adopt(snapshot: SetSnapshot, orphan: Object) -> _Part:
    if not snapshot.is_set_alive:
        return _Part(waiting_for="the set to be seen alive before it adopts anything")
    why = f"the {orphan['kind']} of the set has no owner"
    return _Part((Merge(Reference.to(orphan), build_adoption(orphan, snapshot.lws), why=why),))


def _plan_service(snapshot: SetSnapshot) -> _Part:
    """The shared headless Service. It stays when the policy changes: groups may still be using it."""
    lws, service = snapshot.lws, snapshot.service
    if not _needs_shared_service(snapshot):
        return _Part()
    name = spec.name_of(lws)
    standing = standing_of(service, spec.uid_of(lws), {NAME_LABEL: name}, snapshot.owners_alive)
    if standing == Standing.ABSENT:
        intent = build_service(name, name, {NAME_LABEL: name}, lws)
        failure = announcements.failed_service(lws)
        return _Part((Create(intent, why="pods of the set find each other through it", failure=failure),))
    if service is not None and standing == Standing.ORPHAN:
        return _adopt(snapshot, service)
    if service is not None and standing == Standing.CLASH:
        note = clash_note(service, "LeaderWorkerSet", name)
        return _Part(problem=Problem("NameClash", note), waiting_for=note, again_after=_LOOK_AGAIN_SECONDS)
    labels = missing_labels(service, {NAME_LABEL: name}, (NAME_LABEL,)) if service is not None else {}
    if service is not None and standing == Standing.OURS and labels:
        # Without it the Service would drop out of every stream.
        patch = {"metadata": {"labels": labels}}
        return _Part((Merge(Reference.to(service), patch, why="its name label was edited"),))
    return _Part(waiting_for="the former Service to be gone" if standing == Standing.LEAVING else "")


def _needs_shared_service(snapshot: SetSnapshot) -> bool:
    """Groups whose turn in a rollout has not come keep the subdomain of their own revision."""
    lws, live_keys = snapshot.lws, snapshot.live_keys
    running = [restore(lws, each) for each in snapshot.revisions if each.key in live_keys and not each.broken]
    return any(spec.subdomain_policy_of(each) == SubdomainPolicy.SHARED for each in (lws, *running))


def _plan_status(
    snapshot: SetSnapshot,
    groups: tuple[GroupState, ...],
    problems: Sequence[Problem],
    revisions: Revisions,
) -> Status | None:
    lws = snapshot.lws
    leader_status = (snapshot.leader or {}).get("status") or {}
    is_ours = snapshot.leader is not None and is_controlled_by(snapshot.leader, spec.uid_of(lws))
    status = set_status(
        lws,
        Observed(
            replicas=spec.replicas_of(lws),
            now=snapshot.now,
            floor=_floor(snapshot),
            groups=groups,
            existing=int(leader_status.get("replicas") or 0) if is_ours else 0,
            revisions=revisions,
            problems=tuple(problems),
        ),
    )
    return Status(Reference.to(lws), status.patch, status.announce) if status.patch is not None else None


def _problems(snapshot: SetSnapshot, parts: Sequence[_Part]) -> tuple[Problem, ...]:
    found = [part.problem for part in parts if part.problem is not None]
    if snapshot.drops_start_ordinal and spec.size_of(snapshot.lws) > 1:
        found.append(_DROPS_START_ORDINAL)
    owner = spec.name_of(snapshot.lws)
    obstacles = [group.obstacle for group in snapshot.groups if group.obstacle is not None]
    found += [Problem("NameClash", clash_note(each, "LeaderWorkerSet", owner)) for each in obstacles]
    too_long = _name_too_long(snapshot.lws)
    return (*found, too_long) if too_long is not None else tuple(found)


def _name_too_long(lws: Object) -> Problem | None:
    """Admission refuses such names; the scale subresource passes it by."""
    replicas = spec.replicas_of(lws)
    if replicas == 0:
        return None
    highest = replicas + _budget(lws).surge - 1
    derived = tightest_derived_name(highest, spec.size_of(lws))
    length = byte_length(spec.name_of(lws))
    if length <= derived.room:
        return None
    return Problem(
        "NameTooLong",
        f"the name has {length} bytes, at {replicas} replicas it may have {derived.room}: {derived.purpose} "
        f"({derived.pattern}) would be too long; scale down or use a shorter name",
    )


def _groups(snapshot: SetSnapshot, choice: Choice) -> tuple[GroupState, ...]:
    update_revision = update_revision_of(snapshot.leader) if snapshot.leader is not None else ""
    return group_states(snapshot.groups, Wanted(choice.key, choice.size_of, update_revision))


def _budget(lws: Object) -> Budget:
    configured = spec.rolling_update_of(lws)
    replicas = spec.replicas_of(lws)
    unavailable = quantities.scaled(configured["maxUnavailable"], replicas, round_up=False)
    surge = quantities.scaled(configured["maxSurge"], replicas, round_up=True)
    return budget(replicas, unavailable, surge)


def _max_unavailable(lws: Object) -> int:
    """What the StatefulSet is told, where it listens: at least 1 (StatefulSet API), the surge on top."""
    configured = spec.rolling_update_of(lws)
    replicas = spec.replicas_of(lws)
    unavailable = quantities.scaled(configured["maxUnavailable"], replicas, round_up=False)
    return max(
        1, unavailable + min(quantities.scaled(configured["maxSurge"], replicas, round_up=True), replicas)
    )


def _floor(snapshot: SetSnapshot) -> int:
    partition: int = spec.rolling_update_of(snapshot.lws)["partition"]
    return max(0, partition)
