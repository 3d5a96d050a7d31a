"""Validate a LeaderWorkerSet: errors and warnings, with the order, paths and texts of upstream's webhook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from lws.kube.conditions import is_true
from lws.kube.field_errors import FieldError, invalid, rendered, required
from lws.kube.metadata import annotations_of, copied, is_terminating, mappings_in, metadata_of
from lws.kube.names import (
    LABEL_LENGTH,
    byte_length,
    dns1035_label_errors,
    dns1123_label_errors,
    domain_prefixed_path_errors,
    generate_name_errors,
    parent_and_ordinal,
    tightest_derived_name,
)
from lws.kube.quantities import INT32, scaled
from lws.kube.shapes import has_more_values
from lws.leaderworkerset import fields
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.identity import (
    identity_change_errors,
    identity_errors,
    restart_errors,
    termination_warnings,
)
from lws.leaderworkerset.admission.scheduling import scheduling_errors
from lws.leaderworkerset.admission.templates import (
    placement_errors,
    placement_warnings,
    shape_errors,
    template_errors,
    template_warnings,
    templates_of,
)
from lws.leaderworkerset.children.services import PORT_PROTOCOL, leader_service_name
from lws.leaderworkerset.group.gangs import (
    TIMEOUT_ANNOTATION,
    Coscheduling,
    GangProvider,
    Kubernetes,
    timeout_seconds,
)
from lws.leaderworkerset.left_alone import scheduler_seen, why_left_alone, why_unscheduled
from lws.leaderworkerset.revisions.encoding import claims_form
from lws.leaderworkerset.revisions.history import describe, record
from lws.leaderworkerset.revisions.shape import number_faults, spec_fault
from lws.leaderworkerset.rollout import state
from lws.leaderworkerset.rollout.state import rollout_budget
from lws.leaderworkerset.scheduling import ASSUMED, Scheduler
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, SetSpec, has_hash_groups
from lws.leaderworkerset.status.status import UPDATE_IN_PROGRESS
from lws.leaderworkerset.templates.claims import DELETE, RETAIN
from lws_api.leaderworkerset.placement import (
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    RECREATE_GROUP_AFTER_START_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    StartupPolicy,
    SubdomainPolicy,
    SubGroupPolicyType,
)

_READ_ANNOTATIONS = (
    *PLACEMENT_ANNOTATIONS,
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    RECREATE_GROUP_AFTER_START_ANNOTATION,
)
MOST_REPORTED = 100
"""The maximum number of errors or warnings per rule; a malicious object could cause a million of them."""


def errors_in(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    others: Iterable[Mapping[str, Any]] = (),
    scheduler: Scheduler = ASSUMED,
) -> list[FieldError]:
    """Return all reasons to reject `new`, in rule order.

    A set is never rejected if it is being deleted, or if its spec and the annotations that are read here are
    unchanged: removing a finalizer or adding a label must stay possible. Of the metadata only the name is
    checked; the API server validates the rest before it calls the webhook.
    old: the stored set; None or empty on create. others: the sets of the namespace, whose objects must not
    have the same names as objects of `new`. scheduler: the scheduler for `spec.scheduling`.
    """
    if _needs_no_check(new, old):
        return []
    malformed = shape_errors(new) or [
        invalid(*fault) for fault in islice(number_faults(new.get("spec")), MOST_REPORTED)
    ]
    if malformed:
        return malformed
    spec = SetSpec.of(new)
    before = SetSpec.of(old) if old else None

    def added(rule: Callable[[Mapping[str, Any], SetSpec], Iterable[FieldError]]) -> list[FieldError]:
        """Return the errors of a rule that it does not report for the stored set."""
        existing = {str(error) for error in rule(old, before)} if old and before is not None else set()
        return [error for error in rule(new, spec) if str(error) not in existing]

    errors = [
        *_name_errors(new),
        *_count_errors(spec),
        *_limit_errors(spec),
        *_no_progress_errors(spec, before),
        *subgroup_errors(new, spec, before),
        *added(_group_errors),
    ]
    stored = scheduling_errors(old, None, before, scheduler) if old and before is not None else ()
    existing = set(map(str, stored))
    errors += [error for error in scheduling_errors(new, old, spec, scheduler) if str(error) not in existing]
    if old and before is not None:
        errors += [*identity_change_errors(new, old), *_update_errors(new, spec, before)]
        if (name := fields.MANAGED_BY.stored_in(new)) != fields.MANAGED_BY.stored_in(old):
            errors.append(invalid(fields.MANAGED_BY, name, "field is immutable"))
    errors += _name_length_errors(new, spec, before)
    errors += added(_later_errors)
    if old:
        errors += claim_change_errors(new, old)
    errors += clash_errors(new, old, others)
    unsupported = added(lambda raw, _: unsupported_errors(raw, scheduler))
    paths = {error.path for error in errors}
    return errors + [error for error in unsupported if error.path not in paths]


def _group_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    yield from restart_errors(raw)
    yield from identity_errors(raw, spec)
    name = fields.MANAGED_BY.stored_in(raw)
    if isinstance(name, str):
        if byte_length(name) > LABEL_LENGTH:
            yield invalid(fields.MANAGED_BY, name, f"must be no more than {LABEL_LENGTH} bytes")
        yield from (invalid(fields.MANAGED_BY, name, why) for why in domain_prefixed_path_errors(name))


def _later_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """Return errors in sets that upstream admits although their objects can never be created."""
    rules = (
        template_errors(raw, spec),
        storage_errors(raw),
        placement_errors(raw, spec),
        leader_service_errors(raw),
    )
    return [error for rule in rules for error in islice(rule, MOST_REPORTED)]


def warnings_in(
    new: Mapping[str, Any], old: Mapping[str, Any] | None = None, gang: GangProvider | None = None
) -> list[str]:
    """Return problems of `new` that do not prevent storing it. Warnings that applied to `old` are not
    repeated. old: the stored set; None or empty on create. gang: the provider that schedules groups as gangs.
    """
    if _needs_no_check(new, old) or shape_errors(new):
        return []
    spec = SetSpec.of(new)
    warnings = _unwise(new, spec, gang)
    if not old:
        return warnings
    before = SetSpec.of(old)
    existing = set(_unwise(old, before, gang))
    scaled = [*_no_progress_warnings(spec, before), *scaling_warnings(old, spec, before)]
    restarted = restart_warnings(new, old, spec, before)
    return [*restarted, *scaled, *(warning for warning in warnings if warning not in existing)]


def _unwise(raw: Mapping[str, Any], spec: SetSpec, gang: GangProvider | None) -> list[str]:
    rules = (
        template_warnings(raw, spec),
        storage_warnings(raw),
        placement_warnings(raw, spec),
        termination_warnings(raw, spec),
        gang_warnings(raw, gang) if gang is not None else [],
    )
    return [warning for rule in rules for warning in islice(rule, MOST_REPORTED)]


def _no_progress_warnings(spec: SetSpec, before: SetSpec) -> list[str]:
    if spec.replicas == before.replicas or _limits_changed(spec, before) or not _allows_no_step(spec):
        return []
    return [
        f"{fields.MAX_UNAVAILABLE}: {spec.max_unavailable} with maxSurge {spec.max_surge} allows none of "
        f"{spec.replicas} groups to be replaced; updates go on as with maxUnavailable 1. Raise one of them."
    ]


def _needs_no_check(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    if is_terminating(new):
        return True
    after, before = annotations_of(new), annotations_of(old or {})
    if not old or any(after.get(key) != before.get(key) for key in _READ_ANNOTATIONS):
        return False
    if new.get("spec") == old.get("spec"):
        return True
    # The new object is defaulted, but an object that an earlier release stored may not be.
    defaulted = copied({"spec": old.get("spec")})
    default(defaulted)
    return bool(new.get("spec") == defaulted["spec"])


def _name_errors(new: Mapping[str, Any]) -> Iterator[FieldError]:
    name, prefix = _name_of(new), metadata_of(new).get("generateName")
    if isinstance(prefix, str) and prefix:
        yield from (invalid("metadata.generateName", prefix, why) for why in generate_name_errors(prefix))
    if name:
        yield from (invalid("metadata.name", name, why) for why in dns1035_label_errors(name))
    else:
        yield required("metadata.name", "name or generateName is required")


def _count_errors(spec: SetSpec) -> Iterator[FieldError]:
    replicas, size, path = spec.replicas, spec.size, fields.REPLICAS
    if replicas < 0:
        yield invalid(path, replicas, "replicas must be equal or greater than 0")
    if replicas > path.maximum:
        yield invalid(path, replicas, f"replicas must be equal or less than {path.maximum}")
    if size < 1:
        yield invalid(fields.SIZE, size, "size must be equal or greater than 1")
    if replicas * size > INT32:
        why = f"the product of replicas and worker replicas must not exceed {INT32}"
        yield invalid(path, replicas, why)


def _limit_errors(spec: SetSpec) -> Iterator[FieldError]:
    yield from amount_errors(fields.MAX_UNAVAILABLE, spec.max_unavailable)
    yield from amount_errors(fields.MAX_SURGE, spec.max_surge)
    yield from amount_errors(fields.MAX_UNAVAILABLE_GROUPS, spec.max_unavailable_groups)
    if spec.partition < 0:
        yield invalid(fields.PARTITION, spec.partition, "must be greater than or equal to 0")
    if spec.unavailable_groups is None:
        yield invalid(fields.MAX_UNAVAILABLE, spec.max_unavailable, "invalid value")
    if spec.surge_groups is None:
        yield invalid(fields.MAX_SURGE, spec.max_surge, "invalid value")


def _no_progress_errors(spec: SetSpec, before: SetSpec | None) -> list[FieldError]:
    """Return an error if maxUnavailable and maxSurge are both 0, because no rollout could progress. Only an
    update that changes them is rejected. Scaling a stored set to this state is not.
    """
    if not _allows_no_step(spec) or (before is not None and not _limits_changed(spec, before)):
        return []
    return [invalid(fields.MAX_UNAVAILABLE, spec.max_unavailable, "must not be 0 when `maxSurge` is 0")]


def _allows_no_step(spec: SetSpec) -> bool:
    return spec.replicas != 0 and spec.unavailable_groups == 0 and spec.surge_groups == 0


def _limits_changed(spec: SetSpec, before: SetSpec) -> bool:
    return (spec.max_unavailable, spec.max_surge) != (before.max_unavailable, before.max_surge)


def _update_errors(new: Mapping[str, Any], spec: SetSpec, before: SetSpec) -> Iterator[FieldError]:
    path, after_policy, before_policy = fields.SUB_GROUP_SIZE, spec.subgroup, before.subgroup
    after_size = (after_policy or {}).get("subGroupSize")
    before_size = (before_policy or {}).get("subGroupSize")
    if before_policy is None and after_policy is not None:
        yield invalid(path, after_size, "cannot enable subGroupSize after the lws is already created")
    elif before_policy is not None and after_policy is None:
        yield invalid(path, before_size, "cannot remove subGroupSize after enabled")
    elif None not in (after_size, before_size) and after_size != before_size:
        yield invalid(path, after_size, "field is immutable")
    if (
        fields.SUBDOMAIN_POLICY.name in (fields.NETWORK_CONFIG.stored_in(new) or {})
        and fields.SUBDOMAIN_POLICY.stored_in(new) is None
    ):
        yield invalid(fields.SUBDOMAIN_POLICY, None, "cannot set subdomainPolicy as null")


def _name_length_errors(new: Mapping[str, Any], spec: SetSpec, before: SetSpec | None) -> list[FieldError]:
    """Return an error if the StatefulSet controller could not create every pod of the set, surge groups
    included. An update is checked only if replicas, size or surge grow, so that stored sets stay editable.
    """
    name, replicas, size, surge = _name_of(new), *_extent(spec)
    if has_hash_groups(new) or (before is not None and not _grew(spec, before)):
        return []
    # A set without groups will be scaled up, so check it as if it had one group.
    tightest = tightest_derived_name(max(replicas + surge - 1, 0), size)
    if byte_length(name) <= tightest.room:
        return []
    why = (
        f"has {byte_length(name)} characters, at most {tightest.room} are possible with replicas {replicas}, "
        f"maxSurge {surge} and size {size}: {tightest.purpose}, {tightest.pattern}, would have "
        f"{byte_length(name) + tightest.added} of at most {LABEL_LENGTH} characters; choose a shorter name"
    )
    return [invalid("metadata.name", name, why)]


def _grew(spec: SetSpec, before: SetSpec) -> bool:
    return any(now > then for now, then in zip(_extent(spec), _extent(before), strict=True))


def _extent(spec: SetSpec) -> tuple[int, int, int]:
    """Replicas, size and surge groups, each raised to the minimum of a valid set."""
    return max(spec.replicas, 0), max(spec.size, 1), max(spec.surge_groups or 0, 0)


def _name_of(raw: Mapping[str, Any]) -> str:
    name = metadata_of(raw).get("name")
    return name if isinstance(name, str) else ""


_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def amount_errors(path: object, amount: int | str | None) -> list[FieldError]:
    """Return at most one error for the amount in the field at `path`; none if the amount is unset."""
    if amount is None:
        return []
    if isinstance(amount, int):
        return [invalid(path, amount, "must be greater than or equal to 0")] if amount < 0 else []
    try:
        percent = scaled(amount, 100, round_up=False)
    except ValueError:
        return [invalid(path, amount, _PERCENT_MESSAGE)]
    return [invalid(path, amount, "must not be greater than 100%")] if percent > 100 else []


def subgroup_errors(
    new: Mapping[str, Any], spec: SetSpec, before: SetSpec | None = None
) -> Iterator[FieldError]:
    """Yield errors of the subgroup policy, with upstream's paths and texts."""
    policy, size, path = spec.subgroup, spec.size, fields.SUB_GROUP_SIZE
    if policy is None:
        topology = annotations_of(new).get(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)
        if topology is not None:
            field_path = f"metadata.annotations.{SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION}"
            why = "cannot have subgroup-exclusive-topology without subGroupSize set"
            yield invalid(field_path, topology, why)
        return
    subgroup_size = policy.get("subGroupSize")
    if subgroup_size is None:
        # An earlier release of upstream stored policies without a size.
        stored = before.subgroup if before is not None else None
        if stored is None or stored.get("subGroupSize") is not None:
            yield required(str(path), "subGroupSize is required")
        return
    if subgroup_size < 1:
        yield invalid(path, subgroup_size, "subGroupSize must be equal or greater than 1")
        return
    if size % subgroup_size and (size - 1) % subgroup_size:
        yield invalid(path, subgroup_size, "size or size - 1 must be divisible by subGroupSize")
    if size < subgroup_size:
        yield invalid(path, subgroup_size, "subGroupSize cannot be larger than size")
    excluded = policy.get("subGroupPolicyType") == SubGroupPolicyType.LEADER_EXCLUDED
    if excluded and (size - 1) % subgroup_size:
        why = "size-1 must be divisible by subGroupSize when using LeaderExcluded"
        yield invalid(path, subgroup_size, why)


