"""Decide which edits of a role change a running LeaderWorkerSet at once, and which wait for a revision.

The stored child is compared with the current role and with the recorded role. The result is one write at
most, which never restarts a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.disaggregatedset.children.role_sets import strategy_of
from lws.disaggregatedset.names import child_labels, identity_of
from lws.disaggregatedset.spec import DisaggregatedSpec, Role
from lws.kube.metadata import annotations_of, inherited, labels_of, without_tool_keys
from lws.kube.patches import merge_patch
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, completed_backoff
from lws.runtime.actions import Object, Plan
from lws.runtime.children import repair
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import RestartPolicy

_AT_ONCE_OPTIONAL = (
    fields.LEADER_SERVICE,
    fields.POD_DISRUPTION_BUDGET,
    fields.PROGRESS_DEADLINE_SECONDS,
    fields.MAX_GROUP_RESTARTS,
    fields.START_STRATEGY,
    fields.LEADER_WORKER_TEMPLATE_MAX_GROUP_RESTARTS,
    fields.POD_TERMINATION_POLICY,
)
_AT_ONCE_WITH_DEFAULT = (
    fields.GROUP_REPLACEMENT_POLICY,
    fields.STARTUP_POLICY,
    fields.RESTART_POLICY,
    fields.PARTITION,
    fields.MAX_UNAVAILABLE,
    fields.MAX_SURGE,
)
_RETENTION = {"whenDeleted": "Retain", "whenScaled": "Retain"}
_NOT_OF_ROLES = frozenset(
    {*PLACEMENT_ANNOTATIONS, INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION}
)

_Values = dict[Field, Any]
LiveRole = tuple[Role, _Values]
"""A role of the current spec, and its values that take effect at once. They are computed once for all
children of the role, which saves a quarter of a pass.
"""


def live_role(role: Role) -> LiveRole:
    return role, _values_of({"spec": {**role.spec, fields.ROLLOUT_STRATEGY.name: strategy_of(role)}})


def plan_role_upkeep(set_name: str, child: Object, live: LiveRole | None, recorded: Role | None) -> Plan:
    """Repair edited fields of a child, and apply the fields of its role that take effect at once.

    live: the role in the spec; None if removed, or if the set was not edited since the child was taken over.
    recorded: the role in the child's revision; None if unknown.
    """
    identity = identity_of(set_name, child["metadata"]["name"])
    own = child_labels(set_name, identity) if identity is not None else {}
    labels, annotations = dict(labels_of(child)), dict(annotations_of(child))
    current: dict[str, Any] = {"metadata": {"labels": labels, "annotations": annotations}}
    desired: dict[str, Any] = {"metadata": {"labels": {**labels, **own}, "annotations": annotations}}
    if live is not None:
        role, in_effect = live
        now, former = role.metadata, recorded.metadata if recorded is not None else {}
        merged_labels = _with(labels, now.get("labels"), former.get("labels"))
        of_role = _with(annotations, now.get("annotations"), former.get("annotations"))
        preserved = {key: value for key, value in annotations.items() if key in _NOT_OF_ROLES}
        of_role = {key: value for key, value in of_role.items() if key not in _NOT_OF_ROLES}
        desired = {"metadata": {"labels": {**merged_labels, **own}, "annotations": {**of_role, **preserved}}}
        values = _values_of(child)
        if values != in_effect:
            current |= _tree_of(values)
            desired |= _tree_of(in_effect)
    patch = merge_patch(current, desired)
    remaining = without_tool_keys(child, patch) if patch else {}
    return repair(child, {"its labels or its role were edited": remaining})


def waiting_edits(spec: DisaggregatedSpec, recorded: DisaggregatedSpec) -> tuple[str, ...]:
    """Return the paths of edits that take effect only with the next revision.

    recorded: the content of the target revision.
    """
    paths = []
    for index, role in enumerate(spec.roles):
        former = recorded.role(role.name)
        if former is None:
            continue
        live, old = {"spec": role.spec}, {"spec": former.spec}
        if fields.SUBDOMAIN_POLICY.effective_in(live) != fields.SUBDOMAIN_POLICY.effective_in(old):
            paths.append(f"spec.roles[{index}].{fields.NETWORK_CONFIG}")
        if fields.SCHEDULING.stored_in(live) != fields.SCHEDULING.stored_in(old):
            paths.append(f"spec.roles[{index}].{fields.SCHEDULING}")
        now, then = (version.metadata.get("annotations") or {} for version in (role, former))
        paths += [
            f"spec.roles[{index}].metadata.annotations[{key}]"
            for key in PLACEMENT_ANNOTATIONS
            if now.get(key) != then.get(key)
        ]
    return (*paths, *(("spec.placementPolicy",) if spec.placement != recorded.placement else ()))


def _with(
    stored: Mapping[str, str], current: Mapping[str, str] | None, former: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the stored values with the role's, without those that the role had when it was recorded."""
    removed = inherited(former).keys()
    return {**{key: value for key, value in stored.items() if key not in removed}, **inherited(current)}


def _values_of(raw: Object) -> _Values:
    """Return the fields of a child or a role that take effect at once, with the defaults of the API."""
    values = {field: field.stored_in(raw) for field in (*_AT_ONCE_OPTIONAL, *_AT_ONCE_WITH_DEFAULT)}
    for field in _AT_ONCE_WITH_DEFAULT:
        if values[field] in (None, ""):
            values[field] = field.stored_default
    if values[fields.RESTART_POLICY] == RestartPolicy.DEFAULT:
        values[fields.RESTART_POLICY] = RestartPolicy.NONE.value
    retention = fields.PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY
    values[retention] = {**_RETENTION, **(retention.stored_in(raw) or {})}
    if (backoff := fields.RESTART_BACKOFF.stored_in(raw)) is not None:
        values[fields.RESTART_BACKOFF] = completed_backoff(backoff)
    return {field: value for field, value in values.items() if value is not None}


def _tree_of(values: _Values) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for field, value in values.items():
        *parents, name = field.path
        inside = tree
        for parent in parents:
            inside = inside.setdefault(parent, {})
        inside[name] = value
    return tree
