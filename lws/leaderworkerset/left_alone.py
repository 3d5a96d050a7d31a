"""Find sets that the controller must not act on, and plan only a status that reports the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lws.kube.conditions import Condition, find, is_true, with_condition
from lws.kube.metadata import annotations_of, namespace_of
from lws.kube.patches import merge_patch
from lws.leaderworkerset import events, fields
from lws.leaderworkerset.scheduling import (
    ASSUMED,
    GROUP_TEMPLATE_ANNOTATION,
    NOBODY,
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
"""Reason of the condition of a set that is left alone for one of its fields."""


def why_left_alone(lws: Object, is_covered: bool, scheduler: Scheduler, fault: str = "") -> Problem | None:
    """The reason not to touch anything of this set; None for a set to be run.

    is_covered: the pod webhook sees pods of its namespace. scheduler: who serves `spec.scheduling`. fault:
    why its spec cannot be read.
    """
    if name := other_manager(lws):
        # Without a reason to report: the status is that controller's.
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
    if found := unsupported_in(lws, scheduler):
        said = "; ".join(f"{each.path}: {each.why}" for each in found)
        return Problem(
            UNSUPPORTED_FIELD,
            f"{said}; nothing of this set is created, changed or deleted: run it with the release of the "
            f"original that stored it, or create a set of another name without the field",
        )
    return None


def unreadable(fault: str) -> Problem:
    """A spec that cannot be read; fault: why not. Of sets of all kinds."""
    return Problem(
        "UnreadableSpec",
        f"{fault}: another definition has let this through; nothing of the set is created, changed or "
        f"deleted until its spec is corrected",
    )


def plan_left_alone(snapshot: SetSnapshot, problem: Problem) -> Plan:
    """Only a condition, and an Event when it is new; nothing where another controller writes the status."""
    if not problem.reason:
        return Plan()
    plan = reported(snapshot.lws, problem, snapshot.now)
    return replace(plan, announce=events.problems(snapshot.lws, [problem]))


def reported(obj: Object, problem: Problem, now: datetime) -> Plan:
    """The condition that reports a problem in the status of a set of any kind."""
    stored = obj.get("status") or {}
    condition = Condition(REPLICA_FAILURE, True, problem.reason, problem.message)
    generation = obj["metadata"].get("generation", 0)
    conditions = with_condition(stored.get("conditions"), condition, generation, now)
    patch = merge_patch(stored, {**stored, "conditions": conditions})
    return Plan(
        statuses=(Status(Reference.to(obj), patch, before=stored),) if patch is not None else (),
        waiting_for=problem.message,
    )


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An unsupported field. why: what happens instead. remedy: what to write."""

    field: str
    value: Any
    why: str
    remedy: str

    @property
    def path(self) -> str:
        """The field's path in the set."""
        return f"spec.{self.field}"


def unsupported_in(lws: Object, scheduler: Scheduler) -> tuple[Unsupported, ...]:
    """The fields that would have no effect, where the set relies on them."""
    spec = lws.get("spec")
    if not isinstance(spec, Mapping) or spec.get("scheduling") is None:
        return ()
    if why := _why_unscheduled(lws, scheduler):
        return (Unsupported("scheduling", spec["scheduling"], *why),)
    return ()


def _why_unscheduled(lws: Object, scheduler: Scheduler) -> tuple[str, str] | None:
    """Why nobody serves its `spec.scheduling`, and what to do; None if somebody does."""
    if not scheduler.is_enabled:
        remedy = (
            "switch it on, or leave the field out: gangSchedulingManagement in the manager's configuration "
            "alone has groups placed as a whole"
        )
        return f"the feature gate {WORKLOAD_AWARE_SCHEDULING} is off", remedy
    if scheduler.provider not in PROVIDERS:
        return "no gang scheduler here serves it", f"configure one of {', '.join(PROVIDERS)}"
    if not annotations_of(lws).keys().isdisjoint((GROUP_TEMPLATE_ANNOTATION, PARENT_GROUP_ANNOTATION)):
        return (
            "no set joins the Workload of its parent here",
            f"remove the annotations {GROUP_TEMPLATE_ANNOTATION} and {PARENT_GROUP_ANNOTATION}",
        )
    return None


def scheduler_seen(lws: Object) -> Scheduler:
    """For who does not know how the manager is configured: by what it has said about the set."""
    conditions = (lws.get("status") or {}).get("conditions")
    told = find(conditions, REPLICA_FAILURE) if is_true(conditions, REPLICA_FAILURE) else None
    return NOBODY if told is not None and told.get("reason") == UNSUPPORTED_FIELD else ASSUMED
