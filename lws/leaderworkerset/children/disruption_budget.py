"""Plan the PodDisruptionBudget of a set, which counts whole groups.

An eviction of one pod takes its whole group, so `maxUnavailable` counts groups that may go: all that the user
grants while nothing is disrupted, none once that many are. In between the disruption controller itself counts
at least one missing pod of every disrupted group. The exception is a group without workers: a StatefulSet
that has no pods is not counted, so a ready leader hides that its group is down. Adding the missing pods of
disrupted groups would let groups go sooner. But pods come back one by one, and each of them would let another
group go before the budget could be lowered again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lws.actions import Create, Object, Plan, Problem
from lws.children import Child, name_label, plan_child, plan_unwanted, repair
from lws.kube import quantities
from lws.kube.differences.patches import merge_patch
from lws.kube.metadata import is_terminating, name_of, namespace_of, owner_reference
from lws.leaderworkerset import events
from lws.leaderworkerset.assessment.likeness import ownership_of_budget
from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import NAME_LABEL


def plan_disruption_budget(snapshot: SetSnapshot, groups: Iterable[GroupState]) -> Plan:
    """The set has a PodDisruptionBudget of its name if and only if it asks for one."""
    lws, stored = snapshot.lws, snapshot.disruption_budget
    try:
        granted = granted_groups(snapshot.spec)
    except ValueError as error:
        # What protects the set so far is better than nothing.
        note = f"spec.podDisruptionBudget.maxUnavailableGroups: {error}"
        return Plan(problems=(Problem("InvalidDisruptionBudget", note),), waiting_for=note)
    if granted is None:
        return plan_unwanted(snapshot.owner, stored, "the set asks for no disruption budget")
    child = Child(ownership_of_budget(snapshot), stored, "the former PodDisruptionBudget")
    intent = build_disruption_budget(lws, allowed_groups(granted, snapshot, groups))
    failure = events.failed_create(lws, f"pod disruption budget {name_of(lws)}")
    create = Create(intent, why="evictions must not take too many groups at once", failure=failure)
    return plan_child(snapshot.owner, child, create, _put_back)


def granted_groups(spec: SetSpec) -> int | None:
    """Groups that evictions may take at a time; None where the set is to have no PodDisruptionBudget.

    A percentage that comes out as 0 means 1: nobody asks by rounding for drains that never end. A set of one
    group has a budget only where that is asked for by a number. ValueError for what is no amount.
    """
    amount, replicas = spec.disrupted_groups, spec.replicas
    if not spec.has_disruption_budget or replicas == 0:
        return None
    if amount is None:
        return 1 if replicas > 1 else None
    groups = max(0, quantities.scaled(amount, replicas, round_up=False))
    if groups > 0 or isinstance(amount, int) or quantities.scaled(amount, 100, round_up=False) == 0:
        return groups
    return 1 if replicas > 1 else None


def wants_disruption_budget(spec: SetSpec) -> bool:
    """Whether the set is to have a PodDisruptionBudget."""
    try:
        return granted_groups(spec) is not None
    except ValueError:
        return False


def allowed_groups(granted: int, snapshot: SetSnapshot, groups: Iterable[GroupState]) -> int:
    """How many more groups may go, as `maxUnavailable` of pods that the disruption controller counts itself.

    A disrupted group of which it counts a missing pod needs no place of its own.
    """
    ready = {group.index for group in groups if group.ready}
    disrupted = max(0, snapshot.spec.replicas - len(ready))
    if disrupted >= granted:
        return 0
    counted = sum(_is_counted(each, snapshot) for each in snapshot.groups if each.index not in ready)
    return granted - max(0, disrupted - counted)


def build_disruption_budget(lws: Object, max_unavailable: int) -> dict[str, Any]:
    """The PodDisruptionBudget over all pods of a set; those that are not ready may always be evicted."""
    name = name_of(lws)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "namespace": namespace_of(lws),
            "labels": {NAME_LABEL: name},
            "ownerReferences": [owner_reference(lws)],
        },
        "spec": {
            "maxUnavailable": max_unavailable,
            "selector": {"matchLabels": {NAME_LABEL: name}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _is_counted(group: GroupFacts, snapshot: SetSnapshot) -> bool:
    """Whether the disruption controller is certain to miss a pod of a group that is not ready, until it is.

    Not from the moment in which its leader or its last worker goes: soon its workers are gone and count no
    more, and then a leader that is ready is all that it sees.
    """
    workers = group.workers
    if workers is None:
        return snapshot.spec.size == 1
    is_going = is_terminating(group.leader) or is_terminating(workers)
    return not is_going and bool(group.worker_uids)


def _put_back(stored: Object, intent: Object) -> Plan:
    known, wanted = stored.get("spec") or {}, dict(intent["spec"])
    if "unhealthyPodEvictionPolicy" not in known:
        # Kubernetes before 1.27 drops it.
        del wanted["unhealthyPodEvictionPolicy"]
    ours = {field: value for field, value in known.items() if field in wanted or field == "minAvailable"}
    changed = merge_patch(ours, wanted)
    patch = {**({"spec": changed} if changed is not None else {}), **name_label(stored, intent)}
    return repair(stored, {f"evictions may take {intent['spec']['maxUnavailable']} more groups": patch})
