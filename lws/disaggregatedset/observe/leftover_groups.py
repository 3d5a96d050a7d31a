"""Count groups that are left of deleted LeaderWorkerSets of a DisaggregatedSet.

They take the place of others until they are gone: leaders that exist, and those a StatefulSet will still
create.
"""

from __future__ import annotations

from collections.abc import Collection

from lws.disaggregatedset.slices.state import remembered_children
from lws.disaggregatedset.snapshot import number_of
from lws.kube.metadata import controller_of, is_terminating, labels_of
from lws.kube.statefulsets import wanted_replicas
from lws.leaderworkerset import fields
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL

# Groups of a child that are looked for: what a status remembers may be any number.
_MOST = 4096


class Leftovers:
    """What the store knows of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_lost(self, obj: Object, known: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Groups of children that are gone: those that the garbage collector takes away after them, and those
        that stay, for the next child of the name to take over. known: names of children that are there.
        """
        lingering, orphaned, namespace = dict[str, int](), dict[str, int](), obj["metadata"]["namespace"]
        for name, groups in remembered_children(obj).items():
            # A stranger that has taken the name has a StatefulSet and pods of its own.
            if name in known or self._store.get(KIND, namespace, name) is not None:
                continue
            if count := self._left_of(namespace, name, groups):
                (orphaned if self._is_orphaned(namespace, name) else lingering)[name] = count
        return lingering, orphaned

    def beside(self, child: Object, has_statefulset: bool, began: int | None) -> int:
        """Groups in the place of a child, those counted in that a predecessor has left, or that a StatefulSet
        which is yet to be lowered may make. has_statefulset: of its own. began: with how many a rollout that
        goes on began; without one, nobody asks.
        """
        if has_statefulset and began is None:
            return 0
        metadata, most = child["metadata"], max(number_of(child, fields.REPLICAS), began or 0)
        return self._left_of(metadata["namespace"], metadata["name"], most)

    def _left_of(self, namespace: str, name: str, groups: int) -> int:
        """What there is, or will be, of so many groups of children of this name."""
        told = self._live_statefulset(namespace, name)
        still_wanted = wanted_replicas(told) if told is not None else 0
        return max(still_wanted, self._leaders_of(namespace, name, groups))

    def _leaders_of(self, namespace: str, name: str, groups: int) -> int:
        """Leaders right above so many groups count too: a status that has told how many there were may have
        been behind.
        """
        there = 0
        for index in range(_MOST):
            pod = self._store.get("Pod", namespace, f"{name}-{index}")
            if index >= groups and (pod is None or labels_of(pod).get(NAME_LABEL) != name):
                break
            there += pod is not None
        return there

    def _is_orphaned(self, namespace: str, name: str) -> bool:
        former = self._live_statefulset(namespace, name)
        return former is not None and controller_of(former) is None

    def _live_statefulset(self, namespace: str, name: str) -> Object | None:
        """That of children of this name. Its controller makes no pods any more once it is told to go."""
        found = self._store.get("StatefulSet", namespace, name)
        return found if found is not None and _is_of(found, name) and not is_terminating(found) else None


def _is_of(leaders: Object, name: str) -> bool:
    """Whether a StatefulSet was made for a child of this name: by its owner; without one, by its label."""
    owner = controller_of(leaders)
    if owner is None:
        return labels_of(leaders).get(NAME_LABEL) == name
    return (owner.get("kind"), owner.get("name")) == (KIND, name)
