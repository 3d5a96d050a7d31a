"""Validate DisaggregatedSets. Rules that upstream has keep upstream's order, paths and texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from lws.disaggregatedset.admission.facts import RoleFacts, SetFacts, facts_of, identity_of, shape_errors
from lws.disaggregatedset.names import hash_identity, scaler_name, service_name
from lws.disaggregatedset.revisions.record import describe, record
from lws.disaggregatedset.rollout.state import restarts
from lws.disaggregatedset.spec import (
    NO_MANAGER,
    NO_SUB_ROLES,
    RECORDS,
    DisaggregatedSpec,
    fault_of,
    number_faults,
    parse,
)
from lws.kube.field_errors import FieldError, forbidden, invalid, not_supported, rendered, required
from lws.kube.metadata import annotations_of, is_mapping, is_terminating, labels_of
from lws.kube.names import (
    LABEL_LENGTH,
    SUBDOMAIN_LENGTH,
    byte_length,
    dns1035_label_errors,
    label_key_errors,
    tightest_derived_name,
    tightest_name_with_key,
)
from lws.kube.shapes import has_more_values
from lws.leaderworkerset import fields
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.validation import MOST_REPORTED, MOST_VALUES, TOO_LARGE, first_changes
from lws.leaderworkerset.children.services import leader_service_name
from lws.leaderworkerset.fields import REPLICAS, value_at
from lws.leaderworkerset.group.gangs import GangProvider
from lws.leaderworkerset.scheduling import ASSUMED, Scheduler
from lws.leaderworkerset.spec import EXCLUSIVE_ANNOTATIONS
from lws_api.disaggregatedset.v1 import (
    APP_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCALER_KIND,
    SLICE_LABEL,
)
from lws_api.leaderworkerset.v1 import RolloutStrategyType, SubdomainPolicy


def errors_in(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    others: Iterable[Mapping[str, Any]] = (),
    scheduler: Scheduler = ASSUMED,
) -> list[FieldError]:
    """Return all reasons to reject `new`.

    `old` is the stored set, None or empty on create. The names of scalers of `new` must not be those of
    `others`, the sets of the namespace. `scheduler` is for `scheduling` of roles.

    An update is rejected only for errors that it adds: it must stay possible to edit an annotation or remove
    a finalizer of a set that an older release admitted.
    """
    if _needs_no_check(new, old):
        return []
    malformed = shape_errors(new) or [
        invalid(*fault) for fault in islice(number_faults(new.get("spec") or {}), MOST_REPORTED)
    ]
    if malformed:
        return malformed
    facts, before = facts_of(new), _facts_before(old)
    of_roles, of_the_set = list(_role_errors(facts, before, scheduler)), list(_set_errors(facts))
    names = [*name_errors(facts, before), *clash_errors(facts, before, others)]
    errors = [*of_roles, *names, *of_the_set]
    if before is None or not errors:
        return errors
    earlier = [*_role_errors(before, facts, scheduler), *_set_errors(before)]
    existing = {identity_of(error, before) for error in earlier}
    return [error for error in errors if identity_of(error, facts) not in existing]


def warnings_in(
    new: Mapping[str, Any], old: Mapping[str, Any] | None = None, gang: GangProvider | None = None
) -> list[str]:
    """Return the problems of `new` that do not prevent storing it.

    old: the stored set; None or empty on create. Warnings that already applied to it are not repeated.
    gang: the provider that schedules groups as gangs.
    """
    if _needs_no_check(new, old) or shape_errors(new):
        return []
    facts, before = facts_of(new), _facts_before(old)
    warnings = _warnings(facts, before, gang)
    if old is None or before is None:
        return warnings
    existing = {before.by_names(warning) for warning in (_warnings(before, facts, gang) if warnings else ())}
    fresh = [warning for warning in warnings if facts.by_names(warning) not in existing]
    return [*scaling_change_warnings(old, before, facts), *fresh, *restart_warnings(new, old)]


def _role_errors(facts: SetFacts, other: SetFacts | None, scheduler: Scheduler) -> Iterator[FieldError]:
    """Yield errors of roles that differ from `other`, the set before or after, and of all scalers."""
    for role in facts.roles:
        yield from role_errors(facts, role, other, scheduler)
        yield from scaler_errors(facts, role)


def _set_errors(facts: SetFacts) -> Iterator[FieldError]:
    yield from placement_errors(facts)
    yield from islice(start_order_errors(facts), MOST_REPORTED)
    yield from reserved_errors(facts)


def _warnings(facts: SetFacts, other: SetFacts | None, gang: GangProvider | None) -> list[str]:
    return [
        *scaling_warnings(facts),
        *placement_warnings(facts),
        *reserved_warnings(facts),
        *(warning for role in facts.roles for warning in role_warnings(facts, role, other, gang)),
    ]


def _facts_before(old: Mapping[str, Any] | None) -> SetFacts | None:
    return facts_of(old) if old and not shape_errors(old) else None


def _needs_no_check(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    return is_terminating(new) or bool(old and new.get("spec") == old.get("spec"))


def start_order_errors(facts: SetFacts) -> Iterator[FieldError]:
    """Yield errors of `startAfter`: at most one per cycle, with the same text for any order of roles."""
    names = [role.name for role in facts.roles]
    awaited = {
        role.name: [awaited_role for awaited_role in role.start_after if awaited_role in names]
        for role in facts.roles
    }
    for role in facts.roles:
        for index, name in enumerate(role.start_after):
            if name not in names:
                yield not_supported(f"{role.path}.startAfter[{index}]", name, names)
        cycle = _circle_from(role.name, awaited)
        if cycle and role.name == min(cycle):
            chain = " waits for ".join((*cycle, role.name))
            yield invalid(
                f"{role.path}.startAfter", list(role.start_after), f"goes round in a circle: {chain}"
            )


def _circle_from(name: str, awaited: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the shortest path from a role back to itself; empty if there is none."""
    paths: list[tuple[str, ...]] = [(name,)]
    seen: set[str] = set()
    for path in paths:
        for next_role in awaited[path[-1]]:
            if next_role == name:
                return path
            if next_role not in seen:
                seen.add(next_role)
                paths.append((*path, next_role))
    return ()


