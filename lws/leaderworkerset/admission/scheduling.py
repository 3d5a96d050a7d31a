"""Validate `spec.scheduling` (KEP-666), with the order, paths and texts of upstream's webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lws.kube.field_errors import FieldError, forbidden, invalid, not_supported, required
from lws.kube.metadata import annotations_of, controller_of, is_mapping
from lws.leaderworkerset import fields
from lws.leaderworkerset.admission.templates import templates_of
from lws.leaderworkerset.fields import SCHEDULING
from lws.leaderworkerset.scheduling import (
    ASSUMED,
    GROUP_TEMPLATE_ANNOTATION,
    KUBERNETES,
    LEADER,
    PARENT_GROUP_ANNOTATION,
    PROVIDERS,
    REPLICA,
    UNAVAILABLE,
    WORKER,
    Level,
    Scheduler,
    levels_of,
)
from lws.leaderworkerset.spec import SetSpec
from lws_api.config.v1alpha1 import WORKLOAD_AWARE_SCHEDULING
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, StartupPolicy

_SECTIONS = (SCHEDULING, REPLICA, LEADER, WORKER)
_CLAIMS = (LEADER.child("resourceClaims"), WORKER.child("resourceClaims"))
_NOT_OF_VOLCANO = (
    ("schedulingConstraints", "typed scheduling constraints"),
    ("disruptionMode", "typed disruption mode"),
)


def scheduling_errors(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    spec: SetSpec,
    scheduler: Scheduler = ASSUMED,
) -> Iterator[FieldError]:
    """Yield errors of `spec.scheduling`. old: the stored set; None on create."""
    after, before = SCHEDULING.stored_in(new), SCHEDULING.stored_in(old) if old else None
    if after is None:
        if before is not None:
            yield forbidden(SCHEDULING, None, "cannot remove scheduling after creation")
        return
    levels = levels_of(new)
    yield from _server_errors(after, scheduler)
    yield from _delegation_errors(new, levels)
    if old and before is None:
        yield forbidden(SCHEDULING, after, "cannot add scheduling after creation")
    if len(levels) != 1:
        why = f"exactly one active scheduling level is required, got [{' '.join(levels)}]"
        yield invalid(SCHEDULING, after, why)
    if old and before is not None:
        yield from _change_errors(new, old)
    yield from _policy_errors(new, spec, levels)
    yield from _template_errors(new)
    if scheduler.is_enabled and scheduler.provider == "volcano":
        yield from _volcano_errors(new, levels)


def _server_errors(scheduling: Any, scheduler: Scheduler) -> Iterator[FieldError]:
    if not scheduler.is_enabled:
        yield forbidden(SCHEDULING, scheduling, f"requires the {WORKLOAD_AWARE_SCHEDULING} feature gate")
    elif not scheduler.provider:
        yield required(str(SCHEDULING), "requires a configured scheduler provider")
    elif scheduler.provider not in PROVIDERS:
        yield not_supported(SCHEDULING, scheduler.provider, PROVIDERS)
    elif scheduler.provider == KUBERNETES and scheduler.lacks_workloads:
        yield forbidden(SCHEDULING, scheduling, UNAVAILABLE)


def _delegation_errors(raw: Mapping[str, Any], levels: Sequence[Level]) -> Iterator[FieldError]:
    """Yield errors of the annotations that delegate scheduling to the Workload of a parent."""
    annotations = annotations_of(raw)
    template, parent = annotations.get(GROUP_TEMPLATE_ANNOTATION), annotations.get(PARENT_GROUP_ANNOTATION)
    if template is None and parent is None:
        return
    at_template = f"metadata.annotations[{GROUP_TEMPLATE_ANNOTATION}]"
    at_parent = f"metadata.annotations[{PARENT_GROUP_ANNOTATION}]"
    if template is None:
        yield forbidden(at_parent, parent, "requires the group-template-name delegation annotation")
    elif not template:
        yield required(at_template, "must name a parent Workload template")
    if controller_of(raw) is None:
        yield forbidden(at_template, template or "", "delegated scheduling requires a controller owner")
    if parent == "":
        yield required(at_parent, "must name a parent CompositePodGroup")
    if Level.ROLE in levels:
        why = "delegated scheduling supports only whole-LWS or replica mode"
        yield forbidden(at_template, template or "", why)


def _change_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    after, before = SCHEDULING.stored_in(new), SCHEDULING.stored_in(old)
    if levels_of(new) != levels_of(old):
        yield forbidden(SCHEDULING, after, "cannot switch the active scheduling level after creation")
    if (priorities := _priorities(new)) != _priorities(old):
        why = "cannot change priorityClassName while workload-aware scheduling is configured"
        yield forbidden(fields.LEADER_WORKER_TEMPLATE, ", ".join(priorities), why)
    if _without_counts(after) != _without_counts(before):
        yield invalid(SCHEDULING, after, "field is immutable")


def _without_counts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_counts(item) for item in value]
    if not is_mapping(value):
        return value
    return {
        key: _without_counts(item) for key, item in value.items() if key != "minCount" and item is not None
    }


def _policy_errors(raw: Mapping[str, Any], spec: SetSpec, levels: Sequence[Level]) -> Iterator[FieldError]:
    gangs = {section: section.child("schedulingPolicy").child("gang") for section in _SECTIONS}
    for gang in gangs.values():
        field = gang.child("minGroupCount")
        if field.stored_in(raw) is not None:
            yield forbidden(field, field.stored_in(raw), "minGroupCount is not supported")
    if Level.ROLE in levels and spec.size < 2:
        yield invalid(fields.SIZE, spec.size, "leader/worker scheduling requires size >= 2")
    everyone = max(spec.replicas * spec.size, 1)
    members = {SCHEDULING: everyone, REPLICA: spec.size, LEADER: 1, WORKER: spec.size - 1}
    for section, gang in gangs.items():
        field = gang.child("minCount")
        count = field.stored_in(raw)
        if count is not None and count != members[section]:
            yield invalid(field, count, f"must equal complete leaf membership {members[section]}")
    # Groups are gangs by default.
    policy = REPLICA.child("schedulingPolicy")
    is_default = levels == (Level.REPLICA,) and policy.stored_in(raw) is None
    has_gang = {section: gang.stored_in(raw) is not None for section, gang in gangs.items()}
    has_gang[REPLICA] |= is_default
    if (has_gang[SCHEDULING] or has_gang[REPLICA]) and spec.startup_policy == StartupPolicy.LEADER_READY:
        why = "a gang containing the leader and workers is incompatible with startupPolicy LeaderReady"
        yield forbidden(SCHEDULING, SCHEDULING.stored_in(raw), why)
    if has_gang[SCHEDULING] and fields.START_STRATEGY.stored_in(raw) is not None:
        why = "conflicts with a gang of all pods, which waits for the groups of the last wave: remove it"
        yield invalid(fields.START_STRATEGY, fields.START_STRATEGY.stored_in(raw), why)
    constrained = any(
        section.child("schedulingConstraints").child("topology").stored_in(raw) for section in _SECTIONS
    )
    is_exclusive = bool(annotations_of(raw).get(EXCLUSIVE_TOPOLOGY_ANNOTATION))
    if (constrained or any(has_gang.values())) and is_exclusive:
        why = (
            "gang scheduling or workload topology constraints cannot be combined with exclusive topology in "
            "alpha"
        )
        yield forbidden(SCHEDULING, SCHEDULING.stored_in(raw), why)


def _template_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    scheduling = SCHEDULING.stored_in(raw)
    if len(set(_priorities(raw))) > 1:
        yield invalid(SCHEDULING, scheduling, "all managed pod templates must use the same priorityClassName")
    if any(fields.value_at(template, ("spec", "schedulingGroup")) for _, template in templates_of(raw)):
        yield forbidden(SCHEDULING, scheduling, "managed pod templates must not set spec.schedulingGroup")
    templates = dict(templates_of(raw))
    worker = templates.get(str(fields.WORKER_TEMPLATE), {})
    members = {LEADER: templates.get(str(fields.LEADER_TEMPLATE), worker), WORKER: worker}
    for section, template in members.items():
        field = section.child("resourceClaims")
        referred = _listed(fields.value_at(template, ("spec", "resourceClaims")))
        for index, claim in enumerate(_listed(field.stored_in(raw))):
            if claim not in referred:
                why = "must have a matching reference in every member pod template"
                yield invalid(f"{field}[{index}]", claim, why)


def _volcano_errors(raw: Mapping[str, Any], levels: Sequence[Level]) -> Iterator[FieldError]:
    """Yield errors for fields that Volcano's PodGroup lacks."""
    if len(levels) == 1 and levels != (Level.REPLICA,):
        why = "the Volcano provider supports the typed API only at replica level"
        yield forbidden(SCHEDULING, SCHEDULING.stored_in(raw), why)
        return
    policy = REPLICA.child("schedulingPolicy")
    unsupported = (
        (policy, policy.child("basic"), "Basic policy"),
        *((REPLICA.child(name), REPLICA.child(name), feature) for name, feature in _NOT_OF_VOLCANO),
        *((claims, claims, "shared resource claims") for claims in _CLAIMS),
    )
    for place, field, feature in unsupported:
        if field.stored_in(raw) is not None:
            yield forbidden(place, place.stored_in(raw), f"the Volcano provider does not support {feature}")


def _priorities(raw: Mapping[str, Any]) -> list[str]:
    """Return the priority class of each pod template; empty for none."""
    classes = (fields.value_at(template, ("spec", "priorityClassName")) for _, template in templates_of(raw))
    return [str(name or "") for name in classes]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
