"""Build the complete LeaderWorkerSet of a role in one slice, as upstream stores it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lws.disaggregatedset.names import Identity, child_labels, child_name
from lws.disaggregatedset.spec import Role, SlicePlacement
from lws.kube.metadata import annotations_of, child_metadata, copied, inherited
from lws.kube.pods import term, with_preferred, with_terms
from lws.kube.quantities import scaled
from lws.leaderworkerset import fields
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import (
    INITIAL_REPLICAS_ANNOTATION,
    NAME_LABEL,
    OTHERS_INITIAL_REPLICAS_ANNOTATION,
    SLICE_LABEL,
    PlacementStrength,
    PlacementType,
)
from lws_api.leaderworkerset.v1 import API_VERSION, KIND

_TEMPLATES = (fields.LEADER_TEMPLATE.name, fields.WORKER_TEMPLATE.name)
_LIMITS = (fields.PARTITION, fields.MAX_UNAVAILABLE, fields.MAX_SURGE)


def build_child(
    owner: Object, role: Role, placement: SlicePlacement | None, at: tuple[int, str], replicas: int
) -> dict[str, Any]:
    """Build the LeaderWorkerSet of a role `at` a slice index and a revision key."""
    slice_index, key = at
    name, identity = owner["metadata"]["name"], Identity(slice_index, key, role.name)
    labels = child_labels(name, identity)
    template = copied(role.spec[fields.LEADER_WORKER_TEMPLATE.name])
    for field in _TEMPLATES:
        if template.get(field) is not None:
            metadata = template[field].get("metadata") or {}
            metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
            template[field] = {**template[field], "metadata": metadata}
            if placement is not None:
                pod = template[field].get("spec") or {}
                affinity = placed(pod.get("affinity"), placement, name, slice_index)
                template[field]["spec"] = {**pod, "affinity": affinity}
    own_labels = {**inherited(role.metadata.get("labels")), **labels}
    annotations = inherited(role.metadata.get("annotations"))
    policy, network = fields.SUBDOMAIN_POLICY, role.spec.get(fields.NETWORK_CONFIG.name) or {}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": child_metadata(
            owner, child_name(name, identity), own_labels, annotations, blocks_deletion=False
        ),
        "spec": {
            **copied(role.spec),
            fields.REPLICAS.name: replicas,
            fields.LEADER_WORKER_TEMPLATE.name: template,
            fields.ROLLOUT_STRATEGY.name: strategy_of(role),
            fields.NETWORK_CONFIG.name: {
                **network,
                policy.name: network.get(policy.name) or policy.stored_default,
            },
        },
    }


def strategy_of(role: Role) -> dict[str, Any]:
    """Return the rollout strategy of a role's children, which have no rollouts of their own.

    If maxSurge and maxUnavailable are both 0 at some number of groups, a webhook would reject that number and
    block the rollout. Such a strategy gets the default maxUnavailable.
    """
    configured = {name: value for name, value in (role.rolling or {}).items() if value is not None}
    rolling = {field.name: configured.get(field.name, field.stored_default) for field in _LIMITS}
    surge = scaled(rolling[fields.MAX_SURGE.name], 1, round_up=True)
    if max(surge, scaled(rolling[fields.MAX_UNAVAILABLE.name], 1, round_up=False)) <= 0:
        rolling[fields.MAX_UNAVAILABLE.name] = fields.MAX_UNAVAILABLE.stored_default
    kind = fields.ROLLOUT_STRATEGY_TYPE
    return {kind.name: kind.stored_default, fields.ROLLING_UPDATE_CONFIGURATION.name: rolling}


def placed(
    affinity: Mapping[str, Any] | None, placement: SlicePlacement, set_name: str, slice_index: int
) -> dict[str, Any]:
    """Return the affinity of a slice's pods, in which the terms of `affinity`, the user's, come first."""
    index = str(slice_index)
    own = _expression(NAME_LABEL, "In", set_name)
    beside = term([own, _expression(SLICE_LABEL, "In", index)], placement.topology)
    others = [own, _expression(SLICE_LABEL, "NotIn", index)]
    if slice_index == 0:
        # Pods of earlier releases have no slice label. They belong to the first slice.
        others.insert(1, _expression(SLICE_LABEL, "Exists"))
    apart = [term(others, placement.topology)]
    if placement.type == PlacementType.EXCLUSIVE_TOPOLOGY:
        strangers = [
            _expression(NAME_LABEL, "Exists"),
            _expression(NAME_LABEL, "NotIn", set_name),
            _expression(SLICE_LABEL, "Exists"),
        ]
        apart.append(term(strangers, placement.topology))
    base = affinity or {}
    add = with_preferred if placement.strength == PlacementStrength.PREFERRED else with_terms
    return {
        **base,
        "podAffinity": add(base.get("podAffinity"), [beside]),
        "podAntiAffinity": add(base.get("podAntiAffinity"), apart),
    }


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": key, "operator": operator}
    return {**expression, "values": list(values)} if values else expression


# --- Read the number of groups that a child and its role had at the start of a slice's rollout. Annotations
# of the child record both; the first one is upstream's `initial-replicas`.


_COUNT = re.compile(r"[0-9]{1,7}")


def initial_of(child: Object) -> int | None:
    """Return the number of groups of a child at the start; None if it is not recorded or unreadable."""
    return _count(child, INITIAL_REPLICAS_ANNOTATION)


def others_initial_of(child: Object) -> int:
    """Return the role's number of groups on other revisions, if there were several; 0 if not recorded."""
    return _count(child, OTHERS_INITIAL_REPLICAS_ANNOTATION) or 0


def _count(child: Object, annotation: str) -> int | None:
    text = annotations_of(child).get(annotation)
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None