_TOPOLOGY = "spec.placementPolicy.topology"


def placement_errors(facts: SetFacts) -> Iterator[FieldError]:
    """Yield errors about placement that is invalid or that the scheduler can never satisfy."""
    placement = facts.placement
    if placement.is_none:
        return
    if not placement.topology:
        yield required(_TOPOLOGY, "topology is required when type is not None")
    for why in label_key_errors(placement.topology) if placement.topology else ():
        yield invalid(_TOPOLOGY, placement.topology, why)
    for role in facts.roles:
        if key := _exclusive_annotation(role):
            why = (
                f'the "{key}" annotation must not be combined with a non-None spec.placementPolicy.type '
                f"({placement.type})"
            )
            yield forbidden(role.path, None, why)


def placement_warnings(facts: SetFacts) -> Iterator[str]:
    """Yield warnings about placement that the scheduler may be unable to satisfy."""
    placement = facts.placement
    if placement.is_none or not placement.is_required:
        return
    for role in facts.roles:
        if role.surge:
            yield (
                f"{role.path}.{fields.MAX_SURGE}: {role.spec.max_surge} with placementPolicy.type "
                f"{placement.type}: during updates groups on top run in the same {placement.topology} as "
                f"their slice, and wait where it has no room for them"
            )


def _exclusive_annotation(role: RoleFacts) -> str:
    """Return the first annotation in the metadata of a role or its templates that places groups, or ""."""
    keys = (
        key
        for _, obj in _objects_with_metadata(role)
        for key in EXCLUSIVE_ANNOTATIONS
        if key in annotations_of(obj)
    )
    return next(keys, "")


_SET_BY_THE_CONTROLLER = (NAME_LABEL, ROLE_LABEL, SLICE_LABEL, REVISION_LABEL)


