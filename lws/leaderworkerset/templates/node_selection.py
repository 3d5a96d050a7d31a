"""Compute the node selector and tolerations of one group from annotations that refer to its index.

The leader StatefulSet has one template for all groups, so the pod webhook sets these fields on leaders.
Workers get them from the template of their own StatefulSet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.names import label_key_errors, label_value_errors
from lws_api.leaderworkerset.placement import (
    GROUP_INDEX_REFERENCE,
    GROUP_NAME_REFERENCE,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    NAMESPACE_REFERENCE,
    PLACEMENT_GATE,
)

ANNOTATIONS_BY_INDEX = (GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION)
"""Annotations that select nodes by the index of a group."""

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

Toleration = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupNodes:
    """The node selector and tolerations of all pods of one group, in addition to their templates."""

    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...] = ()


def selects_by_group(annotations: Mapping[str, str]) -> bool:
    """Return whether the annotations request a node selector or tolerations for each group."""
    return any(annotations.get(key) for key in ANNOTATIONS_BY_INDEX)


def nodes_of_group(annotations: Mapping[str, str], namespace: str, set_name: str, index: int) -> GroupNodes:
    """Evaluate the annotations for one group. Raises ValueError, with a suggestion, if they allow no pod."""
    variables = {
        GROUP_INDEX_REFERENCE: str(index),
        GROUP_NAME_REFERENCE: f"{set_name}-{index}",
        NAMESPACE_REFERENCE: namespace,
    }
    selector = dict(
        _label(item, variables) for item in _items(annotations.get(GROUP_NODE_SELECTOR_ANNOTATION, ""))
    )
    requested = annotations.get(GROUP_TOLERATIONS_ANNOTATION, "")
    return GroupNodes(selector, tuple(_toleration(item, variables) for item in _items(requested)))


def with_tolerations(own: Iterable[Any], added: Iterable[Toleration]) -> list[Any]:
    """Return the tolerations of a template, followed by those of the group that the template lacks."""
    tolerations = list(own)
    # Tolerations of users may have any shape; tolerations of groups are flat.
    existing = {frozenset(toleration.items()) for toleration in tolerations if _is_flat(toleration)}
    return [
        *tolerations,
        *(dict(toleration) for toleration in added if frozenset(toleration.items()) not in existing),
    ]


def _is_flat(toleration: Any) -> bool:
    return isinstance(toleration, Mapping) and all(isinstance(value, str) for value in toleration.values())


def without_group_nodes(pod: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the pod spec without the fields that this module may have added for a group with any index."""
    try:
        nodes = nodes_of_group(annotations, "namespace", "name", 0)
    except ValueError:
        # No pod was ever created with such annotations.
        return dict(pod)
    keys = {toleration["key"] for toleration in nodes.tolerations}
    tolerations, gates, selector = (
        pod.get(field) or () for field in ("tolerations", "schedulingGates", "nodeSelector")
    )
    remaining = {
        "tolerations": [
            entry for entry in tolerations if not (isinstance(entry, Mapping) and entry.get("key") in keys)
        ],
        "schedulingGates": [gate for gate in gates if gate != {"name": PLACEMENT_GATE}],
        "nodeSelector": {key: selector[key] for key in selector if key not in nodes.node_selector},
    }
    return {field: value for field, value in {**pod, **remaining}.items() if value or field not in remaining}


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text else []


def _label(item: str, variables: Mapping[str, str]) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise ValueError(f"{item!r} must be <label>=<value>, as in example.com/pool=pool-$(GROUP_INDEX)")
    return _checked_key(key), _checked_value(key, value, variables)


def _toleration(item: str, variables: Mapping[str, str]) -> Toleration:
    taint, colon, effect = item.partition(":")
    key, equals, value = taint.partition("=")
    if colon and effect not in _EFFECTS:
        raise ValueError(f"the effect of {item!r} must be one of {', '.join(_EFFECTS)}")
    toleration = {"key": _checked_key(key), "operator": "Equal" if equals else "Exists"}
    if equals:
        toleration["value"] = _checked_value(key, value, variables)
    if colon:
        toleration["effect"] = effect
    return toleration


def _checked_key(key: str) -> str:
    if wrong := label_key_errors(key):
        raise ValueError(f"{key!r} is no key of a label or taint: {wrong[0]}")
    return key


def _checked_value(key: str, value: str, variables: Mapping[str, str]) -> str:
    for reference, replacement in variables.items():
        value = value.replace(reference, replacement)
    if "$(" in value:
        raise ValueError(f"{key}={value} has a reference that is none of {', '.join(variables)}")
    if wrong := label_value_errors(value):
        raise ValueError(f"{value!r}, for {key}, is no value of a label: {wrong[0]}")
    return value
