"""Find sets that the controller must not act on, and plan the status that tells their users.

The plan writes nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lws.kube.conditions import Condition, with_condition
from lws.kube.metadata import namespace_of
from lws.kube.patches import merge_patch
from lws.leaderworkerset import events
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.status import REPLICA_FAILURE
from lws.runtime.actions import Object, Plan, Problem, Reference, Status
from lws_api.leaderworkerset.identity import GroupIdentity, GroupReplacementPolicy


def why_left_alone(lws: Object, is_covered: bool, fault: str = "") -> Problem | None:
    """The reason not to touch anything of this set; None for a set to be run.

    is_covered: the pod webhook sees pods of its namespace. fault: why its spec cannot be read.
    """
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
    if found := unsupported_in(lws):
        said = "; ".join(f"{each.path}: {each.why}" for each in found)
        return Problem(
            "UnsupportedField",
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
    """Nothing but a condition, and an Event when that is new."""
    plan = reported(snapshot.lws, problem, snapshot.now)
    return replace(plan, announce=events.problems(snapshot.lws, [problem]))


def reported(obj: Object, problem: Problem, now: datetime) -> Plan:
    """The condition that says so in the status of a set of any kind."""
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


_WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "groupIdentity": (None, "", GroupIdentity.ORDINAL),
    "groupReplacementPolicy": (None, "", GroupReplacementPolicy.POST_TERMINATION),
    "scheduling": (None,),
}
"""Values that say what this controller does anyway."""

_WHY = {
    "groupIdentity": "groups have ordinals here, and their leaders are pods of a StatefulSet",
    "groupReplacementPolicy": "a group is made anew here once its former pods are gone, never before",
    "scheduling": "no Workload is made for the scheduler here",
}
_REMEDIES = {
    "groupIdentity": "leave the field out or write Ordinal",
    "groupReplacementPolicy": "leave the field out or write PostTermination",
    "scheduling": (
        "leave the field out; gangSchedulingManagement in the manager's configuration has groups placed as a "
        "whole"
    ),
}


def unsupported_in(lws: Object) -> tuple[Unsupported, ...]:
    """The fields that would be run as something else.

    A set that upstream stored with one is left alone: under other rules than it was made for it would get a
    second set of pods.
    """
    spec = lws.get("spec")
    if not isinstance(spec, Mapping):
        return ()
    return tuple(
        Unsupported(field, spec[field], _WHY[field], _REMEDIES[field])
        for field, harmless in _WITHOUT_EFFECT.items()
        if spec.get(field) not in harmless
    )
