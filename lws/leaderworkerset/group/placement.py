"""Compute in which topology domain (exclusive or shared, KEP-115) and on which dedicated nodes groups run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lws.kube.metadata import annotations_of, labels_of, name_of, namespace_of
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import node_of
from lws.kube.pods import has_both_terms, term, terms_of, with_terms
from lws.leaderworkerset.revisions.history import Recorded, restore
from lws.leaderworkerset.spec import SetSpec, group_topology, placement_annotations, placement_given
from lws.leaderworkerset.templates.node_selection import Toleration, nodes_of_group
from lws.runtime.actions import Object
from lws_api.leaderworkerset.placement import EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION, ExclusiveTopologyScope
from lws_api.leaderworkerset.v1 import NAME_LABEL

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Placement:
    """The node selector and tolerations of a group's workers. waiting_for: the facts that must be known
    first; empty if all are known. is_stuck: whether only a user can end the wait.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    waiting_for: str = ""
    is_stuck: bool = False
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Peers:
    """Pods that share a topology domain, and the pods that are kept out of it.
    label: the label that holds the key of the peers. key: its value. scope: the reach of the exclusion, which
    keeps out pods with other keys in the same set, the namespace, or all namespaces.
    """

    label: str
    key: str
    scope: str = ExclusiveTopologyScope.NAMESPACE
    set_name: str = ""
    namespace: str = ""


def peers_of(annotations: Mapping[str, str], labels: Mapping[str, str], label: str, namespace: str) -> Peers:
    """Return the peers of a pod with these annotations and labels, by the key in `label`."""
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION) or ExclusiveTopologyScope.NAMESPACE
    return Peers(label, labels[label], scope, labels.get(NAME_LABEL, ""), namespace)


def add_exclusive_affinity(affinity: Mapping[str, Any], peers: Peers, topology: str) -> dict[str, Any]:
    """Add affinity to the peers of a pod, and anti-affinity to other pods with a key. If the user has set
    required terms of both kinds for this topology, nothing is added. topology: a label of nodes.
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
        # This is a separate term because keys of subgroups are unique only within a namespace.
        other_namespaces = {"key": _NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": [peers.namespace]}
        any_key = term([{"key": peers.label, "operator": "Exists"}], topology)
        terms.append({**any_key, "namespaceSelector": {"matchExpressions": [other_namespaces]}})
    return {
        **affinity,
        "podAffinity": with_terms(affinity.get("podAffinity"), [_peer_term(peers, topology)]),
        "podAntiAffinity": with_terms(affinity.get("podAntiAffinity"), terms),
    }


def add_peer_affinity(affinity: Mapping[str, Any], peers: Peers, topology: str) -> dict[str, Any]:
    """Add affinity to the peers of a pod."""
    term = _peer_term(peers, topology)
    if term in terms_of(affinity.get("podAffinity")):
        return dict(affinity)
    return {**affinity, "podAffinity": with_terms(affinity.get("podAffinity"), [term])}


def restored_for(lws: Object, revision: Recorded, leader: Object) -> Object:
    """Return the set as recorded in the revision, for the group of this leader. Revisions of earlier releases
    record no topology; for these, the topology of the leader pod is used.
    """
    restored = restore(lws, revision)
    if revision.record.topology is not None:
        return restored
    placement = placement_given(leader, SetSpec.of(restored).leader_template, placement_annotations(lws))
    return restore(lws, replace(revision, record=replace(revision.record, topology=placement)))


def topology_of(restored: Object) -> str:
    """Return the node label whose value all pods of a group share; empty if the set has no topology."""
    return group_topology(placement_annotations(restored))


def is_placed(lws: Object, revision: Recorded | None, leader: Object) -> bool:
    """Return whether the workers of this leader must be placed near it."""
    if revision is None:
        return bool(group_topology(annotations_of(leader)))
    return bool(topology_of(restored_for(lws, revision, leader)))


def worker_placement(restored: Object, leader: Object, node: Object | None) -> Placement:
    """Compute where the workers run: on the nodes of the group, near the leader's node (None if unknown)."""
    annotations, pod = placement_annotations(restored), leader["metadata"]["name"]
    _, index = parent_and_ordinal(pod)
    try:
        nodes = nodes_of_group(annotations, namespace_of(restored), name_of(restored), index)
    except ValueError as error:
        return Placement(waiting_for=f"nodes that group {pod} may use: {error}", is_stuck=True)
    topology = group_topology(annotations)
    placement = _placement_near_leader(leader, node, topology) if topology else Placement()
    selector = {**nodes.node_selector, **placement.node_selector}
    return replace(placement, node_selector=selector, tolerations=nodes.tolerations)


def _placement_near_leader(leader: Object, node: Object | None, topology: str) -> Placement:
    pod, node_name = name_of(leader), node_of(leader)
    if not node_name:
        return Placement(waiting_for=f"leader pod {pod} to be scheduled: its workers follow it")
    if node is None:
        return Placement(waiting_for=f"node {node_name} of leader pod {pod} to exist")
    value = labels_of(node).get(topology)
    if value is None:
        why = (
            f"node {node_name} of leader pod {pod} has no label {topology}, so its workers cannot be placed "
            f"near it: label the node, or give leaders a node selector for the label"
        )
        return Placement(waiting_for=why, is_stuck=True)
    return Placement({topology: value})


def _peer_term(peers: Peers, topology: str) -> dict[str, Any]:
    return term([{"key": peers.label, "operator": "In", "values": [peers.key]}], topology)


# --- Divide the pods of a group into subgroups (KEP-115, KEP-257).


def subgroup_of(worker: int, size: int, subgroup_size: int) -> int:
    """Return the 0-based index of the subgroup of a pod; 0 for the leader, unless it is excluded. If only the
    workers can be divided evenly, the leader is an additional pod of the first subgroup. subgroup_size: the
    number of pods of a subgroup, at least 1.
    """
    if worker > 0 and _leader_is_extra(size, subgroup_size):
        return (worker - 1) // subgroup_size
    return worker // subgroup_size


def members_of(index: int, size: int, subgroup_size: int) -> range:
    """Return the indices of the pods of a subgroup in the group; subgroup 0 includes the leader, pod 0."""
    extra = int(_leader_is_extra(size, subgroup_size))
    first = index * subgroup_size + extra if index > 0 else 0
    return range(first, min((index + 1) * subgroup_size + extra, size))


def count_of(size: int, subgroup_size: int, *, leader_excluded: bool) -> int:
    """Return the number of subgroups that have at least one pod."""
    if size - int(leader_excluded) < 1:
        return 0
    first = subgroup_of(int(leader_excluded), size, subgroup_size)
    return subgroup_of(size - 1, size, subgroup_size) - first + 1


def subgroup_key(group: str, index: int) -> str:
    """Return the key of a subgroup: 40 hex digits, the SHA-1 of `<group>/<index>`; unique only within a
    namespace. group: the name of the leader pod, or the key of a Hash group.
    """
    text = f"{group}/{index}".encode(errors="surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def _leader_is_extra(size: int, subgroup_size: int) -> bool:
    return (size - 1) % subgroup_size == 0 and size % subgroup_size != 0
