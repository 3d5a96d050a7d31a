"""May this LeaderWorkerSet be stored?

In: the set as the API server decoded it, and as it was before. Out: errors or warnings, in the order, at the
paths and in the words of the original controller's webhook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from lws.admission.amounts import amount_errors
from lws.admission.defaulting import default
from lws.admission.errors import FieldError, invalid, required
from lws.admission.fields import shape_errors
from lws.admission.rules.gangs import gang_warnings
from lws.admission.rules.later_fields import later_field_change_errors, later_field_errors
from lws.admission.rules.leader_service import leader_service_errors
from lws.admission.rules.placement import placement_errors, placement_warnings
from lws.admission.rules.restarts import restart_warnings
from lws.admission.rules.scaling import scaling_warnings
from lws.admission.rules.siblings import clash_errors
from lws.admission.rules.storage import claim_change_errors, storage_errors, storage_warnings
from lws.admission.rules.subgroups import SUBGROUP_SIZE_PATH, subgroup_errors
from lws.admission.rules.templates import template_errors, template_warnings
from lws.group.gang.provider import GangProvider
from lws.kube.metadata import annotations_of, copied, is_terminating, metadata_of
from lws.kube.names import (
    LABEL_LENGTH,
    byte_length,
    dns1035_label_errors,
    generate_name_errors,
    tightest_derived_name,
)
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.shape import number_faults
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, SetSpec
from lws_api.leaderworkerset.v1 import RECREATE_GROUP_AFTER_START_ANNOTATION

_READ_ANNOTATIONS = (*PLACEMENT_ANNOTATIONS, RECREATE_GROUP_AFTER_START_ANNOTATION)
_MAX_REPLICAS = 1_000_000
MOST_TOLD = 100
"""Errors or warnings of one rule: nobody reads more, and who means harm could have a million of them."""
_MAX_PODS = 2**31 - 1


def errors_in(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    others: Iterable[Mapping[str, Any]] = (),
) -> list[FieldError]:
    """Everything that forbids storing `new`, in rule order; `old` is what is stored, None or empty on create.

    others: the sets of its namespace, whose names it must not need.

    A set that is being deleted, or whose spec and the annotations that we read are as before, is never
    refused: a removed finalizer or an added label has nothing to do with what was stored earlier. Of
    the metadata only the name is checked; the API server has checked the rest before it calls a validating
    webhook.
    """
    if _needs_no_check(new, old):
        return []
    wrong = shape_errors(new) or [
        invalid(*each) for each in islice(number_faults(new.get("spec")), MOST_TOLD)
    ]
    if wrong:
        return wrong
    spec = SetSpec.of(new)
    before = SetSpec.of(old) if old else None
    errors = [
        *_name_errors(new),
        *_count_errors(spec),
        *_budget_errors(spec),
        *_empty_budget_errors(spec, before),
        *subgroup_errors(new, spec),
    ]
    if before is not None:
        errors += _update_errors(new, spec, before)
    errors += _name_length_errors(new, spec, before)
    known = {str(each) for each in _later_errors(old, before)} if old and before is not None else set()
    errors += [each for each in _later_errors(new, spec) if str(each) not in known]
    if old:
        errors += [*claim_change_errors(new, old), *later_field_change_errors(new, old)]
    return errors + clash_errors(new, old, others)


def _later_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """What the original controller stores, and what nothing can ever be made of."""
    rules = (
        template_errors(raw, spec),
        storage_errors(raw),
        placement_errors(raw, spec),
        leader_service_errors(raw),
        later_field_errors(raw),
    )
    return [error for found in rules for error in islice(found, MOST_TOLD)]


def warnings_in(
    new: Mapping[str, Any], old: Mapping[str, Any] | None = None, gang: GangProvider | None = None
) -> list[str]:
    """What is stored although it is unwise; `old` is the stored object, None or empty on create.

    gang: who places groups as a whole. Nothing is told twice that was so before.
    """
    if _needs_no_check(new, old) or shape_errors(new):
        return []
    spec = SetSpec.of(new)
    found = _unwise(new, spec, gang)
    if not old:
        return found
    before = SetSpec.of(old)
    known = set(_unwise(old, before, gang))
    scaled = [*_empty_budget_warnings(spec, before), *scaling_warnings(old, spec, before)]
    restarted = restart_warnings(new, old, spec, before)
    return [*restarted, *scaled, *(each for each in found if each not in known)]


def _unwise(raw: Mapping[str, Any], spec: SetSpec, gang: GangProvider | None) -> list[str]:
    of_gangs = gang_warnings(raw, gang) if gang is not None else []
    of_pods = (template_warnings(raw, spec), storage_warnings(raw), placement_warnings(raw, spec))
    return [warning for found in (*of_pods, of_gangs) for warning in islice(found, MOST_TOLD)]


def _empty_budget_warnings(spec: SetSpec, before: SetSpec) -> list[str]:
    if spec.replicas == before.replicas or _budgets_changed(spec, before) or not _allows_no_step(spec):
        return []
    return [
        f"{fields.MAX_UNAVAILABLE}: {spec.max_unavailable} with maxSurge {spec.max_surge} lets none of "
        f"{spec.replicas} groups be replaced; updates go on as with maxUnavailable 1. Raise one of the two."
    ]


def _needs_no_check(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    if is_terminating(new):
        return True
    told, known = annotations_of(new), annotations_of(old or {})
    if not old or any(told.get(key) != known.get(key) for key in _READ_ANNOTATIONS):
        return False
    if new.get("spec") == old.get("spec"):
        return True
    # The new object has been through `default`; one that an earlier release stored may not have been.
    defaulted = copied({"spec": old.get("spec")})
    default(defaulted)
    return bool(new.get("spec") == defaulted["spec"])


def _name_errors(new: Mapping[str, Any]) -> list[FieldError]:
    name, prefix = _name_of(new), metadata_of(new).get("generateName")
    errors = []
    if isinstance(prefix, str) and prefix:
        errors += [invalid("metadata.generateName", prefix, why) for why in generate_name_errors(prefix)]
    if not name:
        return [*errors, required("metadata.name", "name or generateName is required")]
    return errors + [invalid("metadata.name", name, why) for why in dns1035_label_errors(name)]


def _count_errors(spec: SetSpec) -> list[FieldError]:
    replicas, size, path = spec.replicas, spec.size, str(fields.REPLICAS)
    errors = []
    if replicas < 0:
        errors.append(invalid(path, replicas, "replicas must be equal or greater than 0"))
    if replicas > _MAX_REPLICAS:
        errors.append(invalid(path, replicas, f"replicas must be equal or less than {_MAX_REPLICAS}"))
    if size < 1:
        errors.append(invalid(fields.SIZE, size, "size must be equal or greater than 1"))
    if replicas * size > _MAX_PODS:
        why = f"the product of replicas and worker replicas must not exceed {_MAX_PODS}"
        errors.append(invalid(path, replicas, why))
    return errors


def _budget_errors(spec: SetSpec) -> list[FieldError]:
    errors = amount_errors(fields.MAX_UNAVAILABLE, spec.max_unavailable)
    errors += amount_errors(fields.MAX_SURGE, spec.max_surge)
    errors += amount_errors(fields.DISRUPTED_GROUPS, spec.disrupted_groups)
    if spec.partition < 0:
        errors.append(invalid(fields.PARTITION, spec.partition, "must be greater than or equal to 0"))
    if spec.unavailable_groups is None:
        errors.append(invalid(fields.MAX_UNAVAILABLE, spec.max_unavailable, "invalid value"))
    if spec.surge_groups is None:
        errors.append(invalid(fields.MAX_SURGE, spec.max_surge, "invalid value"))
    return errors


def _empty_budget_errors(spec: SetSpec, before: SetSpec | None) -> list[FieldError]:
    """With budgets of 0 and 0 no rollout can move. Who sets them so is refused, not who scales the set."""
    if not _allows_no_step(spec) or (before is not None and not _budgets_changed(spec, before)):
        return []
    return [invalid(fields.MAX_UNAVAILABLE, spec.max_unavailable, "must not be 0 when `maxSurge` is 0")]


def _allows_no_step(spec: SetSpec) -> bool:
    return spec.replicas != 0 and spec.unavailable_groups == 0 and spec.surge_groups == 0


def _budgets_changed(spec: SetSpec, before: SetSpec) -> bool:
    return (spec.max_unavailable, spec.max_surge) != (before.max_unavailable, before.max_surge)


def _update_errors(new: Mapping[str, Any], spec: SetSpec, before: SetSpec) -> list[FieldError]:
    path, after_policy, before_policy = SUBGROUP_SIZE_PATH, spec.subgroup, before.subgroup
    after_size = (after_policy or {}).get("subGroupSize")
    before_size = (before_policy or {}).get("subGroupSize")
    errors = []
    if before_policy is None and after_policy is not None:
        why = "cannot enable subGroupSize after the lws is already created"
        errors.append(invalid(path, after_size, why))
    elif before_policy is not None and after_policy is None:
        errors.append(invalid(path, before_size, "cannot remove subGroupSize after enabled"))
    elif after_size is not None and after_size != before_size:
        errors.append(invalid(path, after_size, "field is immutable"))
    if (
        fields.SUBDOMAIN_POLICY.name in (fields.NETWORK.of(new) or {})
        and fields.SUBDOMAIN_POLICY.of(new) is None
    ):
        errors.append(invalid(fields.SUBDOMAIN_POLICY, None, "cannot set subdomainPolicy as null"))
    return errors


def _name_length_errors(new: Mapping[str, Any], spec: SetSpec, before: SetSpec | None) -> list[FieldError]:
    """A name with which the StatefulSet controller could not make every pod of the set, surge included.

    An update is checked only if replicas, size or surge grow: what is stored must stay editable.
    """
    name, replicas, size, surge = _name_of(new), *_extent(spec)
    if before is not None and not _grew(spec, before):
        return []
    # A set without groups is made to be scaled up: it is measured as if it had one.
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
    """Replicas, size and surge groups, each at least what a valid set could have."""
    return max(spec.replicas, 0), max(spec.size, 1), max(spec.surge_groups or 0, 0)


def _name_of(raw: Mapping[str, Any]) -> str:
    name = metadata_of(raw).get("name")
    return name if isinstance(name, str) else ""