def storage_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors for PVC templates that would keep pods from starting, and for unsupported policies."""
    for field in map(fields.PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY.child, ("whenDeleted", "whenScaled")):
        if field.stored_in(raw) not in (None, "", RETAIN, DELETE):
            yield invalid(field, field.stored_in(raw), f"must be {RETAIN} or {DELETE}")
    for position, claim in enumerate(_claims(raw)):
        path, name = f"{fields.VOLUME_CLAIM_TEMPLATES}[{position}]", metadata_of(claim).get("name")
        if isinstance(name, str) and name:
            yield from (invalid(f"{path}.metadata.name", name, why) for why in dns1123_label_errors(name))
        else:
            yield required(f"{path}.metadata.name", "required by volumeMounts and by the names of PVCs")
        if not fields.value_at(claim, ("spec", "accessModes")):
            yield required(f"{path}.spec.accessModes", "set accessModes, for example ReadWriteOnce")
        if not fields.value_at(claim, ("spec", "resources", "requests", "storage")):
            yield required(f"{path}.spec.resources.requests.storage", "set the size of the claim")


def storage_warnings(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings for duplicate names of PVC templates, of which StatefulSets use the last."""
    names = [metadata_of(claim).get("name") for claim in _claims(raw)]
    last = {str(name): position for position, name in enumerate(names)}
    for position, name in enumerate(names):
        if position != last[str(name)]:
            path = f"{fields.VOLUME_CLAIM_TEMPLATES}[{position}].metadata.name"
            yield f"{path}: {rendered(name)} is also the name of a later template, which is used: remove one"


