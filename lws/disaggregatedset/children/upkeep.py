"""Decide which edits of a role change a running LeaderWorkerSet at once, and which wait for a revision.

The stored child is compared with the current role and with the recorded role. The result is one write at
most, which never restarts a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.disaggregatedset.children.role_sets import strategy_of
from lws.disaggregatedset.names import child_labels, identity_of
from lws.disaggregatedset.spec import RECORDS, DisaggregatedSpec, Role
from lws.kube.metadata import annotations_of, inherited, labels_of, without, without_tool_keys
from lws.kube.patches import merge_patch
from lws.leaderworkerset import fields
from lws.leaderworkerset.fields import Field
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, completed_backoff
from lws.runtime.actions import Object, Plan
from lws.runtime.children import repair
from lws_api.disaggregatedset.v1 import ADDED_METADATA_ANNOTATION
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
# Earlier releases may have listed such an annotation among those that they had added from a role.
_NOT_OF_ROLES = frozenset({*PLACEMENT_ANNOTATIONS, *RECORDS})

_Values = dict[Field, Any]
_Metadata = Mapping[str, Mapping[str, str]]
LiveRole = tuple[Role, _Metadata, _Values]
"""A role of the current spec, and its labels, annotations and other values that take effect at once. They are
computed once for all children of the role, which saves a quarter of a pass.
"""


def live_role(role: Role) -> LiveRole:
    values = _values_of({"spec": {**role.spec, fields.ROLLOUT_STRATEGY.name: strategy_of(role)}})
    return role, _metadata_of(role), values


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
        role, metadata, in_effect = live
        former: _Metadata | None = None
        if recorded is not None:
            former = metadata if recorded.metadata == role.metadata else _metadata_of(recorded)
        desired = {"metadata": _merged(current["metadata"], own, metadata, former)}
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


def _merged(
    stored: _Metadata, own: Mapping[str, str], role: _Metadata, former: _Metadata | None
) -> dict[str, dict[str, str]]:
    """Return a child's stored labels and annotations with the role's, without those that the role had before.

    These are in the child's revision (`former`), or were added later and are therefore listed in an
    annotation. What a role has is listed and removed even if somebody else had set it before.
    """
    listed = stored["annotations"].get(ADDED_METADATA_ANNOTATION, "").split(",")
    added, desired = list[str](), dict[str, dict[str, str]]()
    for field, values in stored.items():
        current, recorded = role[field], former[field] if former is not None else {}
        removed = {key for key in values if key in recorded or f"{field}:{key}" in listed} - _NOT_OF_ROLES
        desired[field] = {**without(values, removed), **current}
        unlisted = {*recorded, *own} if field == "labels" else recorded
        added += [f"{field}:{key}" for key in current if key not in unlisted]
    desired["labels"] |= own
    if former is None:
        added = [entry for entry in added if entry in listed]
    if added:
        desired["annotations"][ADDED_METADATA_ANNOTATION] = ",".join(sorted(added))
    else:
        desired["annotations"].pop(ADDED_METADATA_ANNOTATION, None)
    return desired


def _metadata_of(role: Role) -> _Metadata:
    """Return the labels and annotations that a child gets from its role and may lose with it."""
    labels, annotations = (inherited(role.metadata.get(field)) for field in ("labels", "annotations"))
    return {"labels": labels, "annotations": without(annotations, _NOT_OF_ROLES)}


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
