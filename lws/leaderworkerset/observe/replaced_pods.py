"""Detect workers that are replaced between two passes, and tell restarts after the start of a group from
those that belong to it.

A pod that is deleted and recreated between two passes leaves no trace but its new UID. Nothing shows which
restarts came first: each kubelet writes the times of its own clock. `status.members` records both across
restarts of the manager, for groups that were once ready, without names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from lws.kube.metadata import controller_of, name_of, namespace_of, uid_of
from lws.leaderworkerset.group.failures import counted_restarts, ignores_losses, members
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.group_records import recorded_members
from lws.leaderworkerset.pod_identity import group_number, must_return_to
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import RestartPolicy


@dataclass(slots=True)
class _Group:
    """Pods of one group as passes have seen them.
    leader: UID of the leader pod. pods: UIDs of the worker pods by name. replaced: names of pods that were
    replaced under this leader. disrupted: names of pods whose predecessors were disrupted. ignored: whether
    the restart policy was None at the last pass. at_start: as `GroupSnapshot.restarts_at_start`; None until a
    pass has seen the group started. failed_since: as there.
    """

    leader: str
    pods: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    disrupted: set[str] = field(default_factory=set)
    ignored: bool = False
    at_start: dict[tuple[str, str], int] | None = None
    failed_since: datetime | None = None

    def ignore_replaced(self) -> None:
        """Ignore the pods that were replaced until now."""
        self.replaced.clear()
        self.disrupted.clear()


class ReplacedPods:
    """Record which workers of each group were replaced. One instance per term of leadership."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[tuple[str, str], _Group] = {}

    def with_losses(self, group: GroupSnapshot, size: int) -> GroupSnapshot:
        """Return the snapshot with the workers that were replaced. size: see `incident_of`.

        Losses that the restart policy ignores are not counted after a change of the policy. A worker may have
        been replaced before the first pass: then only the status shows the loss, and only the store shows
        whether the worker was disrupted.
        """
        workers = members(group, size)
        record = self.update(group.leader, workers)
        # An edit of the policy must not recreate healthy groups.
        if record.ignored:
            record.ignore_replaced()
        record.ignored = group.spec.restart_policy == RestartPolicy.NONE
        unseen = (pod["metadata"]["name"] for pod in workers if self._disrupted_before(pod))
        disrupted = record.disrupted | {name for name in unseen if name not in record.replaced}
        snapshot = group
        if record.replaced or disrupted:
            snapshot = replace(
                group,
                replaced_workers=tuple(sorted(record.replaced)),
                disrupted_workers=frozenset(disrupted),
            )
        if not group.spec.waits_for_start:
            record.at_start = None
        elif record.at_start is None and not ignores_losses(snapshot, size):
            record.at_start = _restarts_at_start(group, workers)
        if record.at_start:
            snapshot = replace(snapshot, restarts_at_start=record.at_start)
        # Decided now: after a change of the policy, nothing shows which losses came before the change.
        if ignores_losses(snapshot, size):
            record.ignore_replaced()
        return snapshot

    def failed_since(self, group: GroupSnapshot, has_failed: bool) -> datetime | None:
        """Return when a pass first saw that the group has failed; None if it has not."""
        record = self._groups[namespace_of(group.leader), name_of(group.leader)]
        # The clock may have been set back.
        record.failed_since = min(record.failed_since or group.now, group.now) if has_failed else None
        return record.failed_since

    def update(self, leader: Object, workers: Iterable[Object]) -> _Group:
        """Record these workers of a leader pod. A missing pod is not replaced yet."""
        metadata = leader["metadata"]
        key = (metadata["namespace"], metadata["name"])
        group = self._groups.get(key)
        if group is None or group.leader != metadata["uid"]:
            group = self._groups[key] = _Group(metadata["uid"])
        for pod in workers:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            last = group.pods.setdefault(name, uid)
            if last != uid:
                group.pods[name] = uid
                is_disrupted = self._disrupted_before(pod) == last
                if not is_disrupted and self._waited_in_vain(pod) == last:
                    continue
                if is_disrupted and name not in group.replaced:
                    group.disrupted.add(name)
                group.replaced.add(name)
        return group

    def _disrupted_before(self, pod: Object) -> str:
        owner = controller_of(pod)
        return self._store.last_disrupted(owner["uid"], pod["metadata"]["name"]) if owner is not None else ""

    def _waited_in_vain(self, pod: Object) -> str:
        """Return the UID of the predecessor of a pod if the predecessor never ran, because it waited for the
        node that it had to return to; else an empty string.
        """
        owner = controller_of(pod)
        last = self._store.last_unbound(owner["uid"], name_of(pod)) if owner is not None else None
        return uid_of(last) if last is not None and must_return_to(last) else ""

    def forget(self, namespace: str, name: str) -> None:
        """Drop the records of a deleted leader pod."""
        self._groups.pop((namespace, name), None)


def _restarts_at_start(group: GroupSnapshot, workers: Iterable[Object]) -> dict[tuple[str, str], int]:
    """Return the restarts that belong to the start of a group that this process now sees started: those that
    there are, unless the status has recorded fewer. Then there were more while no manager ran.
    """
    counted = counted_restarts(group, (group.leader, *workers))
    recorded = recorded_members(group.lws, group_number(group.leader))
    if recorded is None or not recorded.belongs_to(uid_of(group.leader)) or recorded.restarts is None:
        return counted
    return counted if sum(counted.values()) <= recorded.restarts else {}
