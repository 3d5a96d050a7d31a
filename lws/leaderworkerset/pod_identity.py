"""Read the identity of a pod of a set: its group, its worker index, its leader and its address."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from lws.kube.metadata import annotations_of, controller_of, is_controlled_by, labels_of, uid_of
from lws.kube.names import parent_and_ordinal
from lws.kube.nodes import node_of
from lws.kube.pods import with_required_node
from lws.kube.quantities import whole_number
from lws.runtime.actions import Object
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    POD_TERMINATION_POLICY_ANNOTATION,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
    PodTerminationPolicy,
)

_HOST_SUFFIX = re.compile(r"-([0-9a-f]{8})$")
_HASH_KEY = re.compile(r"[0-9a-f]{40}")
_DIGITS_IN_HOST_NAME = 8
# Number of cached hashes: each pass over a set compares all of its leaders.
_CACHED = 32768

GATED_DELETION_COST = "-100"
"""Deletion cost of a leader with the group replacement gate: the ReplicaSet removes such a leader first."""


def is_leader(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod has worker index 0, which the leader of a group has."""
    return labels_of(pod).get(WORKER_INDEX_LABEL) == "0"


def must_return_to(pod: Mapping[str, Any]) -> str:
    """Return the only node that a pod without a node may run on; empty for any other pod. The pod webhook
    restricts the pod to this node by a term of its affinity.
    """
    node = "" if node_of(pod) else annotations_of(pod).get(RETURNS_TO_ANNOTATION, "")
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    return node if node and with_required_node(affinity, node) == affinity else ""


def group_size_of(pod: Mapping[str, Any]) -> int | None:
    """Return the size of the pod's group from its annotation; None if missing or not a plain number."""
    return whole_number(annotations_of(pod).get(SIZE_ANNOTATION))


def leader_name(set_name: str, group_index: int | str) -> str:
    """Return the name of a group's leader pod, which its worker StatefulSet and its own Service share."""
    return f"{set_name}-{group_index}"


def group_key(namespace: str, leader: str) -> str:
    """Return the key of a group, unique in the cluster: 40 hex digits, SHA-1 of `<namespace>/<leader>`.
    leader: name of the leader pod; for a Hash group, random characters.
    """
    text = f"{namespace}/{leader}".encode(errors="surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


@lru_cache(_CACHED)
def hash_of_uid(text: str) -> str:
    """Return the hash that stands for a UID, or a text with a UID, in records: 8 hex digits of SHA-256.
    Different UIDs have the same hash with a probability of 2^-32.
    """
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def is_hash_key(value: object) -> TypeGuard[str]:
    """Return whether the value is the key of a Hash group, which also is the value of its index label."""
    return isinstance(value, str) and _HASH_KEY.fullmatch(value) is not None


def hash_host_name(set_name: str, key: str) -> str:
    """Return the host name of the leader of a Hash group; its worker StatefulSet has the same name."""
    return leader_name(set_name, key[:_DIGITS_IN_HOST_NAME])


def leader_address(leader: str, subdomain: str, namespace: str) -> str:
    """Return the host name under which every pod of a group finds its leader (LWS_LEADER_ADDRESS)."""
    return f"{leader}.{subdomain}.{namespace}"


def own_workers(leader: Object, workers: Object | None) -> Object | None:
    """Return the group's worker StatefulSet if exactly this leader controls it, else None."""
    return workers if workers is not None and is_controlled_by(workers, uid_of(leader)) else None


def notes_parallel(leader: Object, workers: Object | None) -> bool:
    """Return whether an annotation of the group records podTerminationPolicy Parallel. The record is needed
    once the set is deleted. It is on the worker StatefulSet, or with upstream on the leader.
    """
    notes = (annotations_of(obj).get(POD_TERMINATION_POLICY_ANNOTATION) for obj in (workers or {}, leader))
    return next(filter(None, notes), "") == PodTerminationPolicy.PARALLEL


def is_marked_hash(pod: Mapping[str, Any]) -> bool:
    """Return whether an annotation marks the pod as part of a Hash group. For stored leaders,
    `is_of_hash_group` gives a reliable answer.
    """
    return annotations_of(pod).get(GROUP_IDENTITY_ANNOTATION) == GroupIdentity.HASH


def is_worker_of(pod: Mapping[str, Any], workers: str, size: int) -> bool:
    """Return whether a pod has a name of the workers of this StatefulSet in a group of this size."""
    name = pod["metadata"]["name"]
    index = parent_and_ordinal(name)[1]
    return 0 < index < size and bool(name == f"{workers}-{index}")


def is_of_hash_group(leader: Mapping[str, Any]) -> bool:
    """Return whether the leader is a pod of a ReplicaSet (groupIdentity Hash), which no edit changes."""
    owner = controller_of(leader)
    return owner is not None and owner.get("kind") == "ReplicaSet"


def are_hash_workers(workers: Mapping[str, Any]) -> bool:
    """Return whether a StatefulSet has the workers of a Hash group. Its name is not that of its leader,
    except in sets of upstream 0.11.0, whose groups are recognised by key.
    """
    owner = controller_of(workers) or {}
    has_key = is_hash_key(labels_of(workers).get(GROUP_INDEX_LABEL))
    return owner.get("kind") == "Pod" and (has_key or owner["name"] != workers["metadata"]["name"])


def group_name(leader: Mapping[str, Any]) -> str:
    """Return the name of the worker StatefulSet and of the Service of a group. This is the name of an Ordinal
    leader, or the host name of a Hash leader.
    """
    name: str = leader["metadata"]["name"]
    return str((leader.get("spec") or {}).get("hostname") or name) if is_of_hash_group(leader) else name


MOST_GROUP_NUMBER = 0xFFFFFFFF
"""The largest `group_number`."""


def group_number(leader: Mapping[str, Any]) -> int:
    """Return a number that no other group of the set has, from facts that cannot be edited. This is the index
    of an Ordinal group, or the first 8 hexadecimal digits of the key of a Hash group.
    """
    if not is_of_hash_group(leader):
        return index_by_name(leader)
    digits = _HOST_SUFFIX.search(group_name(leader))
    return int(digits[1], 16) if digits is not None else int(group_key("", uid_of(leader))[:8], 16)


def group_id(leader: Mapping[str, Any]) -> str:
    """Return the name of the group in messages: the index of an Ordinal group, the key of a Hash group."""
    if is_of_hash_group(leader):
        return labels_of(leader).get(GROUP_INDEX_LABEL, "")
    return str(index_by_name(leader))


def index_by_name(pod: Mapping[str, Any]) -> int:
    """Return the ordinal in the name of a StatefulSet's pod; -1 if the name has none. The ordinal is the
    group index of a leader, or the worker index of a worker.
    """
    return parent_and_ordinal(pod["metadata"]["name"])[1]
