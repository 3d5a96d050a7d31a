"""Which workers did a group have when we last looked, and which of them were replaced since?

In: the pods of each group, pass by pass. Out: names of pods that are others now than they were. A pod that
goes and comes back between two looks leaves no other trace than its new UID. The status remembers the same of
groups that were ready once, across processes; this is quicker, and knows which pod it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lws.actions import Object
from lws.group.incident import ignores_losses, members
from lws.group.snapshot import GroupSnapshot


@dataclass(slots=True)
class _Group:
    """leader: UID of the leader pod. pods: name → UID. replaced: names, kept while the leader is the same."""

    leader: str
    pods: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)


class GroupMemory:
    """One per process."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def with_losses(self, group: GroupSnapshot, size: int) -> GroupSnapshot:
        """The snapshot, with the workers that were replaced; size: see `incident_of`.

        What the policy of the set lets pass is not held against the group later.
        """
        found = replace(group, replaced=self.replaced(group.leader, members(group, size)))
        if ignores_losses(found, size):
            self.accept(group.leader)
        return found

    def replaced(self, leader: Object, workers: Iterable[Object]) -> tuple[str, ...]:
        """Names of workers replaced under this very leader. A missing pod is not: it may come back."""
        metadata = leader["metadata"]
        key = (metadata["namespace"], metadata["name"])
        group = self._groups.get(key)
        if group is None or group.leader != metadata["uid"]:
            group = self._groups[key] = _Group(metadata["uid"])
        for pod in workers:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if group.pods.setdefault(name, uid) != uid:
                group.pods[name] = uid
                group.replaced.add(name)
        return tuple(sorted(group.replaced))

    def accept(self, leader: Object) -> None:
        """Nothing follows from what was replaced so far."""
        group = self._groups.get((leader["metadata"]["namespace"], leader["metadata"]["name"]))
        if group is not None:
            group.replaced.clear()

    def forget(self, namespace: str, name: str) -> None:
        """There is no leader pod of this name any more."""
        self._groups.pop((namespace, name), None)