def claim_change_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Return errors for changed PVC templates, immutable as in a StatefulSet; equivalent notations are
    allowed.
    """
    after, before = _claims(new), _claims(old)
    if after == before or claims_form(after) == claims_form(before):
        return []
    names = ", ".join(str(metadata_of(claim).get("name")) for claim in after)
    name = _name_of(new)
    why = (
        "field is immutable: StatefulSets cannot change their claim templates; to keep the groups running, "
        f"delete leaderworkerset {name} and statefulset {name} with --cascade=orphan, then create the set "
        "with these: a rollout replaces its groups, and existing claims stay as they are"
    )
    return [invalid(fields.VOLUME_CLAIM_TEMPLATES, names, why)]


def _claims(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings_in(fields.VOLUME_CLAIM_TEMPLATES.stored_in(raw))


_PORTS = str(fields.LEADER_SERVICE.child("ports"))
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")


def leader_service_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors for ports that no Service can have, or for a Service without ports."""
    service = fields.LEADER_SERVICE.stored_in(raw)
    if not isinstance(service, Mapping):
        return
    ports = mappings_in(service.get("ports"))
    if not ports and not _declares_ports(raw):
        why = "no container of the leader template declares a port: set the ports of the Service"
        yield required(_PORTS, why)
    names: set[str] = set()
    # Numbers are compared as text, because stored values may have any type.
    numbers: set[tuple[str, str]] = set()
    for position, port in enumerate(ports):
        path, number = f"{_PORTS}[{position}]", port.get("port")
        yield from _leader_service_name_errors(f"{path}.name", port.get("name"), names, len(ports))
        yield from _target_errors(f"{path}.targetPort", port.get("targetPort"))
        identity = (str(number), str(port.get(PORT_PROTOCOL.name) or PORT_PROTOCOL.stored_default))
        if identity in numbers:
            yield invalid(f"{path}.port", number, "duplicate port")
        numbers.add(identity)


