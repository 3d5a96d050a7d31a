"""What of a role takes effect at once on a LeaderWorkerSet that runs, and what waits for the next revision?

In: a child as stored, the role as the set asks for it now, the same as it was recorded. Out: a part of the
plan, one write at most; what waits, as paths for users. None of these writes rolls a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.actions import Object, Plan
from lws.children import repair
from lws.disaggregatedset.children.role_sets import strategy_of
from lws.disaggregatedset.labels import child_labels
from lws.disaggregatedset.names import identity_of
from lws.disaggregatedset.spec import DisaggregatedSpec, Role
from lws.kube.differences.patches import merge_patch
from lws.kube.metadata import annotations_of, labels_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import RestartPolicy

_OPTIONAL = (
    fields.LEADER_SERVICE,
    fields.DISRUPTION_BUDGET,
    fields.PROGRESS_DEADLINE,
    fields.MAX_GROUP_RESTARTS,
    fields.MAX_GROUP_RESTARTS_IN_TEMPLATE,
)
_WITH_DEFAULT = (
    fields.STARTUP_POLICY,
    fields.RESTART_POLICY,
    fields.PARTITION,
    fields.MAX_UNAVAILABLE,
    fields.MAX_SURGE,
)
_RETENTION = {"whenDeleted": "Retain", "whenScaled": "Retain"}
_NOT_OF_ROLES = frozenset({*PLACEMENT_ANNOTATIONS, INITIAL_REPLICAS_ANNOTATION})

_Tree = dict[str, Any]


def plan_upkeep(set_name: str, child: Object, role: Role | None, recorded: Role | None) -> Plan:
    """What is put back on a child, and what of an edited role takes effect on it.

    role: as the set asks for it now; None where it asks for none, or nothing was edited since the child was
    taken over. recorded: as the revision of the child has it; None where that is not known.
    """
    own = _own_labels(set_name, child)
    labels, annotations = dict(labels_of(child)), dict(annotations_of(child))
    known: _Tree = {"metadata": {"labels": labels, "annotations": annotations}}
    wanted: _Tree = {"metadata": {"labels": {**labels, **own}, "annotations": annotations}}
    if role is not None:
        former = recorded.metadata if recorded is not None else {}
        given = _with(labels, role.metadata.get("labels"), former.get("labels"))
        of_role = _with(annotations, role.metadata.get("annotations"), former.get("annotations"))
        kept = {key: value for key, value in annotations.items() if key in _NOT_OF_ROLES}
        of_role = {key: value for key, value in of_role.items() if key not in _NOT_OF_ROLES}
        wanted = {"metadata": {"labels": {**given, **own}, "annotations": {**of_role, **kept}}}
        known |= _spec_of(child)
        wanted |= _spec_of({"spec": {**role.spec, fields.STRATEGY.name: strategy_of(role)}})
    patch = merge_patch(known, wanted)
    return repair(child, {"its labels or its role were edited": patch or {}})


def waiting_edits(spec: DisaggregatedSpec, recorded: DisaggregatedSpec) -> tuple[str, ...]:
    """The paths of what takes effect with the next revision only. recorded: the wanted revision."""
    found = []
    for index, role in enumerate(spec.roles):
        former = recorded.role(role.name)
        if former is None:
            continue
        if _policy(role.spec) != _policy(former.spec):
            found.append(f"spec.roles[{index}].{fields.NETWORK}")
        now, then = (each.metadata.get("annotations") or {} for each in (role, former))
        found += [
            f"spec.roles[{index}].metadata.annotations[{key}]"
            for key in PLACEMENT_ANNOTATIONS
            if now.get(key) != then.get(key)
        ]
    return (*found, *(("spec.placementPolicy",) if spec.placement != recorded.placement else ()))


def _own_labels(set_name: str, child: Object) -> dict[str, str]:
    identity = identity_of(set_name, child["metadata"]["name"])
    return child_labels(set_name, identity) if identity is not None else {}


def _with(
    stored: Mapping[str, str], given: Mapping[str, str] | None, former: Mapping[str, str] | None
) -> dict[str, str]:
    """Those that a role gives go over the stored ones; those that it gave when it was recorded go."""
    return {**{key: value for key, value in stored.items() if key not in (former or {})}, **(given or {})}


def _spec_of(raw: Object) -> _Tree:
    """Of a child, or of a role in its place: what takes effect at once, with the defaults of the API."""
    tree: _Tree = {}
    for field in _OPTIONAL:
        if field.of(raw) is not None:
            _put(tree, field, field.of(raw))
    for field in _WITH_DEFAULT:
        value = field.of(raw)
        _put(tree, field, field.stored_default if value in (None, "") else value)
    if fields.RESTART_POLICY.of(tree) == RestartPolicy.DEFAULT:
        _put(tree, fields.RESTART_POLICY, RestartPolicy.NONE.value)
    _put(tree, fields.CLAIM_RETENTION, {**_RETENTION, **(fields.CLAIM_RETENTION.of(raw) or {})})
    return tree


def _put(tree: _Tree, field: fields.Field, value: Any) -> None:
    *parents, name = field.path
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[name] = value


def _policy(spec: Object) -> Any:
    field = fields.SUBDOMAIN_POLICY
    return field.of({"spec": spec}) or field.stored_default
