"""Remember the workers of each group between passes, and when its exempt containers first started.

Out: names of pods that were replaced since, and what pods no longer show. A pod that is deleted and recreated
between two passes leaves no other trace than its new UID. The status remembers the same across processes for
groups that were ready once; this memory is quicker, and knows which pod it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from lws.kube.metadata import controller_of
from lws.kube.pods import first_start_of
from lws.leaderworkerset.group.failures import ignores_losses, members
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import RestartPolicy


@dataclass(slots=True)
class _Group:
    """leader: UID of the leader pod. pods: name → UID. replaced: names, kept while the leader is the same.
    disrupted: those of them whose former pods went through no fault of their own. ignored: the restart
    policy was None when we last looked. starts: UID of each pod → the first start of its exempt containers,
    which does not show on the pod for ever.
    """

    leader: str
    pods: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    disrupted: set[str] = field(default_factory=set)
    ignored: bool = False
    starts: dict[str, str] = field(default_factory=dict)

    def started(self, pods: Iterable[Object], exempt: Collection[str]) -> str:
        """The last of those starts."""
        before, self.starts = self.starts, {}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            self.starts[uid] = max(before.get(uid, ""), first_start_of(pod, exempt))
        return max(self.starts.values(), default="")


class GroupMemory:
    """One per term.

    last_disrupted: the UID of an owner and a name → the UID of the last pod that the owner had by this name,
    if it has gone through no fault of its own, else empty.
    """

    def __init__(self, last_disrupted: Callable[[str, str], str]) -> None:
        self._last_disrupted = last_disrupted
        self._groups: dict[tuple[str, str], _Group] = {}

    def with_losses(self, group: GroupSnapshot, size: int) -> GroupSnapshot:
        """The snapshot, with the workers that were replaced; size: see `incident_of`.

        What the policy of the set lets pass is not held against the group later. A worker may have been
        replaced before we looked at all: then the status alone knows that it was, and the store how it went.
        """
        workers = members(group, size)
        known = self._look(group.leader, workers)
        # Replaced before the policy changed, or in the same instant: no healthy group goes for an edit.
        if known.ignored:
            self.accept(group.leader)
        known.ignored = group.spec.restart_policy == RestartPolicy.NONE
        unseen = (pod["metadata"]["name"] for pod in workers if self._disrupted_before(pod))
        disrupted = known.disrupted | {name for name in unseen if name not in known.replaced}
        found = group
        if known.replaced or disrupted:
            found = replace(group, replaced=tuple(sorted(known.replaced)), disrupted=frozenset(disrupted))
        exempt = group.spec.exempt_containers
        if exempt and (started := known.started((group.leader, *workers), exempt)):
            found = replace(found, started=started)
        # Decided as it is seen: a policy of later cannot tell which losses came before it.
        if ignores_losses(found, size):
            self.accept(group.leader)
        return found

    def replaced(self, leader: Object, workers: Iterable[Object]) -> tuple[str, ...]:
        """Names of workers replaced under this very leader. A missing pod is not: it may come back."""
        return tuple(sorted(self._look(leader, workers).replaced))

    def _look(self, leader: Object, workers: Iterable[Object]) -> _Group:
        metadata = leader["metadata"]
        key = (metadata["namespace"], metadata["name"])
        group = self._groups.get(key)
        if group is None or group.leader != metadata["uid"]:
            group = self._groups[key] = _Group(metadata["uid"])
        for pod in workers:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            former = group.pods.setdefault(name, uid)
            if former != uid:
                group.pods[name] = uid
                if self._disrupted_before(pod) == former and name not in group.replaced:
                    group.disrupted.add(name)
                group.replaced.add(name)
        return group

    def _disrupted_before(self, pod: Object) -> str:
        owner = controller_of(pod)
        return self._last_disrupted(owner["uid"], pod["metadata"]["name"]) if owner is not None else ""

    def accept(self, leader: Object) -> None:
        """Nothing follows from what was replaced so far."""
        group = self._groups.get((leader["metadata"]["namespace"], leader["metadata"]["name"]))
        if group is not None:
            group.replaced.clear()
            group.disrupted.clear()

    def forget(self, namespace: str, name: str) -> None:
        """There is no leader pod of this name any more."""
        self._groups.pop((namespace, name), None)
