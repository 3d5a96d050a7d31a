"""Where may the pods of a group run, so that no other group shares their part of the cluster (KEP-115)?

In: keys of groups, labels of nodes, affinity as pods have it. Out: affinity with more terms; the topology of
a group and the value that its workers must select.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lws.actions import Object
from lws.kube.metadata import annotations_of, labels_of
from lws.leaderworkerset import spec
from lws.leaderworkerset.revisions import Recorded, restore
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOPOLOGY = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)


@dataclass(frozen=True, slots=True)
class Placement:
    """What the workers of a group must select, or what is missing to know it.

    waiting_for: empty if all is known. is_stuck: only somebody else can bring what is missing.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    waiting_for: str = ""
    is_stuck: bool = False


def exclusive(affinity: Mapping[str, Any], label: str, key: str, topology: str) -> dict[str, Any]:
    """The affinity of a pod with two terms more: beside pods with this key, and with no others that have one.

    label: of the pods' keys. topology: label of nodes. A pod that has required terms of both kinds about this
    topology already keeps them: whoever wrote them decides. Selectors reach no other namespace.
    """
    if has_both_terms(affinity, topology):
        return dict(affinity)
    together: list[dict[str, Any]] = [{"key": label, "operator": "In", "values": [key]}]
    apart: list[dict[str, Any]] = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [key]},
    ]
    return {
        **affinity,
        "podAffinity": _with_term(affinity.get("podAffinity"), together, topology),
        "podAntiAffinity": _with_term(affinity.get("podAntiAffinity"), apart, topology),
    }


def has_both_terms(affinity: Mapping[str, Any], topology: str) -> bool:
    """True if required affinity and anti-affinity both have terms about this topology, whatever they say."""
    return all(
        any(term.get("topologyKey") == topology for term in _terms(affinity.get(kind)))
        for kind in ("podAffinity", "podAntiAffinity")
    )


def restored_for(lws: Object, revision: Recorded, leader: Object) -> Object:
    """The set as the revision had it, for the group of this leader.

    Revisions of earlier releases record no topology: there the leader tells what it was made with.
    """
    restored = restore(lws, revision)
    if revision.topology is not None:
        return restored
    live = annotations_of(lws)
    told = {key: value for key, value in annotations_of(leader).items() if key in _TOPOLOGY}
    kept = {key: value for key, value in live.items() if key not in _TOPOLOGY}
    return {**restored, "metadata": {**restored["metadata"], "annotations": {**kept, **told}}}


def exclusive_topology(restored: Object) -> str:
    """The node label whose value a group shares with no other; empty where the set asks for none."""
    return spec.topology_annotations(restored).get(EXCLUSIVE_TOPOLOGY_ANNOTATION, "")


def is_placed(lws: Object, revision: Recorded | None, leader: Object) -> bool:
    """Whether the workers of this leader must know where it is."""
    if revision is None:
        return bool(annotations_of(leader).get(EXCLUSIVE_TOPOLOGY_ANNOTATION))
    return bool(exclusive_topology(restored_for(lws, revision, leader)))


def worker_placement(restored: Object, leader: Object, node: Object | None) -> Placement:
    """Workers go where the scheduler has put their leader.

    node: the one that the leader is on, None if it is not known.
    """
    topology = exclusive_topology(restored)
    if not topology:
        return Placement()
    pod, place = leader["metadata"]["name"], (leader.get("spec") or {}).get("nodeName")
    if not place:
        return Placement(waiting_for=f"leader pod {pod} to be scheduled: its workers follow it")
    if node is None:
        return Placement(waiting_for=f"node {place}, on which leader pod {pod} is, to be there")
    value = labels_of(node).get(topology)
    if value is None:
        why = (
            f"node {place}, on which leader pod {pod} is, has no label {topology}: its workers cannot be "
            f"kept beside it; label the node, or have leaders select nodes that have the label"
        )
        return Placement(waiting_for=why, is_stuck=True)
    return Placement({topology: value})


def _with_term(
    existing: Mapping[str, Any] | None, expressions: list[dict[str, Any]], topology: str
) -> dict[str, Any]:
    term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}
    return {**(existing or {}), REQUIRED: [*_terms(existing), term]}


def _terms(kind: Any) -> list[Mapping[str, Any]]:
    terms = kind.get(REQUIRED) if isinstance(kind, Mapping) else None
    return [each for each in terms if isinstance(each, Mapping)] if isinstance(terms, list) else []