def reserved_errors(facts: SetFacts) -> Iterator[FieldError]:
    """Yield errors about labels that identify children, and annotations with records of the controller."""
    for role in facts.roles:
        same = {NAME_LABEL: facts.name, ROLE_LABEL: role.name}
        for path, obj in _objects_with_metadata(role):
            labels = labels_of(obj)
            for key in _SET_BY_THE_CONTROLLER:
                if key in labels and labels[key] != same.get(key):
                    why = "is set by the controller, which finds objects by it: remove it"
                    yield forbidden(f"{path}.labels[{key}]", labels[key], why)
        annotations = annotations_of(role.raw)
        for key, remembered in RECORDS.items():
            if key in annotations:
                why = f"is where the controller remembers {remembered}: remove it"
                yield forbidden(f"{role.path}.metadata.annotations[{key}]", annotations[key], why)


def reserved_warnings(facts: SetFacts) -> Iterator[str]:
    """Yield warnings about labels that the controller overwrites."""
    for role in facts.roles:
        for path, obj in _objects_with_metadata(role):
            if (value := labels_of(obj).get(APP_LABEL)) is not None:
                yield (
                    f"{path}.labels[{APP_LABEL}]: {rendered(value)} is overwritten with "
                    f"<set>-<slice>-<role>: select pods by {NAME_LABEL} and {ROLE_LABEL}"
                )


