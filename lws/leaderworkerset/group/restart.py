"""Decide whether a failed group is recreated now, later, or left as it is.

`failures` decides what failed; `lws.leaderworkerset.memory` knows how often the group was recreated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lws import timing
from lws.kube.conditions import moment_of, timestamp
from lws.kube.pods import deletion_requested_at
from lws.leaderworkerset.group.failures import Incident, incident_of, is_to_be_judged
from lws.leaderworkerset.group.labels import index_by_name
from lws.leaderworkerset.group.snapshot import GroupSnapshot, group_event
from lws.leaderworkerset.memory import (
    GOING,
    KEPT,
    Restarts,
    is_used_up,
    key_of,
    mark_on,
    memory_of,
    restarts_of,
)
from lws.leaderworkerset.rollout.groups import DesiredGroups, GroupState, group_states
from lws.leaderworkerset.rollout.state import budget_of
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.status.status import delayed, recreated
from lws.runtime.actions import Delete, Merge, Plan, Reference


def plan_restart(group: GroupSnapshot, size: int) -> Plan | None:
    """Plan the restart for an incident in the group; None without one. size: see `incident_of`.

    The restart is written into the status before it is done, and only once: where the deletion fails after
    that, it is repeated without being counted again. One for which the group is not to blame, an eviction, a
    preemption or a drain, waits for no back-off and is not counted.
    """
    incident, index = incident_of(group, size), index_by_name(group.leader)
    mark = mark_on(group.lws, index, group.leader)
    if incident is None and mark != KEPT and is_to_be_judged(group, size):
        waiting_for = "all pods of the group to leave Pending, for one of them was replaced"
        return Plan(again_after=timing.SIBLINGS_SECONDS, waiting_for=waiting_for)
    if incident is None:
        return None
    if mark == GOING:
        return Plan(sequences=((_deletion(group, incident),),))
    past = restarts_of(group.lws, index, key_of(group.leader), group.now)
    # What is kept has failed, whatever takes its pods since.
    is_counted = not incident.is_disruption or mark == KEPT
    if is_counted and is_used_up(group.spec.max_group_restarts, past):
        return _left_as_it_is(group, incident, past, is_news=mark != KEPT)
    if is_counted and past.due > group.now:
        return _delayed(group, incident, past)
    return _unaffordable(group, incident) or _restart(group, incident, past if is_counted else None)


def _restart(group: GroupSnapshot, incident: Incident, past: Restarts | None) -> Plan:
    """past: None for a restart that is not counted."""
    index = index_by_name(group.leader)
    counted = past.and_one(group.now) if past is not None else None
    why = f"group {index} goes because of a disruption, which is not counted"
    if counted is not None:
        why = f"restart {counted.count} of group {index} on revision {counted.key}"
    remember = Merge(
        Reference.to(group.lws),
        {"status": memory_of(index, group.leader, counted, GOING)},
        why=why,
        subresource="status",
    )
    return Plan(sequences=((remember, _deletion(group, incident)),))


def _deletion(group: GroupSnapshot, incident: Incident) -> Delete:
    """In the foreground: the workers go first, so that none meets a leader that is not its own."""
    leader, index = group.leader["metadata"]["name"], index_by_name(group.leader)
    note = f"Worker pod {incident.pod} failed, deleted leader pod {leader} to recreate group {index}"
    return Delete(
        target=Reference.to(group.leader),
        propagation="Foreground",
        why=f"pod {incident.pod}: {incident.why}; the group is recreated as one",
        announce=(group_event(group, "RecreateGroup", "Delete", f"{note}: {incident.why}"),),
        tallies=(recreated(group.lws, incident.reason),),
    )


def _delayed(group: GroupSnapshot, incident: Incident, past: Restarts) -> Plan:
    """Delay the deletion: a deleted leader is recreated at once."""
    index, times = (
        index_by_name(group.leader),
        "once" if past.consecutive == 1 else f"{past.consecutive} times",
    )
    note = (
        f"group {index} was recreated {times} in short order, the next time is not before "
        f"{timestamp(past.due)}: pod {incident.pod}: {incident.why}"
    )
    return Plan(
        announce=(group_event(group, "RecreateGroupDelayed", "Wait", note, "Warning"),),
        again_after=(past.due - group.now).total_seconds(),
        waiting_for=f"the end of its back-off at {timestamp(past.due)}: pod {incident.pod}: {incident.why}",
        figures=delayed(group.lws),
    )


def _left_as_it_is(group: GroupSnapshot, incident: Incident, past: Restarts, is_news: bool) -> Plan:
    """Record it once, for the condition Failed and for later passes."""
    index, leader = index_by_name(group.leader), group.leader["metadata"]["name"]
    why = f"pod {incident.pod}: {incident.why}"
    note = (
        f"group {index} failed and is left as it is for diagnosis: it was recreated {past.count} times on "
        f"this revision, as often as maxGroupRestarts allows; change the template, raise the limit, or "
        f"delete pod {leader}; {why}"
    )
    waiting_for = f"a new template, a higher maxGroupRestarts, or the deletion of pod {leader}: {why}"
    if not is_news:
        return Plan(waiting_for=waiting_for)
    remember = Merge(
        Reference.to(group.lws),
        {"status": memory_of(index, group.leader, replace(past, last=int(group.now.timestamp())), KEPT)},
        why=note,
        announce=(group_event(group, "GroupFailed", "Keep", note, "Warning"),),
        subresource="status",
    )
    return Plan(sequences=((remember,),), waiting_for=waiting_for)


def _unaffordable(group: GroupSnapshot, incident: Incident) -> Plan | None:
    """Waits for the budget of a rollout, None where there is room."""
    # Looked through once: there may be a thousand of them.
    states = group_states(group.siblings, DesiredGroups(group.wanted_key, {}))
    if _is_affordable(group, states):
        return None
    until = _at_the_latest(group, incident, states)
    if until <= group.now:
        return None
    return Plan(
        again_after=min(timing.SIBLINGS_SECONDS, (until - group.now).total_seconds()),
        waiting_for="other groups to be ready before this one, which serves, is recreated, at the latest at "
        f"{timestamp(until)}",
    )


def _at_the_latest(group: GroupSnapshot, incident: Incident, states: Sequence[GroupState]) -> datetime:
    """A rollout that is stuck never makes room: nothing waits longer for it than for the longest back-off,
    counted from when the last group went that is not back yet. So those that wait go one at a time, and none
    of them waits for more turns than there are groups.
    """
    longest, replicas = timedelta(seconds=timing.RESTART_DELAY.longest), group.spec.replicas
    ready = {state.index for state in states if state.ready}
    down = (sibling for sibling in group.siblings if sibling.index < replicas and sibling.index not in ready)
    away = [_went_at(group, each) for each in down]
    return min(max((incident.since, *away)) + longest, incident.since + longest * max(1, replicas))


def _went_at(group: GroupSnapshot, other: GroupFacts) -> datetime:
    """When a group that is not ready stopped being ready, or was recreated."""
    asked = deletion_requested_at(other.leader)
    if asked is None and other.going:
        return group.now
    return asked or moment_of(other.leader["metadata"].get("creationTimestamp")) or group.now


def _is_affordable(group: GroupSnapshot, states: Sequence[GroupState]) -> bool:
    """During a rollout, restart a serving group only if the budget allows.

    One that is down costs nothing. The budget counts as one group at least: where all others are ready, a
    restart is never put off.
    """
    index = index_by_name(group.leader)
    serves = any(state.index == index and state.ready for state in states)
    if not serves or not any(state.outdated for state in states):
        return True
    replicas = group.spec.replicas
    unavailable = max(1, budget_of(group.spec).unavailable)
    return sum(state.ready for state in states) > replicas - unavailable