def _declares_ports(raw: Mapping[str, Any]) -> bool:
    template = fields.LEADER_TEMPLATE.stored_in(raw) or fields.WORKER_TEMPLATE.stored_in(raw)
    containers = mappings_in(fields.value_at(template, ("spec", "containers")))
    return any(container.get("ports") for container in containers)


def _leader_service_name_errors(path: str, name: Any, seen: set[str], count: int) -> list[FieldError]:
    if not name:
        return [required(path, "required for several ports")] if count > 1 else []
    if str(name) in seen:
        return [invalid(path, name, "is the name of another port: choose one for each")]
    seen.add(str(name))
    return [invalid(path, name, why) for why in dns1123_label_errors(str(name))]


def _target_errors(path: str, target: Any) -> list[FieldError]:
    if target is None or (isinstance(target, int) and 1 <= target <= 65535):
        return []
    if isinstance(target, str) and len(target) <= 15 and _PORT_NAME.fullmatch(target):
        return []
    why = "must be a number from 1 to 65535, or the name of a port of a container"
    return [invalid(path, target, why)]


_ALONE = "so the leader is scheduled alone, and there may be no room for the workers"


def gang_warnings(raw: Mapping[str, Any], gang: GangProvider) -> Iterator[str]:
    """Yield warnings for valid settings that prevent groups from being scheduled as gangs."""
    if gang.needs_field and fields.SCHEDULING.stored_in(raw) is None:
        return
    if fields.STARTUP_POLICY.stored_in(raw) == StartupPolicy.LEADER_READY:
        yield (
            f"spec.startupPolicy: LeaderReady: workers do not exist before their leader is ready, {_ALONE}; "
            f"use LeaderCreated"
        )
    for annotation in (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION):
        if topology := annotations_of(raw).get(annotation):
            yield (
                f"metadata.annotations.{annotation}: {rendered(topology)}: workers do not exist before their "
                f"leader has a node, {_ALONE} near it"
            )
    timeout = annotations_of(raw).get(TIMEOUT_ANNOTATION)
    if isinstance(gang, Coscheduling) and timeout is not None and timeout_seconds(timeout) is None:
        path = f"metadata.annotations.{TIMEOUT_ANNOTATION}: {rendered(timeout)}"
        yield f"{path} is ignored: set a number of seconds above 0, such as '120'"
    for where, template in templates_of(raw) if isinstance(gang, Kubernetes) else ():
        if fields.value_at(template, ("spec", "schedulingGroup")):
            yield (
                f"{where}.spec.schedulingGroup: these pods name their own PodGroup, the same for all groups "
                f"of the set, and get no other: remove it to schedule each group as a gang"
            )
    # Each scheduler sees only its own pods, and waits indefinitely for the other pods of the group.
    schedulers = {
        where: rendered(fields.value_at(template, ("spec", "schedulerName")) or "default-scheduler")
        for where, template in templates_of(raw)
    }
    if len(set(schedulers.values())) > 1:
        text = " and ".join(f"{where} {name}" for where, name in schedulers.items())
        why = "no scheduler sees the whole group, which is never scheduled; use one"
        yield f"spec.schedulerName: {text}: {why}"


