"""Compute where the pods of a group may run: topology, exclusive or shared (KEP-115), and nodes of their own.

Out: affinity with additional terms; the topology of a group; what its workers must select and tolerate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lws.kube.metadata import annotations_of, labels_of, name_of, namespace_of
from lws.kube.names import parent_and_ordinal
from lws.kube.pods import has_both_terms, term, terms_of, with_terms
from lws.leaderworkerset.revisions.history import Recorded, restore
from lws.leaderworkerset.spec import (
    PLACEMENT_ANNOTATIONS,
    SetSpec,
    group_topology,
    placement_annotations,
    placement_given,
)
from lws.leaderworkerset.templates.node_selection import Toleration, nodes_of_group
from lws.runtime.actions import Object
from lws_api.leaderworkerset.placement import EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION, ExclusiveTopologyScope
from lws_api.leaderworkerset.v1 import NAME_LABEL

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Placement:
    """Node selector and tolerations of a group's workers, or what is missing to know them.

    waiting_for: empty if all is known. is_stuck: only somebody else can bring what is missing.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    waiting_for: str = ""
    is_stuck: bool = False
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Peers:
    """Pods that share a topology domain, and the pods that are kept out of it.

    label: of the pods' keys. key: the one that they have in common. scope: whose pods of other keys are kept
    away: those of the same set, of the namespace, of every namespace.
    """

    label: str
    key: str
    scope: str = ExclusiveTopologyScope.NAMESPACE
    set_name: str = ""
    namespace: str = ""


def peers_of(annotations: Mapping[str, str], labels: Mapping[str, str], label: str, namespace: str) -> Peers:
    """Peers of a pod that has these annotations and labels, by the key in one of them."""
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION) or ExclusiveTopologyScope.NAMESPACE
    return Peers(label, labels[label], scope, labels.get(NAME_LABEL, ""), namespace)


def exclusive(affinity: Mapping[str, Any], peers: Peers, topology: str) -> dict[str, Any]:
    """The affinity of a pod with terms more: beside its peers, and with no others that have a key.

    topology: label of nodes. A pod that has required terms of both kinds about this topology already keeps
    them: they were written on purpose.
    """
    if has_both_terms(affinity, topology):
        return dict(affinity)
    apart: list[dict[str, Any]] = [
        {"key": peers.label, "operator": "Exists"},
        {"key": peers.label, "operator": "NotIn", "values": [peers.key]},
    ]
    if peers.scope == ExclusiveTopologyScope.LEADER_WORKER_SET:
        apart.append({"key": NAME_LABEL, "operator": "In", "values": [peers.set_name]})
    terms = [term(apart, topology)]
    if peers.scope == ExclusiveTopologyScope.CLUSTER:
        # A term of its own: keys of subgroups are unique within a namespace only.
        elsewhere = {"key": _NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": [peers.namespace]}
        strangers = term([{"key": peers.label, "operator": "Exists"}], topology)
        terms.append({**strangers, "namespaceSelector": {"matchExpressions": [elsewhere]}})
    return {
        **affinity,
        "podAffinity": with_terms(affinity.get("podAffinity"), [_together(peers, topology)]),
        "podAntiAffinity": with_terms(affinity.get("podAntiAffinity"), terms),
    }


def shared(affinity: Mapping[str, Any], peers: Peers, topology: str) -> dict[str, Any]:
    """The affinity of a pod with a term more: beside its peers, whatever else runs there."""
    term = _together(peers, topology)
    if term in terms_of(affinity.get("podAffinity")):
        return dict(affinity)
    return {**affinity, "podAffinity": with_terms(affinity.get("podAffinity"), [term])}


def restored_for(lws: Object, revision: Recorded, leader: Object) -> Object:
    """The set as the revision had it, for the group of this leader.

    Revisions of earlier releases record no topology: there the leader tells what it was made with.
    """
    restored = restore(lws, revision)
    if revision.record.topology is not None:
        return restored
    live = annotations_of(lws)
    told = placement_given(leader, SetSpec.of(restored).leader_template, placement_annotations(lws))
    kept = {key: value for key, value in live.items() if key not in PLACEMENT_ANNOTATIONS}
    return {**restored, "metadata": {**restored["metadata"], "annotations": {**kept, **told}}}


def topology_of(restored: Object) -> str:
    """The node label whose value all pods of a group share; empty if the set has no topology."""
    return group_topology(placement_annotations(restored))


def is_placed(lws: Object, revision: Recorded | None, leader: Object) -> bool:
    """Whether the workers of this leader must know where it is."""
    if revision is None:
        return bool(group_topology(annotations_of(leader)))
    return bool(topology_of(restored_for(lws, revision, leader)))


def worker_placement(restored: Object, leader: Object, node: Object | None) -> Placement:
    """Place workers where the group must run and where its leader was scheduled.

    node: the one that the leader is on, None if it is not known.
    """
    annotations, pod = placement_annotations(restored), leader["metadata"]["name"]
    _, index = parent_and_ordinal(pod)
    try:
        nodes = nodes_of_group(annotations, namespace_of(restored), name_of(restored), index)
    except ValueError as error:
        return Placement(waiting_for=f"nodes that group {pod} may use: {error}", is_stuck=True)
    topology = group_topology(annotations)
    beside = _beside(leader, node, topology) if topology else Placement()
    selector = {**nodes.node_selector, **beside.node_selector}
    return replace(beside, node_selector=selector, tolerations=nodes.tolerations)


def _beside(leader: Object, node: Object | None, topology: str) -> Placement:
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


def _together(peers: Peers, topology: str) -> dict[str, Any]:
    return term([{"key": peers.label, "operator": "In", "values": [peers.key]}], topology)


# --- Divide the pods of a group into subgroups (KEP-115, KEP-257).


def subgroup_of(worker: int, size: int, subgroup_size: int) -> int:
    """0-based index of the subgroup of a pod; 0 for the leader, where it is in one at all.

    Where only the workers can be divided evenly, the leader joins the first subgroup as one pod more.
    subgroup_size: ≥ 1.
    """
    if worker > 0 and _leader_is_extra(size, subgroup_size):
        return (worker - 1) // subgroup_size
    return worker // subgroup_size


def members_of(index: int, size: int, subgroup_size: int) -> range:
    """Pods of a subgroup by their place in the group, in order; the first one of subgroup 0 is the leader."""
    extra = int(_leader_is_extra(size, subgroup_size))
    first = index * subgroup_size + extra if index > 0 else 0
    return range(first, min((index + 1) * subgroup_size + extra, size))


def count_of(size: int, subgroup_size: int, *, leader_excluded: bool) -> int:
    """Subgroups that hold at least one pod."""
    if size - int(leader_excluded) < 1:
        return 0
    first = subgroup_of(int(leader_excluded), size, subgroup_size)
    return subgroup_of(size - 1, size, subgroup_size) - first + 1


def subgroup_key(leader: str, index: int) -> str:
    """Key of a subgroup: 40 hex digits, SHA-1 of `<leader pod>/<index>`; unique within a namespace only."""
    text = f"{leader}/{index}".encode(errors="surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def _leader_is_extra(size: int, subgroup_size: int) -> bool:
    return (size - 1) % subgroup_size == 0 and size % subgroup_size != 0
