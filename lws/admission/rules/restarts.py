"""Which groups does an update of a set restart, and why?

In: a set as it is to be stored and as it was, with the status that the controller has written. Out: a
warning, before anything happens: `kubectl apply --dry-run=server` shows it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.conditions import is_true
from lws.kube.types.shapes import has_more_values
from lws.leaderworkerset import fields
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.revisions.diff import describe
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout import outlook
from lws.leaderworkerset.rollout.limits import budget_of
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.status.status import UPDATE_IN_PROGRESS

# kubectl and the API server cut warnings off that are much longer.
_MOST_CHANGES = 3
MOST_VALUES = 20_000
"""Of a spec whose changes are described: a hundred times what a large template has costs 0.1 s."""
TOO_LARGE = (
    "it is too large to say in a review which groups this update restarts, and why: `lws plan` says it"
)


def restart_warnings(
    new: Mapping[str, Any], old: Mapping[str, Any], spec: SetSpec, before: SetSpec
) -> list[str]:
    """One, or none where no pod is restarted, as far as the set itself shows: pods are not looked at."""
    running = min(spec.replicas, before.replicas, _counted(old, "replicas"))
    if running <= 0 or why_left_alone(new, is_covered=True) is not None:
        return []
    if any(has_more_values(each["spec"], MOST_VALUES) for each in (new, old)):
        is_like = fields.TEMPLATE.of(new) == fields.TEMPLATE.of(old)
        return [] if is_like else [f"{fields.TEMPLATE}: {TOO_LARGE}"]
    now, then = record(new), record(old)
    is_same = now.form == then.form and now.topology == then.topology
    why = _released(old, spec, before) if is_same else _changes(describe(then, now))
    if not why:
        return []
    released = before.floor if is_same and not before.paused else running
    floor = min(spec.floor, running)
    said = outlook.restarts(range(floor, min(released, running)), budget_of(spec), spec.paused)
    if said and (is_same or _is_rolling(old)):
        said += ", unless they have this template already"
    told = "; ".join(filter(None, (said, outlook.pinned(range(floor)))))
    return [f"{told}: {why}"]


def _released(old: Mapping[str, Any], spec: SetSpec, before: SetSpec) -> str:
    """What lets groups go that had to stay; empty where nothing does, or where all are on one template."""
    if spec.paused or _counted(old, "updatedReplicas") >= _counted(old, "replicas"):
        return ""
    if before.paused:
        return "the rollout is resumed"
    if spec.floor < before.floor:
        return f"the partition is lowered from {before.floor} to {spec.floor}"
    return ""


def _changes(lines: list[str]) -> str:
    more = len(lines) - _MOST_CHANGES
    return "; ".join([*lines[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])


def _counted(old: Mapping[str, Any], field: str) -> int:
    counted = _status(old).get(field)
    return counted if type(counted) is int else 0


def _is_rolling(old: Mapping[str, Any]) -> bool:
    conditions = _status(old).get("conditions")
    return isinstance(conditions, list) and is_true(conditions, UPDATE_IN_PROGRESS)


def _status(old: Mapping[str, Any]) -> Mapping[str, Any]:
    status = old.get("status")
    return status if isinstance(status, Mapping) else {}
