"""Is a group recreated now, later, or left as it is?

In: a GroupSnapshot. Out: the part of the plan that does it, or says what is waited for. What befell the group
is told by `incident`; how often that was by `lws.leaderworkerset.restarts`.
"""

from __future__ import annotations

from dataclasses import replace

from lws.actions import Announce, Delete, EventType, Merge, Plan, Reference
from lws.group.identity import index_by_name
from lws.group.incident import Incident, incident_of, is_to_be_judged
from lws.group.snapshot import GroupSnapshot
from lws.kube.conditions import timestamp
from lws.leaderworkerset import spec
from lws.leaderworkerset.groups import Wanted, group_states
from lws.leaderworkerset.limits import budget_of
from lws.leaderworkerset.restarts import (
    GOING,
    KEPT,
    Restarts,
    is_used_up,
    key_of,
    mark_on,
    memory_of,
    restarts_of,
)

# Other groups that get ready wake their set, not this group; nor do its own pods that come up.
_LOOK_AGAIN_SECONDS = 5.0


def plan_restart(group: GroupSnapshot, size: int) -> Plan | None:
    """What follows from an incident in the group, None without one. size: see `incident_of`.

    The restart is written into the status before it is done, and only once: where the deletion fails after
    that, it is repeated without being counted again.
    """
    incident, index = incident_of(group, size), index_by_name(group.leader)
    mark = mark_on(group.lws, index, group.leader)
    if incident is None and mark != KEPT and is_to_be_judged(group, size):
        waiting_for = "all pods of the group to leave Pending, for one of them was replaced"
        return Plan(again_after=_LOOK_AGAIN_SECONDS, waiting_for=waiting_for)
    if incident is None:
        return None
    if mark == GOING:
        return Plan(sequences=((_deletion(group, incident),),))
    past = restarts_of(group.lws, index, key_of(group.leader), group.now)
    if is_used_up(group.lws, past):
        return _left_as_it_is(group, incident, past, is_news=mark != KEPT)
    if past.due > group.now:
        return _delayed(group, incident, past)
    if not _is_affordable(group):
        waiting_for = "other groups to be ready before this one, which serves, is recreated"
        return Plan(again_after=_LOOK_AGAIN_SECONDS, waiting_for=waiting_for)
    counted = past.and_one(group.now)
    remember = Merge(
        Reference.to(group.lws),
        {"status": memory_of(index, group.leader, counted, GOING)},
        why=f"restart {counted.count} of group {index} on revision {past.key}",
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
        announce=(_event(group, "RecreateGroup", "Delete", f"{note}: {incident.why}"),),
    )


def _delayed(group: GroupSnapshot, incident: Incident, past: Restarts) -> Plan:
    """The deletion is what waits: a leader that is deleted comes back at once."""
    index, times = (
        index_by_name(group.leader),
        "once" if past.consecutive == 1 else f"{past.consecutive} times",
    )
    note = (
        f"group {index} was recreated {times} in short order, the next time is not before "
        f"{timestamp(past.due)}: pod {incident.pod}: {incident.why}"
    )
    return Plan(
        announce=(_event(group, "RecreateGroupDelayed", "Wait", note, "Warning"),),
        again_after=(past.due - group.now).total_seconds(),
        waiting_for=f"the end of its back-off at {timestamp(past.due)}: pod {incident.pod}: {incident.why}",
    )


def _left_as_it_is(group: GroupSnapshot, incident: Incident, past: Restarts, is_news: bool) -> Plan:
    """Written down once, for the condition Failed and so that nobody forgets what is over by then."""
    index, leader = index_by_name(group.leader), group.leader["metadata"]["name"]
    why = f"pod {incident.pod}: {incident.why}"
    note = (
        f"group {index} failed and is left as it is for diagnosis: it was recreated {past.count} times on "
        f"this revision, as often as spec.maxGroupRestarts allows; change the template, raise the limit, or "
        f"delete pod {leader}; {why}"
    )
    waiting_for = f"a new template, a higher spec.maxGroupRestarts, or the deletion of pod {leader}: {why}"
    if not is_news:
        return Plan(waiting_for=waiting_for)
    remember = Merge(
        Reference.to(group.lws),
        {"status": memory_of(index, group.leader, replace(past, last=int(group.now.timestamp())), KEPT)},
        why=note,
        announce=(_event(group, "GroupFailed", "Keep", note, "Warning"),),
        subresource="status",
    )
    return Plan(sequences=((remember,),), waiting_for=waiting_for)


def _is_affordable(group: GroupSnapshot) -> bool:
    """During a rollout a group that serves goes only where the others leave room for it.

    One that is down costs nothing. The budget counts as one group at least: where all others are ready, a
    restart is never put off.
    """
    states = group_states(group.siblings, Wanted(group.wanted_key, {}))
    index = index_by_name(group.leader)
    serves = any(state.index == index and state.ready for state in states)
    if not serves or not any(state.outdated for state in states):
        return True
    replicas = spec.replicas_of(group.lws)
    unavailable = max(1, budget_of(group.lws).unavailable)
    return sum(state.ready for state in states) > replicas - unavailable


def _event(group: GroupSnapshot, reason: str, action: str, note: str, kind: EventType = "Normal") -> Announce:
    return Announce(Reference.to(group.lws), reason, action, note, kind, Reference.to(group.leader))