_DOWN = ("NotReady", "Broken")


def scaling_warnings(old: Mapping[str, Any], spec: SetSpec, before: SetSpec) -> list[str]:
    """Return a warning about unready groups that a scale-down keeps. StatefulSets delete the highest index
    first, ready or not. The scale subresource calls no webhook, so users who scale by it get an Event.
    """
    if spec.replicas >= before.replicas or has_hash_groups(old):
        return []
    down = _groups_that_are_down(old)
    unready = [name for index, name in sorted(down.items()) if index < spec.replicas]
    if not unready or all(index in down for index in range(spec.replicas, before.replicas)):
        return []
    return [
        f"spec.replicas: {spec.replicas}: groups with the highest indices are deleted, ready or not; kept "
        f"are {', '.join(unready)}, which are not ready. Delete a leader pod to recreate its group"
    ]


def _groups_that_are_down(raw: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of groups by index."""
    unsettled = mappings_in(fields.value_at(raw, ("status", "groups", "unsettled")))
    names = [str(group.get("name")) for group in unsettled if group.get("state") in _DOWN]
    return {index: name for name in names if (index := parent_and_ordinal(name)[1]) >= 0}


# kubectl and the API server truncate much longer warnings.
_MOST_CHANGES = 3
MOST_VALUES = 20_000
"""The maximum number of values in a spec whose changes are described.

A large template has a hundredth of this number. Describing the maximum takes 0.1 s.
"""
TOO_LARGE = "too large to report here which groups this update restarts: `lws plan` reports it"


def restart_warnings(
    new: Mapping[str, Any], old: Mapping[str, Any], spec: SetSpec, before: SetSpec
) -> list[str]:
    """Return one warning if the update restarts groups, derived from the set alone: pods are not read."""
    running = min(spec.replicas, before.replicas, _counted(old, "replicas"))
    if running <= 0 or why_left_alone(new, True, scheduler_seen(new)) is not None:
        return []
    if any(has_more_values(raw["spec"], MOST_VALUES) for raw in (new, old)):
        template = fields.LEADER_WORKER_TEMPLATE
        is_same = template.stored_in(new) == template.stored_in(old)
        return [] if is_same else [f"{template}: {TOO_LARGE}"]
    if spec_fault(new):
        # A set with an unreadable spec is left alone. Only a spec of at most this size is checked for that.
        return []
    after_record, before_record = record(new), record(old)
    is_same = after_record.form == before_record.form and after_record.topology == before_record.topology
    why = _released(old, spec, before) if is_same else first_changes(describe(before_record, after_record))
    if not why:
        return []
    released = before.floor if is_same and not before.paused else running
    floor = min(spec.floor, running)
    restarted = state.restarts(range(floor, min(released, running)), rollout_budget(spec), spec.paused)
    if restarted and (is_same or _is_rolling(old)):
        restarted += ", unless they have this template already"
    text = "; ".join(filter(None, (restarted, state.pinned_reason(range(floor)))))
    return [f"{text}: {why}"]


def _released(old: Mapping[str, Any], spec: SetSpec, before: SetSpec) -> str:
    """Return why groups restart that a pause or partition held back; empty if none do or all are updated."""
    if spec.paused or _counted(old, "updatedReplicas") >= _counted(old, "replicas"):
        return ""
    if before.paused:
        return "the rollout is resumed"
    if spec.floor < before.floor:
        return f"the partition is lowered from {before.floor} to {spec.floor}"
    return ""


def first_changes(lines: list[str]) -> str:
    """Join the first changes, and count the others."""
    more = len(lines) - _MOST_CHANGES
    return "; ".join([*lines[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])])


def _counted(old: Mapping[str, Any], field: str) -> int:
    count = fields.value_at(old, ("status", field))
    return count if type(count) is int else 0


def _is_rolling(old: Mapping[str, Any]) -> bool:
    conditions = fields.value_at(old, ("status", "conditions"))
    return isinstance(conditions, list) and is_true(conditions, UPDATE_IN_PROGRESS)


def unsupported_errors(raw: Mapping[str, Any], scheduler: Scheduler = ASSUMED) -> Iterator[FieldError]:
    """Yield an error if `spec.scheduling` would have no effect here; see `why_unscheduled`."""
    if unscheduled := why_unscheduled(raw, scheduler):
        yield invalid(fields.SCHEDULING, fields.SCHEDULING.stored_in(raw), ": ".join(unscheduled))


# --- Reject a set whose objects would have the same names as objects of another set in the namespace. For
# example, group 0 of set `a` has a StatefulSet `a-0`, and so has a set named `a-0`.


def clash_errors(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, others: Iterable[Mapping[str, Any]]
) -> Iterator[FieldError]:
    """Yield errors for names that both this and another set need; on update, only for newly needed names."""
    name, indices = _name_of(new), _indices(new)
    old_indices = _indices(old) if old else range(0)
    for other in others:
        its_name = str(metadata_of(other).get("name"))
        # Object names begin with the name of their set. Without this check, 200 sets would cost 2 ms.
        if not (its_name.startswith(f"{name}-") or name.startswith(f"{its_name}-")) or is_terminating(other):
            continue
        index = _group_named(name, its_name)
        if index in _indices(other) and not old:
            why = (
                f"is the name of the StatefulSet or Service of group {index} of LeaderWorkerSet {its_name}: "
                f"choose a name that does not end in a dash and a number"
            )
            yield invalid("metadata.name", name, why)
        index = _group_named(its_name, name)
        if index in indices and index not in old_indices:
            why = (
                f"its group {index} would need a StatefulSet or Service {its_name}, which LeaderWorkerSet "
                f"{its_name} has: choose another name, or at most {index} groups, surge included"
            )
            yield invalid("metadata.name", name, why)
        yield from _service_errors(new, old, other)


def _group_named(name: str, set_name: str) -> int:
    """Return the index of the set's group whose objects have exactly this name, or -1: `a-01` is no group of
    `a`.
    """
    index = parent_and_ordinal(name)[1]
    return index if name == f"{set_name}-{index}" else -1


def _service_errors(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, other: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield errors for two sets that need one Service name. A set's leader Service may have the same name as
    the Service for all pods of another set.
    """
    name, its_name = str(metadata_of(new).get("name")), str(metadata_of(other).get("name"))
    needed, has = _is_shared(new), _has_leader_service(new)
    was_needed, had = (_is_shared(old), _has_leader_service(old)) if old else (False, False)
    if name == leader_service_name(its_name) and _has_leader_service(other) and needed and not was_needed:
        why = (
            f"is the name of the Service of the leaders of LeaderWorkerSet {its_name}: choose another "
            f"name, or networkConfig.subdomainPolicy {SubdomainPolicy.UNIQUE_PER_REPLICA}"
        )
        yield invalid("metadata.name", name, why)
    if its_name == leader_service_name(name) and _is_shared(other) and has and not had:
        why = (
            f"would need a Service {its_name}, which LeaderWorkerSet {its_name} has: create a Service of "
            f"another name yourself"
        )
        yield invalid(fields.LEADER_SERVICE, fields.LEADER_SERVICE.stored_in(new), why)


def _has_leader_service(raw: Mapping[str, Any]) -> bool:
    return fields.LEADER_SERVICE.stored_in(raw) is not None


def _is_shared(raw: Mapping[str, Any]) -> bool:
    return fields.SUBDOMAIN_POLICY.stored_in(raw) in (None, "", SubdomainPolicy.SHARED)


def _indices(raw: Mapping[str, Any]) -> range:
    """Return the indices of groups that have objects of their own in addition to their leader pod."""
    spec = SetSpec.of(raw)
    if has_hash_groups(raw):
        return range(0)
    if spec.size < 2 and fields.SUBDOMAIN_POLICY.stored_in(raw) != SubdomainPolicy.UNIQUE_PER_REPLICA:
        return range(0)
    return range(spec.replicas + (spec.surge_groups or 0))
