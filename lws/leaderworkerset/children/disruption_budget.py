"""Plan the PodDisruptionBudget of a set, which limits how many groups evictions (node drains) may disrupt.

Evicting one pod disrupts its whole group, so `maxUnavailable` counts groups. A group is disrupted if it is
not ready, whatever the cause. `maxUnavailable` equals the limit while no group is disrupted, and 0 once as
many groups are disrupted as the limit allows. If fewer groups are disrupted, they are not subtracted from the
limit, because the disruption controller already counts at least one missing pod in each of them. The
exception is a group with a ready leader and no worker pods: the disruption controller does not count a
StatefulSet without pods. Such a group is subtracted.

Adding the missing pods of disrupted groups to the limit would allow evictions sooner. But pods are recreated
one by one, and each new pod would allow the disruption of another group before this budget is lowered again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lws.kube import quantities
from lws.kube.metadata import child_metadata, is_terminating, name_of
from lws.kube.patches import merge_patch
from lws.leaderworkerset import events, fields
from lws.leaderworkerset.assessment.ownership import ownership_of_disruption_budget
from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Create, Object, Plan, Problem
from lws.runtime.children import Child, difference_reason, plan_child, plan_unwanted
from lws_api.leaderworkerset.v1 import NAME_LABEL


def plan_disruption_budget(snapshot: SetSnapshot, groups: Iterable[GroupState]) -> Plan:
    """Plan to create, update or delete the PodDisruptionBudget as the spec requests."""
    lws, stored = snapshot.lws, snapshot.pod_disruption_budget
    try:
        limit = disruption_limit(snapshot.spec)
    except ValueError as error:
        # An existing PodDisruptionBudget is kept as it is.
        message = f"{fields.MAX_UNAVAILABLE_GROUPS}: {error}"
        return Plan(problems=(Problem("InvalidDisruptionBudget", message),), waiting_for=message)
    if limit is None:
        return plan_unwanted(snapshot.owner, stored, "the set has no disruption budget")
    child = Child(ownership_of_disruption_budget(snapshot), stored, "the former PodDisruptionBudget")
    intent = build_disruption_budget(lws, max_unavailable_now(limit, snapshot, groups))
    failure = events.failed_create(lws, f"pod disruption budget {name_of(lws)}")
    create = Create(intent, why="evictions must not take too many groups at once", failure=failure)
    return plan_child(snapshot.owner, child, create, _repairs)


def disruption_limit(spec: SetSpec) -> int | None:
    """Return the number of groups that evictions may disrupt at a time; None if the set has no
    PodDisruptionBudget. A percentage that rounds down to 0 means 1; with 0, drains would never finish. A set
    of one group has a budget only if `maxUnavailableGroups` is a number, 0% or 100%. Raises ValueError if
    its value is invalid.
    """
    requested, replicas = spec.max_unavailable_groups, spec.replicas
    if fields.POD_DISRUPTION_BUDGET.stored_in(spec.lws) is None or replicas == 0:
        return None
    if requested is None:
        return 1 if replicas > 1 else None
    limit = min(quantities.INT32, max(0, quantities.scaled(requested, replicas, round_up=False)))
    if limit > 0 or isinstance(requested, int) or quantities.scaled(requested, 100, round_up=False) == 0:
        return limit
    return 1 if replicas > 1 else None


def wants_disruption_budget(spec: SetSpec) -> bool:
    """Return whether the set has a valid request for a PodDisruptionBudget."""
    try:
        return disruption_limit(spec) is not None
    except ValueError:
        return False


def max_unavailable_now(limit: int, snapshot: SetSnapshot, groups: Iterable[GroupState]) -> int:
    """Return the `maxUnavailable` of the budget: 0 if as many groups as the limit are disrupted, else the
    limit minus the disrupted groups in which the disruption controller counts no missing pod.
    """
    ready = {group.index for group in groups if group.ready}
    disrupted = max(0, snapshot.spec.replicas - len(ready))
    if disrupted >= limit:
        return 0
    counted = sum(
        _is_counted_by_kubernetes(group, snapshot) for group in snapshot.groups if group.index not in ready
    )
    return limit - max(0, disrupted - counted)


def build_disruption_budget(lws: Object, max_unavailable: int) -> dict[str, Any]:
    """Build the PodDisruptionBudget for all pods of a set. Pods that are not ready may always be evicted."""
    name = name_of(lws)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(lws, name, {NAME_LABEL: name}),
        "spec": {
            "maxUnavailable": max_unavailable,
            "selector": {"matchLabels": {NAME_LABEL: name}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _is_counted_by_kubernetes(group: GroupFacts, snapshot: SetSnapshot) -> bool:
    """Return whether the disruption controller certainly counts a missing pod of a group that is not ready.

    It may not if the leader or the worker StatefulSet is being deleted: a ready leader may be all that it
    sees.
    """
    workers = group.worker_statefulset
    if workers is None:
        return snapshot.spec.size == 1
    is_deleted = is_terminating(group.leader) or is_terminating(workers)
    return not is_deleted and bool(group.worker_uids)


def _repairs(stored: Object, intent: Object) -> dict[str, Object]:
    """Return the patch that restores the spec fields that we manage, by reason (see `Repairs`); empty if
    nothing differs.
    """
    existing, desired = stored.get("spec") or {}, dict(intent["spec"])
    if "unhealthyPodEvictionPolicy" not in existing:
        # Kubernetes before 1.27 drops this field in every write, so a missing policy is never restored.
        del desired["unhealthyPodEvictionPolicy"]
    ours = {field: value for field, value in existing.items() if field in desired or field == "minAvailable"}
    changed = merge_patch(ours, desired)
    if changed is None:
        return {}
    others = [field for field in changed if field != "maxUnavailable"]
    reasons = [difference_reason(others)] if others else []
    if "maxUnavailable" in changed:
        reasons.insert(0, f"groups that may be disrupted: {desired['maxUnavailable']}")
    return {"; ".join(reasons): {"spec": changed}}
