"""Decide whether a failed group is recreated now, later, or kept for diagnosis.

`failures` decides whether a group has failed, and `lws.leaderworkerset.group_records` counts its restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lws import timing
from lws.kube.conditions import moment_of, timestamp
from lws.kube.pods import deletion_requested_at
from lws.leaderworkerset.group.exhaustion import plan_exhaustion
from lws.leaderworkerset.group.failures import Incident, incident_of, is_to_be_judged
from lws.leaderworkerset.group.snapshot import GroupSnapshot, group_event
from lws.leaderworkerset.group_records import (
    DELETING,
    KEPT,
    Restarts,
    is_used_up,
    mark_of,
    record_patch,
    restarts_of,
)
from lws.leaderworkerset.pod_identity import MOST_GROUP_NUMBER, group_id, group_number, is_of_hash_group
from lws.leaderworkerset.restart_counts import InvalidCounts, count_key, counts_in, increment, is_counted
from lws.leaderworkerset.rollout.groups import DesiredGroups, GroupState, group_states
from lws.leaderworkerset.rollout.replacement import deletion_of
from lws.leaderworkerset.rollout.state import rollout_budget
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.status.status import delay_figures, recreation_tally
from lws.runtime.actions import Announce, Delete, Merge, Plan, Reference


def plan_restart(group: GroupSnapshot, size: int) -> Plan | None:
    """Plan the restart of a group that has an incident; None if it has none.

    The restart is recorded in the status first, and only once: if the deletion then fails, it is repeated
    without being counted again. A restart for a disruption (eviction, preemption, drain) is not counted and
    has no backoff. size: the number of pods of the group, as in `incident_of`.
    """
    incident, index = incident_of(group, size), group_number(group.leader)
    mark = mark_of(group.lws, index, group.leader)
    if incident is None and mark != KEPT and is_to_be_judged(group, size):
        waiting_for = "all pods of the group to leave Pending, for one of them was replaced"
        return Plan(again_after=timing.SIBLINGS_RECHECK_SECONDS, waiting_for=waiting_for)
    if incident is None:
        return None
    if mark == DELETING:
        return Plan(sequences=(_deletion(group, incident),))
    past = restarts_of(group.lws, index, group.leader, group.now)
    # A kept group counts as failed even if its pods are disrupted later.
    if incident.is_disruption and mark != KEPT:
        return _wait_for_budget(group) or _restart(group, incident, None)
    if is_used_up(group.spec.max_group_restarts, past):
        return _keep_failed_group(group, incident, past, is_news=mark != KEPT)
    if group.spec.counts_restarts:
        return _restart_by_upstreams_rules(group, incident, past)
    if past.due > group.now:
        times = "once" if past.consecutive == 1 else f"{past.consecutive} times"
        return _delay_restart(group, incident, f"{times} in quick succession", past.due)
    return _wait_for_budget(group) or _restart(group, incident, past)


def _restart_by_upstreams_rules(group: GroupSnapshot, incident: Incident, past: Restarts) -> Plan:
    """Restart by upstream's rules: the count is an annotation of the set, and no stable time resets it. A
    restart that is counted was decided before the manager ended or a write failed, and is only completed.
    """
    try:
        count = counts_in(group.lws).get(count_key(group.leader), 0)
    except InvalidCounts as error:
        return error.wait
    if is_counted(group.lws, group.leader):
        return _restart(group, incident, past)
    budget, backoff = group.spec.restart_budget, group.spec.restart_backoff
    if budget is not None and count >= budget:
        return plan_exhaustion(group)
    due = past.due
    if backoff is not None:
        # The clock of the API server may be ahead, but no leader fails before it is created.
        created = moment_of(group.leader["metadata"].get("creationTimestamp")) or due
        due = min(created, group.failed_since or created) + backoff.delay(count)
    if due > group.now:
        times = "once" if count == 1 else f"{count} times"
        return _delay_restart(group, incident, f"{times} on this revision", due)
    return _wait_for_budget(group) or _restart(group, incident, past)


def _restart(group: GroupSnapshot, incident: Incident, past: Restarts | None) -> Plan:
    """Record the restart, then delete the group. past: earlier restarts; None if this one is not counted."""
    name = group_id(group.leader)
    counted = past.incremented(group.now) if past is not None else None
    why = f"group {name} is recreated because of a disruption, which is not counted"
    if counted is not None:
        why = f"restart {counted.count} of group {name} on revision {counted.key}"
    first: tuple[Merge, ...] = ()
    if past is not None and group.spec.counts_restarts and not is_counted(group.lws, group.leader):
        first = (increment(group.lws, group.leader, (sibling.uid for sibling in group.siblings)),)
    record = _record(group, counted, DELETING, why)
    return Plan(sequences=((*first, record, *_deletion(group, incident)),))


def _record(
    group: GroupSnapshot, restarts: Restarts | None, mark: str, why: str, announce: tuple[Announce, ...] = ()
) -> Merge:
    """Record the restarts and the mark of the group in the status of its set, as in `record_patch`."""
    patch = {"status": record_patch(group_number(group.leader), group.leader, restarts, mark)}
    return Merge(Reference.to(group.lws), patch, why=why, announce=announce, subresource="status")


def _deletion(group: GroupSnapshot, incident: Incident) -> tuple[Delete, ...]:
    leader, index = group.leader["metadata"]["name"], group_id(group.leader)
    note = f"Worker pod {incident.pod} failed, deleted leader pod {leader} to recreate group {index}"
    return deletion_of(
        group.leader,
        group.worker_statefulset,
        why=f"pod {incident.pod}: {incident.why}; the group is recreated as one",
        announce=(group_event(group, "RecreateGroup", "Delete", f"{note}: {incident.why}"),),
        tallies=(recreation_tally(group.lws, incident.reason),),
    )


def _delay_restart(group: GroupSnapshot, incident: Incident, times: str, due: datetime) -> Plan:
    """Delay the deletion of the leader, because a deleted leader is recreated at once.
    times: a phrase that says how often the group was recreated.
    """
    note = (
        f"group {group_id(group.leader)} was recreated {times}; next attempt not before "
        f"{timestamp(due)}: pod {incident.pod}: {incident.why}"
    )
    return Plan(
        announce=(group_event(group, "RecreateGroupDelayed", "Wait", note, "Warning"),),
        again_after=(due - group.now).total_seconds(),
        waiting_for=f"the end of its backoff at {timestamp(due)}: pod {incident.pod}: {incident.why}",
        figures=delay_figures(group.lws),
    )


def _keep_failed_group(group: GroupSnapshot, incident: Incident, past: Restarts, is_news: bool) -> Plan:
    """Keep the failed group. Record that once, for the condition Failed and for later passes."""
    index, leader = group_id(group.leader), group.leader["metadata"]["name"]
    why = f"pod {incident.pod}: {incident.why}"
    note = (
        f"group {index} failed and is left as it is for diagnosis: it was recreated {past.count} times on "
        f"this revision, as often as maxGroupRestarts allows; change the template, raise the limit, or "
        f"delete pod {leader}; {why}"
    )
    waiting_for = f"a new template, a higher maxGroupRestarts, or the deletion of pod {leader}: {why}"
    if not is_news:
        return Plan(waiting_for=waiting_for)
    event = group_event(group, "GroupFailed", "Keep", note, "Warning")
    record = _record(group, replace(past, last=int(group.now.timestamp())), KEPT, note, (event,))
    return Plan(sequences=((record,),), waiting_for=waiting_for)


def _wait_for_budget(group: GroupSnapshot) -> Plan | None:
    """Wait until the budget of a rollout allows the restart; None if it may happen now."""
    states = group_states(group.siblings, DesiredGroups(group.target_key, {}))
    if _is_affordable(group, states):
        return None
    until = _latest_restart(group, states)
    if until <= group.now:
        return None
    return Plan(
        again_after=min(timing.SIBLINGS_RECHECK_SECONDS, (until - group.now).total_seconds()),
        waiting_for="other groups to be ready before this one, which serves, is recreated, at the latest at "
        f"{timestamp(until)}",
    )


def _latest_restart(group: GroupSnapshot, states: Sequence[GroupState]) -> datetime:
    """Return the latest time of the restart, which must be limited because a stuck rollout never frees its
    budget. It is the longest backoff after the last deletion of a group that is not ready. So waiting groups
    are recreated one at a time, and each waits for at most one turn per group.
    """
    longest, replicas = timedelta(seconds=timing.RESTART_DELAY.longest), group.spec.replicas
    ready = {state.index for state in states if state.ready}
    end = MOST_GROUP_NUMBER if is_of_hash_group(group.leader) else replicas - 1
    down = (sibling for sibling in group.siblings if sibling.index <= end and sibling.index not in ready)
    deleted = [_deleted_at(group, sibling) for sibling in down]
    since = group.failed_since or group.now
    last = max((since, *deleted))
    # Only the smaller duration is added to a time: the other one may be thousands of years.
    return since + min(last - since + longest, longest * max(1, replicas))


def _deleted_at(group: GroupSnapshot, sibling: GroupFacts) -> datetime:
    """Return when the leader of a group that is not ready was deleted or recreated."""
    requested = deletion_requested_at(sibling.leader)
    if requested is None and sibling.is_being_deleted:
        return group.now
    return requested or moment_of(sibling.leader["metadata"].get("creationTimestamp")) or group.now


def _is_affordable(group: GroupSnapshot, states: Sequence[GroupState]) -> bool:
    """Return whether the budget of a rollout allows the restart. Restarting a group that is not ready costs
    nothing. The budget is at least one group, so a restart is never delayed if all other groups are ready.
    """
    index = group_number(group.leader)
    serves = any(state.index == index and state.ready for state in states)
    if not serves or not any(state.outdated for state in states):
        return True
    replicas = group.spec.replicas
    unavailable = max(1, rollout_budget(group.spec).unavailable)
    return sum(state.ready for state in states) > replicas - unavailable
