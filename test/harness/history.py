"""Record every state of a set that the API server went through.

The record contains frames (all pods after each change), the groups that are ready or exist in each frame, the
specs of the leader StatefulSet, and the leaders that each group has had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lws.kube.pods import gate_of
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, SIZE_ANNOTATION
from test.harness.following import Following, Frame, Moment, Object
from test.harness.groups import annotations_of, controller_of, is_leader, labels_of, name_of
from test.harness.world import World
from tools.localcluster.pods import is_ready

# The time for which the manager waits for the garbage collector to delete former workers.
_COLLECTED_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True)
class LeaderSpec:
    """The spec of the leader StatefulSet at one moment."""

    partition: int
    replicas: int
    key: str


@dataclass(frozen=True)
class SpecChange:
    """A spec of the leader StatefulSet, the version at which it began, and whether the StatefulSet controller
    has observed it.
    """

    version: int
    spec: LeaderSpec
    is_observed: bool

    def moves(self, index: int, key: str) -> bool:
        """Report whether a new leader of this group must have another key than this one."""
        return self.spec.key != key and self.spec.partition <= index


@dataclass
class Leader:
    """One leader pod.

    created: the version at which it first existed.
    deleted: the version at which it was deleted; None if it still exists.
    """

    uid: str
    key: str
    created: int
    deleted: int | None = None


class History:
    """Records all states of one set from its creation on."""

    def __init__(self, world: World, name: str) -> None:
        self._name = name
        self._pods, self._statefulsets = (
            Following(world.api, world.path(kind), f"{NAME_LABEL}={name}", world.ended)
            for kind in ("Pod", "StatefulSet")
        )

    def pods(self) -> list[Frame]:
        """Return all pods of the set, before and after each change until now."""
        return [moment.frame for moment in self._pods.moments()]

    def leader_specs(self) -> list[LeaderSpec]:
        """Return the specs of the leader StatefulSet in order, without repetitions."""
        return _without_repetition(change.spec for change in self._spec_changes())

    def leaders(self) -> dict[int, list[str]]:
        """Return group → UIDs of the leaders that it has had, in order, without detours.

        A leader is deleted right before the partition of the StatefulSet is lowered for its group. If the
        StatefulSet controller acts before that, or before its own cache has the change, it creates a leader
        of the old revision and then replaces it once more. This detour happens on a machine under load, and
        no promise forbids it.
        """
        detours = self._detours()
        return {
            index: [leader.uid for leader in leaders if leader.uid not in detours]
            for index, leaders in _leaders_by_group(self._pods.moments()).items()
        }

    def overlaps(self) -> list[str]:
        """Describe workers that existed beside a later leader than their own that was not gated, no matter
        which client deleted their own leader.

        Workers that are recreated while the garbage collector deletes their StatefulSet are left out.
        """
        moments = self._pods.moments()
        deleted_at = {
            leader.uid: leader.deleted
            for leaders in _leaders_by_group(moments).values()
            for leader in leaders
        }
        leader_of = {
            statefulset["metadata"]["uid"]: controller_of(statefulset)["uid"]
            for moment in self._statefulsets.moments()
            for statefulset in moment.frame.values()
            # A leader that is deleted without its workers leaves them without an owner.
            if controller_of(statefulset)
        }
        seen_at: dict[str, int] = {}
        overlaps: dict[str, str] = {}
        for version, frame in moments:
            for leader, worker in _teams(frame):
                uid, former = worker["metadata"]["uid"], leader_of.get(controller_of(worker).get("uid", ""))
                seen, deleted = seen_at.setdefault(uid, version), deleted_at.get(former or "")
                if former in (None, leader["metadata"]["uid"]) or gate_of(leader):
                    continue
                if deleted is None or seen < deleted:
                    overlaps[uid] = f"{name_of(worker)} of a former leader met {leader['metadata']['uid']}"
        return list(overlaps.values())

    def early_workers(self) -> list[str]:
        """Describe worker StatefulSets that were created while pods of a former one still had the names of
        their pods.

        StatefulSets whose leader had existed for a minute are left out, because the manager waits no longer
        than that.
        """
        pods = self._pods.moments()
        created: dict[str, tuple[int, Object]] = {}
        for moment in self._statefulsets.moments():
            for statefulset in moment.frame.values():
                created.setdefault(statefulset["metadata"]["uid"], (moment.version, statefulset))
        overlaps = []
        for uid, (version, statefulset) in created.items():
            name = name_of(statefulset)
            frame = [moment.frame for moment in pods if moment.version <= version][-1]
            owners = {pod: controller_of(obj) for pod, obj in frame.items()}
            former = [pod for pod, of in owners.items() if of.get("name") == name and of.get("uid") != uid]
            if former and not _is_late(statefulset, frame.get(name)):
                overlaps.append(f"StatefulSet {name} met {', '.join(former)}")
        return overlaps

    def _detours(self) -> set[str]:
        spec_changes = self._spec_changes()
        return {
            leader.uid
            for index, leaders in _leaders_by_group(self._pods.moments()).items()
            for former, leader in pairwise(leaders)
            if is_detour(index, former, leader, spec_changes)
        }

    def _spec_changes(self) -> list[SpecChange]:
        return [
            _spec_change(moment.version, moment.frame[self._name])
            for moment in self._statefulsets.moments()
            if self._name in moment.frame
        ]


def _is_late(workers: Object, leader: Object | None) -> bool:
    """Report whether the leader had existed for so long that the manager no longer waited."""
    return leader is not None and _created_at(workers) - _created_at(leader) >= _COLLECTED_WITHIN


def _created_at(obj: Object) -> datetime:
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"])


def _teams(frame: Frame) -> Iterator[tuple[Object, Object]]:
    """Yield every worker with the present leader of its group. Groups without a leader are left out."""
    for pods in _by_group(frame).values():
        for leader in filter(is_leader, pods):
            yield from ((leader, pod) for pod in pods if not is_leader(pod))


def _leaders_by_group(moments: Iterable[Moment]) -> dict[int, list[Leader]]:
    """Return the leaders of each group, in order."""
    groups: dict[int, dict[str, Leader]] = {}
    for version, frame in moments:
        present = {pod["metadata"]["uid"]: pod for pod in frame.values() if is_leader(pod)}
        for uid, pod in present.items():
            leader = Leader(uid, labels_of(pod)[REVISION_LABEL], version)
            groups.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), {}).setdefault(uid, leader)
        for leader in (leader for leaders in groups.values() for leader in leaders.values()):
            exists = leader.uid in present and "deletionTimestamp" not in present[leader.uid]["metadata"]
            if not exists and leader.deleted is None:
                leader.deleted = version
    return {index: list(leaders.values()) for index, leaders in groups.items()}


def is_detour(index: int, former: Leader, leader: Leader, spec_changes: Sequence[SpecChange]) -> bool:
    """Report whether a leader was created before the StatefulSet controller knew that it was its group's
    turn.
    """
    if former.deleted is None:
        return False
    earlier = [change for change in spec_changes if change.version <= former.deleted]
    later = [change for change in spec_changes[len(earlier) :] if earlier and change.spec != earlier[-1].spec]
    if later and later[0].moves(index, leader.key):
        return True
    written = [change for change in spec_changes if change.version <= leader.created]
    return bool(written) and written[-1].moves(index, leader.key) and not written[-1].is_observed


def ready_groups(frame: Frame) -> set[int]:
    """Return the groups whose pods are all ready, of one revision and not terminating."""
    return {index for index, pods in _by_group(frame).items() if _is_ready(pods)}


def existing_groups(frame: Frame) -> set[int]:
    """Return the groups that have a leader, whatever its state."""
    return {index for index, pods in _by_group(frame).items() if any(map(is_leader, pods))}


def _is_ready(pods: list[Object]) -> bool:
    leaders = [pod for pod in pods if is_leader(pod)]
    if len(leaders) != 1 or len({labels_of(pod)[REVISION_LABEL] for pod in pods}) > 1:
        return False
    return len(pods) == int(annotations_of(leaders[0])[SIZE_ANNOTATION]) and all(map(is_ready, pods))


def _without_repetition(specs: Iterable[LeaderSpec]) -> list[LeaderSpec]:
    distinct: list[LeaderSpec] = []
    for spec in specs:
        distinct += [spec] if spec not in distinct[-1:] else []
    return distinct


def _by_group(frame: Frame) -> dict[int, list[Object]]:
    groups: dict[int, list[Object]] = {}
    for pod in frame.values():
        groups.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), []).append(pod)
    return groups


def _spec_change(version: int, statefulset: Object) -> SpecChange:
    update = statefulset["spec"].get("updateStrategy", {}).get("rollingUpdate", {})
    key = labels_of(statefulset)[REVISION_LABEL]
    observed = (statefulset.get("status") or {}).get("observedGeneration", 0)
    return SpecChange(
        version,
        LeaderSpec(update.get("partition", 0), statefulset["spec"]["replicas"], key),
        observed >= statefulset["metadata"]["generation"],
    )
