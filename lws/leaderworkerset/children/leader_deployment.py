"""Plan the Deployment of the leaders of Hash groups, and admit these leaders to the scheduler.

The Deployment controller paces rollouts. Its ReplicaSets choose the groups that a scale-down deletes, except
groups whose leaders have ended. Deletion costs tell the ReplicaSets which groups are in the worst state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from lws.kube.metadata import annotations_of, labels_of, name_of
from lws.kube.nodes import node_of
from lws.kube.ownership import Ownership
from lws.kube.pods import has_ended, has_gate
from lws.kube.quantities import is_integer
from lws.leaderworkerset import events, fields
from lws.leaderworkerset.assessment.assessment import Assessment, recorded_former
from lws.leaderworkerset.assessment.target_revision import TargetRevision, counted_revisions
from lws.leaderworkerset.children.leader_statefulset import (
    paths_to_apply,
    rollout_tallies,
    take_off_tool_keys,
)
from lws.leaderworkerset.group_records import KEPT, inherited_restarts, mark_of, out_of_restarts
from lws.leaderworkerset.pod_identity import group_id, group_name, hash_host_name, is_leader
from lws.leaderworkerset.restart_counts import Counts, count_key
from lws.leaderworkerset.revisions.history import restore
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.rollout.replacement import (
    Leader,
    admit,
    deferral,
    leader_of,
    leaders_of,
    leaders_to_admit,
    max_groups_with_nodes,
    surplus_kept_groups,
)
from lws.leaderworkerset.rollout.scale_down import (
    DELETION_COST_ANNOTATION,
    Rank,
    RankedGroup,
    deletion_costs,
)
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.spec import SetSpec, has_hash_groups
from lws.leaderworkerset.status.problems import force_delete, is_forced
from lws.leaderworkerset.templates.objects import build_leader_deployment
from lws.runtime.actions import Apply, Delete, Merge, Object, Plan, Problem, Reference
from lws_api.leaderworkerset.identity import GroupReplacementPolicy
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_REPLACEMENT_GATE,
    GROUP_RESTART_COUNTS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
)


def plan_deployment(snapshot: SetSnapshot, assessment: Assessment) -> Plan:
    """Record the target revision, then create or update the Deployment."""
    lws, stored, target = snapshot.lws, snapshot.leaders, assessment.target
    spec, key, revision, is_paused = snapshot.spec, target.key, target.revision, snapshot.spec.paused
    if is_paused and not snapshot.has_replica_sets:
        # A paused Deployment creates no ReplicaSet, and therefore no pods.
        is_paused = False
        if (former := recorded_former(snapshot, target)) is not None:
            spec, key, revision = SetSpec.of(restore(lws, former)), former.key, former.reference
    intent = build_leader_deployment(spec, key, is_paused, stored)
    if stored is None:
        announce = events.created_leaders(lws, revision)
        failure = events.failed_leaders(lws, "create")
        create = Apply(intent, why="the set has no leaders yet", announce=announce, failure=failure)
        return Plan(((*target.actions, create),))
    updates: tuple[Apply | Merge, ...] = ()
    if paths := paths_to_apply(snapshot, stored, intent):
        why = f"changed: {', '.join('.'.join(path) for path in paths[:5])}"
        failure = events.failed_leaders(lws, "update")
        of_former = (group for group in snapshot.groups if key != group.leader_key == key_of_template(stored))
        moved = [group.index for group in of_former if not group.is_leader_terminating]
        tallies = rollout_tallies(snapshot, target, moved)
        apply = Apply(intent, why=why, uid=stored["metadata"]["uid"], failure=failure, tallies=tallies)
        updates = (apply, *take_off_tool_keys(stored))
    problems = _paused_by_others(snapshot, assessment)
    costs = _plan_costs(snapshot, assessment)
    if snapshot.rejections:
        # A rejected deletion cost must not prevent the update of the Deployment.
        return Plan(((*target.actions, *updates), *((cost,) for cost in costs)), problems=problems)
    return Plan(((*target.actions, *costs, *updates),), problems=problems)


def _paused_by_others(snapshot: SetSnapshot, assessment: Assessment) -> tuple[Problem, ...]:
    """Report a Deployment that another client has paused, if groups must be created or updated."""
    stored = snapshot.leaders or {}
    if snapshot.spec.paused or not stored["spec"].get("paused"):
        return ()
    if snapshot.has_replica_sets and not assessment.rollout.outdated:
        return ()
    name = name_of(stored)
    note = (
        f"Deployment {name} is paused, and none of its groups is updated: run kubectl rollout resume "
        f"deployment {name}; spec.rolloutStrategy.paused pauses a set"
    )
    return (Problem("DeploymentPaused", note, action="Update"),)


def _plan_costs(snapshot: SetSnapshot, assessment: Assessment) -> tuple[Merge, ...]:
    """Mark the groups that ReplicaSets should delete first, before the Deployment scales them down."""
    candidates = _candidates(snapshot, assessment)
    surge = (snapshot.spec.surge_groups or 0) if any(group.is_leaving for group in candidates) else 0
    surplus = max(len(candidates) - snapshot.spec.replicas - surge, 0)
    return tuple(
        _set_cost(snapshot.lws, candidate, cost) for candidate, cost in deletion_costs(candidates, surplus)
    )


def _candidates(snapshot: SetSnapshot, assessment: Assessment) -> list[RankedGroup]:
    exhausted, stuck = out_of_restarts(snapshot), snapshot.node_losses.stuck_pods()
    lost = {labels_of(stuck_pod.pod).get(GROUP_INDEX_LABEL) for stuck_pod in stuck}
    states = {state.pod: state for state in assessment.groups}
    candidates = []
    for group in snapshot.groups:
        state = states[name_of(group.leader)]
        if state.terminating or has_ended(group.leader):
            continue
        rank = Rank.SOUND if state.ready else Rank.UNREADY
        if not node_of(group.leader) or any(wait.until is None for wait in group.waits):
            rank = Rank.UNSCHEDULED
        elif group.index in exhausted:
            rank = Rank.EXHAUSTED
        elif group_id(group.leader) in lost:
            rank = Rank.LOST
        candidates.append(RankedGroup(group.leader, rank, state.outdated and not snapshot.spec.paused))
    return candidates


def _set_cost(lws: Object, candidate: RankedGroup, cost: str | None) -> Merge:
    leader = candidate.leader
    metadata = {
        # A user may set a deletion cost at the same time.
        "resourceVersion": leader["metadata"]["resourceVersion"],
        "annotations": {DELETION_COST_ANNOTATION: cost},
    }
    why = "the group is not to be deleted first" if cost is None else f"the group {candidate.rank.why}"
    announce = () if cost is None else (events.deleted_first(lws, candidate),)
    return Merge(Reference.to(leader), {"metadata": metadata}, why=why, announce=announce)


def plan_ended(snapshot: SetSnapshot, assessment: Assessment) -> Plan:
    """Delete leaders that have ended and whose groups are not desired any more, because no ReplicaSet does.
    The leader of a group that has used up its restarts is kept, and its gated successor waits, until there is
    a new template or fewer groups are desired.
    """
    live = [group for group in snapshot.groups if not group.is_leader_terminating]
    ended = [group for group in live if has_ended(group.leader)]
    if not ended or assessment.ownership != Ownership.OURS:
        return Plan()
    lws, spec, key = snapshot.lws, snapshot.spec, assessment.target.key
    is_waiting = any(has_gate(group.leader, GROUP_REPLACEMENT_GATE) for group in live)
    is_complete = not is_waiting and len(live) - len(ended) >= spec.replicas
    unneeded = (
        group
        for group in ended
        if (group.leader_key != key and not spec.paused)
        or (is_complete and mark_of(lws, group.index, group.leader) == KEPT)
    )
    why = "the leader pod has ended, and its group is not desired any more"
    return Plan(
        sequences=tuple((Delete(Reference.to(group.leader), "Foreground", why=why),) for group in unneeded)
    )


def plan_node_loss(snapshot: SetSnapshot) -> Plan:
    """Force-delete stuck workers of Hash groups without a leader, if the policy requests it. The next leader
    gets another name, so no pass over a group handles these workers.
    """
    leaders = {name_of(group.leader) for group in snapshot.groups}
    stuck = [
        stuck_pod
        for stuck_pod in snapshot.node_losses.stuck_pods()
        if not is_leader(stuck_pod.pod)
        and annotations_of(stuck_pod.pod).get(LEADER_NAME_ANNOTATION) not in leaders
    ]
    policy = snapshot.policies.node_loss
    return Plan(
        sequences=tuple((force_delete(snapshot.lws, pod),) for pod in stuck if is_forced(pod, policy)),
        stuck_pods=len(stuck),
    )


def plan_succession(snapshot: SetSnapshot, assessment: Assessment) -> Plan:
    """Admit leaders whose previous groups are gone, and release kept groups that are not desired any more.
    The restarts of a previous group are handed on first, because the new group has another number. A kept
    group is released by its own pass, after the annotation of its leader is removed here.
    """
    lws, revision = snapshot.lws, assessment.target.key
    live = {name_of(group.leader): group for group in snapshot.groups if not group.is_leader_terminating}
    gated = {name: group for name, group in live.items() if has_gate(group.leader, GROUP_REPLACEMENT_GATE)}
    kept_groups = {
        name_of(group.leader): group
        for group in snapshot.groups
        if group.is_exhausted and group.is_leader_terminating
    }
    is_counted = GROUP_RESTART_COUNTS_ANNOTATION in annotations_of(lws)
    if not (gated or kept_groups or is_counted) or assessment.ownership != Ownership.OURS:
        return Plan()
    if clashing := _delete_clashing(snapshot.groups, gated):
        return Plan(clashing)
    leaders = leaders_of([group.leader for group in live.values()], revision)
    ended = [leader_of(group.leader, revision) for group in kept_groups.values()]
    released = [
        kept_groups.pop(leader.name) for leader in surplus_kept_groups(ended, leaders, snapshot.spec.replicas)
    ]
    staying = [*live.values(), *kept_groups.values()]
    counts = Counts.of(lws, {(group.leader_key or "", group.index) for group in (*staying, *released)})
    starts, used_up, before = _starts(snapshot, assessment), frozenset[str](), None
    while used_up != before:
        # A leader without restarts left stays gated, and must not take the place of another in its wave.
        before = used_up
        passed = Counter(leader.revision for leader in leaders if leader.name in used_up)
        more = None if starts is None else {key: most + passed[key] for key, most in starts.items()}
        chosen = _chosen(snapshot, leaders, more)
        inherited = counts.inherited(_count_key(gated[leader.name]) for leader in chosen)
        former = [gated[leader.name] for leader in chosen if not leader.is_current]
        used_up = before | _used_up(snapshot, counts, inherited, former)
    successors = [gated.pop(leader.name) for leader in chosen if leader.name not in used_up]
    merge = counts.hand_on(
        lws,
        {key: inherited[key] for key in map(_count_key, successors) if key in inherited},
        [*map(_count_key, released)],
        spare=_spare_places(snapshot, leaders, len(kept_groups) + len(successors)),
        live=counted_revisions(snapshot, assessment.target, assessment.rollout.is_done),
    )
    first = (*([merge] if merge is not None else ()), *_hand_on_records(lws, staying, successors))
    why = "the set was scaled down, and the group is not desired any more"
    unmarked = {"metadata": {"annotations": {RESTART_BUDGET_EXHAUSTED_ANNOTATION: None}}}
    writes = (
        *(Merge(Reference.to(group.leader), unmarked, why=why) for group in released),
        *(admit(lws, group.leader) for group in successors),
    )
    later = {leader.name for leader in _chosen(snapshot, leaders)} & gated.keys() - used_up
    is_reported = snapshot.teardowns and not _is_immediate(lws)
    deferred = [group for name, group in gated.items() if is_reported and name not in later]
    return Plan(
        sequences=((*first, *writes),) if first else tuple((write,) for write in writes),
        announce=tuple(deferral(lws, group.leader, len(snapshot.teardowns)) for group in deferred),
        waiting_for=f"groups that have started to be ready, before {len(later)} more start" if later else "",
    )


def _count_key(group: GroupFacts) -> str:
    return count_key(group.leader)


def _is_immediate(lws: Object) -> bool:
    return bool(fields.GROUP_REPLACEMENT_POLICY.stored_in(lws) == GroupReplacementPolicy.IMMEDIATE)


def _chosen(
    snapshot: SetSnapshot, leaders: Sequence[Leader], starts: Mapping[str, int] | None = None
) -> tuple[Leader, ...]:
    """Return the gated leaders that previous groups allow to be scheduled. starts: see `leaders_to_admit`."""
    spec, is_immediate = snapshot.spec, _is_immediate(snapshot.lws)
    surge = spec.surge_groups or 0
    return leaders_to_admit(leaders, snapshot.teardowns, spec.replicas, surge, is_immediate, starts)


def started_groups(snapshot: SetSnapshot, target: TargetRevision) -> dict[str, int]:
    """Return how many groups of each revision have started, to be recorded in `status.started`; empty without
    `startStrategy`.

    Lost groups are replaced up to this number without waiting for a wave: no pod shows that they existed. A
    revision that becomes the target again, and groups that a scale-down has removed, start in waves.
    """
    spec, lws = snapshot.spec, snapshot.lws
    if spec.start_strategy is None or not has_hash_groups(lws):
        return {}
    status = lws.get("status") or {}
    recorded, started = status.get("started"), _admitted(snapshot)
    # A ReplicaSet may have lost all of its leaders for a moment.
    keys = {group.leader_key for group in snapshot.groups} | snapshot.live_keys
    keys = keys | {target.key} if status.get("updateRevision") == target.name else keys - {target.key}
    for key, count in recorded.items() if isinstance(recorded, Mapping) else ():
        if key in keys and is_integer(count):
            started[key] = max(started[key], count)
    return {key: min(count, spec.replicas) for key, count in sorted(started.items()) if spec.replicas}


def _admitted(snapshot: SetSnapshot) -> Counter[str]:
    """Count the live groups of each revision whose leaders are not gated."""
    return Counter(
        group.leader_key or ""
        for group in snapshot.groups
        if not group.is_leader_terminating and not has_gate(group.leader, GROUP_REPLACEMENT_GATE)
    )


def _starts(snapshot: SetSnapshot, assessment: Assessment) -> dict[str, int] | None:
    """Return how many groups of each revision may start by `startStrategy`; None without it."""
    strategy, ready_groups = snapshot.spec.start_strategy, assessment.rollout.ready
    if strategy is None:
        return None
    started, admitted = started_groups(snapshot, assessment.target), _admitted(snapshot)
    ready = Counter(group.leader_key or "" for group in snapshot.groups if group.index in ready_groups)
    keys = {group.leader_key or "" for group in snapshot.groups}
    return {key: max(strategy.most(ready[key]), started.get(key, 0)) - admitted[key] for key in keys}


def _used_up(
    snapshot: SetSnapshot, counts: Counts, inherited: Mapping[str, str], former: Iterable[GroupFacts]
) -> set[str]:
    """Return the names of gated leaders of previous revisions that have no restarts left. The groups that
    they replace are released instead of kept, because the rollout replaces them.
    """
    budget, deployment = snapshot.spec.restart_budget, snapshot.leaders or {}
    if budget is None or deployment["spec"].get("paused"):
        return set()
    keys = {name_of(group.leader): _count_key(group) for group in former}
    return {name for name, key in keys.items() if counts.stored.get(inherited.get(key, key), 0) >= budget}


def _spare_places(snapshot: SetSnapshot, leaders: Sequence[Leader], occupied: int) -> int:
    """Return how many groups may be created. occupied: places of kept groups and of leaders
    being admitted.
    """
    spec = snapshot.spec
    most = max_groups_with_nodes(leaders, snapshot.teardowns, spec.replicas, spec.surge_groups or 0)
    return max(most - occupied - sum(not leader.is_gated for leader in leaders), 0)


def _hand_on_records(
    lws: Object, staying: Iterable[GroupFacts], successors: Iterable[GroupFacts]
) -> tuple[Merge, ...]:
    patch = inherited_restarts(
        lws,
        {group.index for group in staying},
        [(group.index, group.leader_key or "") for group in successors],
    )
    if not patch:
        return ()
    why = "new groups take over the restart counts of previous ones"
    return (Merge(Reference.to(lws), {"status": {"restarts": patch}}, why=why, subresource="status"),)


def _delete_clashing(
    groups: Iterable[GroupFacts], gated: Mapping[str, GroupFacts]
) -> tuple[tuple[Delete, ...], ...]:
    """Delete gated leaders whose host name another group or object has; their successors get other keys. Two
    groups may need the same host name because it contains only 8 of the 40 digits of a key.
    """
    taken = {group_name(group.leader) for group in groups if name_of(group.leader) not in gated}
    deletes = []
    for group in sorted(gated.values(), key=lambda group: (group.created, name_of(group.leader))):
        host, key = group_name(group.leader), labels_of(group.leader).get(GROUP_KEY_LABEL, "")
        is_by_key = host == hash_host_name(labels_of(group.leader).get(NAME_LABEL, ""), key)
        if is_by_key and (host in taken or group.name_clash is not None):
            why = f"the host name {host} is taken: the next leader gets another one"
            deletes.append((Delete(Reference.to(group.leader), "Background", why=why),))
        taken.add(host)
    return tuple(deletes)
