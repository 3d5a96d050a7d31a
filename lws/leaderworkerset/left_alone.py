"""Find sets that the controller must not act on, and plan only a status that reports the reason."""

from __future__ import annotations

from datetime import datetime

from lws.kube.conditions import Condition, find, is_true, with_condition
from lws.kube.metadata import annotations_of, namespace_of
from lws.kube.patches import merge_patch
from lws.leaderworkerset import events, fields
from lws.leaderworkerset.scheduling import (
    ASSUMED,
    GROUP_TEMPLATE_ANNOTATION,
    NO_SCHEDULER,
    PARENT_GROUP_ANNOTATION,
    PROVIDERS,
    Scheduler,
)
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import other_manager
from lws.leaderworkerset.status.status import REPLICA_FAILURE
from lws.runtime.actions import Object, Plan, Problem, Reference, Status
from lws_api.config.v1alpha1 import WORKLOAD_AWARE_SCHEDULING

UNSUPPORTED_FIELD = "UnsupportedField"
"""Reason of the condition of a set that is left alone because of one of its fields."""


def why_left_alone(lws: Object, is_covered: bool, scheduler: Scheduler, fault: str = "") -> Problem | None:
    """Return the reason not to act on this set; None if the controller reconciles it.
    is_covered: whether the pod webhook is called for pods of its namespace. scheduler: the scheduler for
    `spec.scheduling`. fault: why its spec cannot be read; empty if it can.
    """
    if name := other_manager(lws):
        # An empty reason: the other controller writes the status, so nothing is reported.
        return Problem("", f"{name} runs this set ({fields.MANAGED_BY})")
    if fault:
        return unreadable(fault)
    if not is_covered:
        namespace = namespace_of(lws)
        return Problem(
            "NamespaceNotCovered",
            f"the namespaceSelector of the pod webhook does not select namespace {namespace}, so pods would "
            f"lack the labels and variables of their group: nothing of this set is created, changed or "
            f"deleted; label the namespace, or change webhooks.namespaceSelector of the chart",
        )
    if unscheduled := why_unscheduled(lws, scheduler):
        why, _ = unscheduled
        return Problem(
            UNSUPPORTED_FIELD,
            f"{fields.SCHEDULING}: {why}; nothing of this set is created, changed or deleted: run it with "
            f"the upstream release that stored it, or create a set of another name without the field",
        )
    return None


def unreadable(fault: str) -> Problem:
    """Return the problem of a set of any kind whose spec cannot be read. fault: the reason."""
    return Problem(
        "UnreadableSpec",
        f"{fault}: a CRD of another version admitted this; nothing of the set is created, changed or "
        f"deleted until its spec is corrected",
    )


def plan_left_alone(snapshot: SetSnapshot, problem: Problem) -> Plan:
    """Plan only a condition, and an Event if it is new; nothing if another controller writes the status."""
    if not problem.reason:
        return Plan()
    return reported(snapshot.lws, problem, snapshot.now)


def reported(obj: Object, problem: Problem, now: datetime) -> Plan:
    """Plan the condition that reports a problem of a set of any kind, and an Event if the problem is new."""
    stored = obj.get("status") or {}
    condition = Condition(REPLICA_FAILURE, True, problem.reason, problem.message)
    generation = obj["metadata"].get("generation", 0)
    conditions = with_condition(stored.get("conditions"), condition, generation, now)
    patch = merge_patch(stored, {**stored, "conditions": conditions})
    return Plan(
        statuses=(Status(Reference.to(obj), patch, before=stored),) if patch is not None else (),
        announce=events.problems(obj, [problem]),
        waiting_for=problem.message,
        is_left_alone=True,
    )


def why_unscheduled(lws: Object, scheduler: Scheduler) -> tuple[str, str] | None:
    """Return why no scheduler serves `spec.scheduling` of the set, and what users can do; None if one does,
    or if the set has no such field.
    """
    if fields.SCHEDULING.stored_in(lws) is None:
        return None
    if not scheduler.is_enabled:
        remedy = (
            "enable it, or remove the field: gangSchedulingManagement in the manager's configuration is "
            "enough to schedule whole groups"
        )
        return f"the feature gate {WORKLOAD_AWARE_SCHEDULING} is off", remedy
    if scheduler.provider not in PROVIDERS:
        return "no configured gang scheduler serves it", f"configure one of {', '.join(PROVIDERS)}"
    if not annotations_of(lws).keys().isdisjoint((GROUP_TEMPLATE_ANNOTATION, PARENT_GROUP_ANNOTATION)):
        return (
            "joining the Workload of a parent is not supported",
            f"remove the annotations {GROUP_TEMPLATE_ANNOTATION} and {PARENT_GROUP_ANNOTATION}",
        )
    return None


def scheduler_seen(lws: Object) -> Scheduler:
    """Derive the scheduler from the condition that the manager has written to the set. This is for callers
    that do not know the configuration of the manager.
    """
    conditions = (lws.get("status") or {}).get("conditions")
    failure = find(conditions, REPLICA_FAILURE) if is_true(conditions, REPLICA_FAILURE) else None
    return NO_SCHEDULER if failure is not None and failure.get("reason") == UNSUPPORTED_FIELD else ASSUMED
