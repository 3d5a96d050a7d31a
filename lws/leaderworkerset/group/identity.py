"""Who a pod of a set is: which group, which worker, whose leader, at what address.

In: pods as plain JSON data, or the names and indices they are made of. Out: indices, names, keys; None
where a pod does not say. Admission, observation and builders all ask here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from lws.kube.metadata import annotations_of, labels_of
from lws.kube.names import parent_and_ordinal
from lws.kube.quantities import whole_number
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, SIZE_ANNOTATION, WORKER_INDEX_LABEL


def is_leader(pod: Mapping[str, Any]) -> bool:
    """True for the pod with worker index 0, the leader of its group."""
    return labels_of(pod).get(WORKER_INDEX_LABEL) == "0"


def group_index_of(pod: Mapping[str, Any]) -> int | None:
    """0-based index of the pod's group, from its label; None where that is missing or no plain number."""
    return whole_number(labels_of(pod).get(GROUP_INDEX_LABEL))


def group_size_of(pod: Mapping[str, Any]) -> int | None:
    """Pods of the pod's group, its leader included, from its annotation; None where that is missing or no
    plain number.
    """
    return whole_number(annotations_of(pod).get(SIZE_ANNOTATION))


def leader_name(set_name: str, group_index: int | str) -> str:
    """Name of the leader pod of a group; its worker StatefulSet and its own Service have the same."""
    return f"{set_name}-{group_index}"


def group_key(namespace: str, leader: str) -> str:
    """Key that no other group of the cluster has: 40 hex digits, SHA-1 of `<namespace>/<leader pod>`."""
    text = f"{namespace}/{leader}".encode(errors="surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def leader_address(leader: str, subdomain: str, namespace: str) -> str:
    """Host name under which every pod of a group finds its leader (LWS_LEADER_ADDRESS)."""
    return f"{leader}.{subdomain}.{namespace}"


def is_worker_of(pod: Mapping[str, Any], leader: str, size: int) -> bool:
    """Whether the pod has one of the names that the workers of a group of this size have."""
    name = pod["metadata"]["name"]
    index = parent_and_ordinal(name)[1]
    return 0 < index < size and bool(name == f"{leader}-{index}")


def index_by_name(pod: Mapping[str, Any]) -> int:
    """The ordinal that a StatefulSet gave the pod: of a leader its group, of a worker its place in the group;
    -1 for a pod of nobody.
    """
    return parent_and_ordinal(pod["metadata"]["name"])[1]
