"""What the start of a group waits for: its workers, before they are created, and its leader, which pods of
the former group may have kept from its node.
"""

from __future__ import annotations

from datetime import datetime

from lws import timing
from lws.actions import Merge, Object, Plan, Reference
from lws.group.placement import Placement
from lws.group.snapshot import GroupSnapshot, group_event
from lws.kube.conditions import moment_of
from lws.kube.metadata import is_terminating, labels_of
from lws.kube.nodes import end_of_grace
from lws.kube.pods import is_ready, wait_for_node
from lws_api.leaderworkerset.v1 import FORMER_GROUP_GONE_LABEL, StartupPolicy


def plan_delay(group: GroupSnapshot, placement: Placement) -> Plan | None:
    """The first of the reasons not to create the workers yet."""
    if group.spec.startup_policy == StartupPolicy.LEADER_READY and not is_ready(group.leader):
        return Plan(waiting_for="the leader pod to be ready (startupPolicy LeaderReady)")
    if group.drops_start_ordinal:
        return Plan(
            again_after=timing.LOOK_AGAIN_SECONDS,
            waiting_for="an API server that keeps spec.ordinals.start of StatefulSets",
        )
    if placement.waiting_for:
        return _unplaced(group, placement)
    return _names_taken(group)


def plan_second_look(group: GroupSnapshot, topology: str) -> Plan:
    """Have the scheduler look again at a leader, once, when no pod of its former group is left.

    A leader runs beside the pods of its group, so former workers tie it to their place, where there may be no
    room for it. When they go, the scheduler does not look again for minutes: of an affinity to pods it only
    expects more from new ones, or from other labels of the pod itself. topology: of the group, "" for none.
    """
    if not topology or group.size == 1 or FORMER_GROUP_GONE_LABEL in labels_of(group.leader):
        return Plan()
    wait = wait_for_node(group.leader)
    is_turned_away = wait is not None and wait.until is None and not wait.gate
    if not is_turned_away or group.worker_statefulset is not None or group.former_workers or group.leaving:
        return Plan()
    patch = {"metadata": {"labels": {FORMER_GROUP_GONE_LABEL: "true"}}}
    why = "the leader found no node, and no pod of its former group is left: the scheduler looks again"
    return Plan(sequences=((Merge(Reference.to(group.leader), patch, why=why),),))


def _unplaced(group: GroupSnapshot, placement: Placement) -> Plan:
    """A leader that is not scheduled yet wakes us when it is; nodes are not watched."""
    scheduled = bool((group.leader.get("spec") or {}).get("nodeName"))
    warning = group_event(group, "FailedCreate", "Create", placement.waiting_for, "Warning")
    return Plan(
        announce=(warning,) if placement.is_stuck else (),
        again_after=timing.LOOK_AGAIN_SECONDS if scheduled else None,
        waiting_for=placement.waiting_for,
    )


def _names_taken(group: GroupSnapshot) -> Plan | None:
    """Who deletes a leader in the background leaves the pods of its workers to the garbage collector, which
    comes to them last. A StatefulSet that meets them backs off, twice as long each time.

    Not for ever: it can do without those that never go, and each that goes wakes us.
    """
    left = [(_waited_for_until(group, pod) - group.now).total_seconds() for pod in group.former_workers]
    if max(left, default=0.0) <= 0:
        return None
    return Plan(again_after=max(left), waiting_for="the pods of the former workers to be gone")


def _waited_for_until(group: GroupSnapshot, pod: Object) -> datetime:
    """Its grace period is its own, as where groups go in the foreground."""
    since, patience = moment_of(group.leader["metadata"].get("creationTimestamp")), timing.COLLECTED_WITHIN
    if is_terminating(pod):
        since, patience = end_of_grace(pod), timing.ENDED_WITHIN
    return since + patience if since is not None else group.now
