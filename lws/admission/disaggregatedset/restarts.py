"""Which groups does an update of a DisaggregatedSet restart, and why?

In: a set as it is to be stored and as it was, with the status that the controller has written. Out: a
warning, before anything happens: `kubectl apply --dry-run=server` shows it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.rules.restarts import MOST_VALUES, TOO_LARGE
from lws.disaggregatedset.revisions.diff import describe
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.rollout.outlook import restarts
from lws.disaggregatedset.spec import DisaggregatedSpec, fault_of, parse
from lws.kube.metadata import is_mapping
from lws.kube.types.shapes import has_more_values
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import value_at

# kubectl and the API server cut warnings off that are much longer.
_MOST_CHANGES = 3


def restart_warnings(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    """One, or none where no pod is restarted, as far as the set itself shows: its children are not looked
    at.
    """
    if any(has_more_values(each.get("spec"), MOST_VALUES) for each in (new, old)):
        if _templates(new) != _templates(old):
            yield f"spec.roles: {TOO_LARGE}"
        return
    if fault_of(new) or fault_of(old):
        return
    spec, before = parse(new), parse(old)
    now, then = record(new), record(old)
    is_same = now.forms == then.forms
    if is_same and (spec.paused or not before.paused):
        return
    groups = dict(_groups(old, spec, before, only_old=is_same))
    said = restarts({role: count for role, count in groups.items() if count > 0}, spec.paused)
    if not said:
        return
    if not is_same and _is_rolling(old):
        said += ", unless they have these templates already"
    yield f"{said}: {'the rollout is resumed' if is_same else _listed(describe(then, now))}"


def _templates(raw: Mapping[str, Any]) -> list[Any]:
    roles = value_at(raw, ("spec", "roles")) or ()
    return [value_at(each, ("spec", fields.TEMPLATE.name)) for each in roles if is_mapping(each)]


def _groups(
    old: Mapping[str, Any], spec: DisaggregatedSpec, before: DisaggregatedSpec, only_old: bool
) -> Iterator[tuple[str, int]]:
    """Those that roles have which are there before and after; of slices that go none restarts."""
    status = old.get("status")
    told = status.get("roleStatuses") if is_mapping(status) else None
    entries = (each for each in (told if isinstance(told, list) else ()) if is_mapping(each))
    counts = {each["name"]: each for each in entries if isinstance(each.get("name"), str)}
    for role in spec.roles:
        known = counts.get(role.name, {})
        groups = _number(known, "replicas") - (_number(known, "updatedReplicas") if only_old else 0)
        yield role.name, groups * min(spec.slices, before.slices) // before.slices


def _number(counts: Mapping[str, Any], field: str) -> int:
    count = counts.get(field)
    return count if type(count) is int else 0


def _is_rolling(old: Mapping[str, Any]) -> bool:
    status = old.get("status")
    return is_mapping(status) and status.get("currentRevision") != status.get("updateRevision")


def _listed(lines: list[str]) -> str:
    more = len(lines) - _MOST_CHANGES
    return "; ".join([*lines[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])
