"""Divide the pods of a group into subgroups (KEP-115, KEP-257).

In: the index of a pod in its group, 0 for the leader; size of group and subgroup. Out: subgroup indices,
members, keys.
"""

from __future__ import annotations

import hashlib


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