def _objects_with_metadata(role: RoleFacts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield f"{role.path}.metadata", role.raw
    for field in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        template = role.at(*field.path)
        if is_mapping(template):
            yield f"{role.path}.{field}.metadata", template


def restart_warnings(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    """Yield one warning if the update restarts groups. It is derived from the set alone; the children are not
    read.
    """
    if any(has_more_values(raw.get("spec"), MOST_VALUES) for raw in (new, old)):
        if _templates(new) != _templates(old):
            yield f"spec.roles: {TOO_LARGE}"
        return
    # Fields of a later release do not keep the old set from being compared: removing one may start a rollout.
    if fault_of(new) or fault_of(old, is_recorded=True):
        return
    spec, before = parse(new), parse(old)
    after_record, before_record = record(new), record(old)
    is_same = after_record.forms == before_record.forms
    if is_same and (spec.paused or not before.paused):
        return
    groups = dict(_groups(old, spec, before, only_old=is_same))
    restarted = restarts({role: count for role, count in groups.items() if count > 0}, spec.paused)
    if not restarted:
        return
    status = old.get("status")
    is_rolling = is_mapping(status) and status.get("currentRevision") != status.get("updateRevision")
    if not is_same and is_rolling:
        restarted += ", unless they have these templates already"
    why = "the rollout is resumed" if is_same else first_changes(describe(before_record, after_record))
    yield f"{restarted}: {why}"


def _templates(raw: Mapping[str, Any]) -> list[Any]:
    roles = value_at(raw, ("spec", "roles")) or ()
    return [
        value_at(role, ("spec", fields.LEADER_WORKER_TEMPLATE.name)) for role in roles if is_mapping(role)
    ]


def _groups(
    old: Mapping[str, Any], spec: DisaggregatedSpec, before: DisaggregatedSpec, only_old: bool
) -> Iterator[tuple[str, int]]:
    """Yield each role with the number of its groups that the update restarts. Groups of removed roles and
    slices are deleted instead, so they do not count.
    """
    for role in spec.roles:
        groups = _count(old, role.name, "replicas") or 0
        groups -= (_count(old, role.name, "updatedReplicas") or 0) if only_old else 0
        yield role.name, groups * min(spec.slices, before.slices) // before.slices


def _count(raw: Mapping[str, Any], role: str, field: str) -> int | None:
    statuses = value_at(raw, ("status", "roleStatuses"))
    for status in statuses if isinstance(statuses, list) else ():
        if is_mapping(status) and status.get("name") == role and type(status.get(field)) is int:
            return int(status[field])
    return None


_PARTITION = (
    "partition is not supported by DisaggregatedSet; rolling updates are managed across roles by the "
    "DisaggregatedSet controller"
)
_SUB_ROLES = f"{NO_SUB_ROLES}: leave the field out, or make each pool a role of its own"
_MANAGED_BY = f"{NO_MANAGER}: leave the field out"
_NOTHING_TO_WARM = "its rollouts create groups on any nodes, and replace none in its place"
_OF_THE_WHOLE_SET = (fields.PAUSED, fields.REVISION_HISTORY_LIMIT)


def role_errors(
    facts: SetFacts, role: RoleFacts, other: SetFacts | None, scheduler: Scheduler = ASSUMED
) -> Iterator[FieldError]:
    """Yield errors of one role by itself. There are none if `other` has the same role."""
    if _is_same(role, other):
        return
    strategy, partition = role.at(*fields.ROLLOUT_STRATEGY_TYPE.path), role.at(*fields.PARTITION.path)
    if strategy not in (None, "", RolloutStrategyType.ROLLING_UPDATE):
        supported = (RolloutStrategyType.ROLLING_UPDATE, "")
        yield not_supported(f"{role.path}.{fields.ROLLOUT_STRATEGY_TYPE}", strategy, supported)
    if partition not in (None, 0):
        yield forbidden(f"{role.path}.{fields.PARTITION}", partition, _PARTITION)
    if sub_roles := role.at("subRoles"):
        yield forbidden(f"{role.path}.subRoles", sub_roles, _SUB_ROLES)
    if (name := role.at(*fields.MANAGED_BY.path)) is not None:
        yield forbidden(f"{role.path}.{fields.MANAGED_BY}", name, _MANAGED_BY)
    if role.at("spec") is None:
        yield required(f"{role.path}.spec", "say what its groups are made of: a leaderWorkerTemplate")
        return
    for error in leaderworkerset.errors_in(_set_of(facts, role), scheduler=scheduler):
        # The name combines the names of set and role, which `name_errors` checks.
        if not error.path.startswith("metadata.name"):
            yield FieldError(error.complaint, f"{role.path}.{error.path}", error.detail, error.value)


def role_warnings(
    facts: SetFacts, role: RoleFacts, other: SetFacts | None, gang: GangProvider | None
) -> Iterator[str]:
    """Yield warnings about one role by itself. There are none if `other` has the same role."""
    if _is_same(role, other) or role.at("spec") is None:
        return
    for field in _OF_THE_WHOLE_SET:
        if role.at(*field.path) is not None:
            yield f"{role.path}.{field}: has no effect in a role: say it in {field} of the DisaggregatedSet"
    if role.at(*fields.PREWARM.path) is not None:
        yield f"{role.path}.{fields.PREWARM}: has no effect in a role: {_NOTHING_TO_WARM}: leave it out"
    for warning in leaderworkerset.warnings_in(_set_of(facts, role), gang=gang):
        # Warnings begin with a field path.
        yield f"{role.path}.{warning}"


def _is_same(role: RoleFacts, other: SetFacts | None) -> bool:
    twin = other.role(role.name) if other is not None else None
    return twin is not None and twin.raw == role.raw


def _set_of(facts: SetFacts, role: RoleFacts) -> dict[str, Any]:
    """Return the LeaderWorkerSet of a role as it would be stored, with its longest possible name.

    It shares the large pod templates with the role, because defaulting does not change them.
    """
    spec = dict(role.at("spec"))
    for field in (fields.LEADER_WORKER_TEMPLATE, fields.ROLLOUT_STRATEGY, fields.NETWORK_CONFIG):
        if is_mapping(value := spec.get(field.name)):
            spec[field.name] = dict(value)
    annotations = role.at("metadata", "annotations") or {}
    leaderworkerset_of_role = {
        "metadata": {"name": facts.longest_child_name(role.name), "annotations": annotations},
        "spec": spec,
    }
    default(leaderworkerset_of_role)
    return leaderworkerset_of_role


def name_errors(facts: SetFacts, before: SetFacts | None) -> list[FieldError]:
    """Return errors about names; `before` is the stored set, None on create."""
    lengths = [error for role in facts.roles if (error := _length_error(facts, role, before)) is not None]
    existing = set[tuple[str, str]]()
    if before is not None:
        existing = {(role.name, why) for role in before.roles for why in _collisions_of(before, role)}
    collisions = [
        invalid(f"{role.path}.name", role.name, why)
        for role in facts.roles
        for why in _collisions_of(facts, role)
        if (role.name, why) not in existing
    ]
    return [*lengths, *([] if before is not None else _set_name_errors(facts)), *collisions]


def _set_name_errors(facts: SetFacts) -> Iterator[FieldError]:
    """Yield errors of the set's name, with which the names of all its objects begin."""
    if not facts.name:
        yield required("metadata.name", "name or generateName is required")
        return
    for why in dns1035_label_errors(facts.name):
        yield invalid("metadata.name", facts.name, why)


def _length_error(facts: SetFacts, role: RoleFacts, before: SetFacts | None) -> FieldError | None:
    earlier = before.role(role.name) if before is not None else None
    if before is not None and earlier is not None:
        sizes = zip(_extent(facts, role), _extent(before, earlier), strict=True)
        if all(now <= then for now, then in sizes):
            return None
    why = _too_long(facts, role)
    return invalid(f"{role.path}.name", role.name, why) if why else None


def _too_long(facts: SetFacts, role: RoleFacts) -> str:
    """Explain why the names of a role are too long for Kubernetes; empty if they are not."""
    child = facts.longest_child_name(role.name)
    length, service = byte_length(child), byte_length(service_name(child))
    chosen = byte_length(facts.name) + byte_length(role.name)
    if service > LABEL_LENGTH:
        return (
            f"the generated service name ({service} chars) would exceed the DNS-1035 limit of "
            f"{LABEL_LENGTH} characters; {_shorten(chosen - (service - LABEL_LENGTH))}"
        )
    has_keys = bool(hash_identity(role.raw.get("spec") or {}))
    highest_index = max(role.replicas + role.surge - 1, 0)
    tightest = (
        tightest_name_with_key(role.size) if has_keys else tightest_derived_name(highest_index, role.size)
    )
    if length <= tightest.room:
        return ""
    remedy = _shorten(chosen - (length - tightest.room))
    if has_keys:
        return (
            f"the generated names ({length + tightest.added} chars) would exceed the DNS-1035 limit of "
            f"{LABEL_LENGTH} characters; {remedy}"
        )
    return (
        f"the LeaderWorkerSet <set>-<slice>-<revision>-<role> would have a name of {length} characters, at "
        f"most {tightest.room} are possible with replicas {role.replicas}, maxSurge {role.surge} and size "
        f"{role.size}: {tightest.purpose}, {tightest.pattern}, would have {length + tightest.added} of at "
        f"most {LABEL_LENGTH} characters; {remedy}"
    )


def _shorten(most: int) -> str:
    return f"reduce the DisaggregatedSet name and/or role name (combined limit: {most} characters)"


def _extent(facts: SetFacts, role: RoleFacts) -> tuple[int, int, int, int]:
    return len(facts.longest_child_name(role.name)), role.replicas, role.size, role.surge


def _collisions_of(facts: SetFacts, role: RoleFacts) -> Iterator[str]:
    """Describe objects of a role whose names could also be names of objects of another role, if that role's
    name is a prefix.
    """
    for other in facts.roles:
        if not role.name.startswith(f"{other.name}-"):
            continue
        if role.name == service_name(other.name) and _is_shared(role):
            yield _taken(other, "the Service of that role", "the Service of the pods of this one")
        has_leader_service = other.at(*fields.LEADER_SERVICE.path) is not None
        if role.name == leader_service_name(other.name) and _is_shared(role) and has_leader_service:
            yield _taken(
                other, "the Service of the leaders of that role", "the Service of the pods of this one"
            )
        ending = role.name.removeprefix(f"{other.name}-")
        if ending.isdecimal() and str(int(ending[:10])) == ending and _has_group(other, int(ending)):
            yield _taken(other, f"group {ending} of that role", "the leaders of this one")


def _taken(other: RoleFacts, theirs: str, ours: str) -> str:
    return f'collides with role "{other.name}": {theirs} and {ours} need objects of one name; choose another'


def _has_group(role: RoleFacts, index: int) -> bool:
    """Return whether the group of this index has objects of its own in addition to its leader pod."""
    has_objects = role.size > 1 or not _is_shared(role)
    # An autoscaler may request any number of groups, and its writes are not validated here.
    return has_objects and (role.is_external or index < role.replicas + role.surge)


def _is_shared(role: RoleFacts) -> bool:
    return role.at(*fields.SUBDOMAIN_POLICY.path) in (None, "", SubdomainPolicy.SHARED)


def scaler_errors(facts: SetFacts, role: RoleFacts) -> Iterator[FieldError]:
    """Yield an error if the API server would reject the name of the role's scaler."""
    scaler = scaler_name(facts.name, role.name)
    if role.is_external and byte_length(scaler) > SUBDOMAIN_LENGTH:
        why = f'would produce scaler name "{scaler}" exceeding {SUBDOMAIN_LENGTH} characters'
        yield invalid(f"{role.path}.name", role.name, why)


def clash_errors(
    facts: SetFacts, before: SetFacts | None, others: Iterable[Mapping[str, Any]]
) -> Iterator[FieldError]:
    """Yield errors about scalers that another set has: role `c` of a set `a-b` and role `b-c` of a set `a`
    need the same name.

    others: the sets of the namespace. An update is rejected only for roles that had no scaler before.
    """
    needed = {
        scaler_name(facts.name, role.name): role
        for role in _external(facts)
        if (earlier := before.role(role.name) if before else None) is None or not earlier.is_external
    }
    owners = {scaler: name for name, scaler in _scalers(others, needed) if name != facts.name}
    for scaler, role in needed.items():
        owner = owners.get(scaler)
        if owner is not None:
            why = (
                f"would need the {SCALER_KIND} {scaler}, which DisaggregatedSet "
                f"{owner} has: choose another name"
            )
            yield invalid(f"{role.path}.name", role.name, why)


def _scalers(others: Iterable[Mapping[str, Any]], needed: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of set name and scaler name, except from sets that are terminating or malformed.

    Sets that cannot have a needed scaler are skipped early, because reading a set costs 50 µs.
    """
    for other in others if needed else ():
        name = other.get("metadata", {}).get("name", "")
        if not any(scaler.startswith(f"{name}-") for scaler in needed):
            continue
        if not is_terminating(other) and not shape_errors(other):
            facts = facts_of(other)
            yield from ((facts.name, scaler_name(facts.name, role.name)) for role in _external(facts))


def scaling_warnings(facts: SetFacts) -> Iterator[str]:
    """Yield warnings about scaling settings that have another effect than the user may expect."""
    for role in _external(facts):
        if role.replicas > 1:
            yield (
                f'role "{role.name}" sets scaling.mode: External and spec.replicas: {role.replicas} — '
                f"spec.replicas is ignored; drive replicas via {SCALER_KIND} "
                f'"{scaler_name(facts.name, role.name)}" instead'
            )
    names = ", ".join(role.name for role in _external(facts))
    if names and facts.slices > 1:
        yield (
            f"spec.slices: {facts.slices} with scaling.mode External of {names}: a scaler counts the groups "
            f"of all slices together, and each slice gets its share; upstream rejects this, and would give "
            f"each slice the number of the scaler"
        )


def scaling_change_warnings(old: Mapping[str, Any], before: SetFacts, facts: SetFacts) -> Iterator[str]:
    """Yield warnings about roles that lose groups as their scaler is no longer used; `old` has its status."""
    for role in facts.roles:
        earlier = before.role(role.name)
        if earlier is None or not earlier.is_external or role.is_external:
            continue
        running, desired = _count(old, role.name, "replicas"), role.replicas * max(facts.slices, 1)
        if running is not None and running > desired:
            yield (
                f"{role.path}.{REPLICAS}: role {role.name} has {running} groups by its scaler and will have "
                f"{desired}, {role.replicas} in each slice: set replicas to keep more"
            )


def _external(facts: SetFacts) -> Iterator[RoleFacts]:
    return (role for role in facts.roles if role.is_external)
