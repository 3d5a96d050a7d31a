"""What happened to a set between two moments, in every single state that the API server went through?

In: a set, from the moment of making this on. Out: frames (all pods after each change), groups ready and
existing in each of them, what the leader StatefulSet was told, and which leaders each group has had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, SIZE_ANNOTATION
from test.harness.following import Following, Frame, Moment, Object
from test.harness.groups import (
    annotations_of,
    controller_of,
    is_leader,
    labels_of,
    name_of,
)
from test.harness.world import World
from tools.localcluster.pods import is_ready

# How long the manager waits for the garbage collector to come to former workers.
_COLLECTED_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True)
class Told:
    """What a leader StatefulSet was told at one moment."""

    partition: int
    replicas: int
    key: str


@dataclass(frozen=True)
class Telling:
    """The same, since when, and whether its controller has said that it knows."""

    version: int
    told: Told
    is_observed: bool

    def moves(self, index: int, key: str) -> bool:
        """A leader of this group that is made now is not to be of this key."""
        return self.told.key != key and self.told.partition <= index


@dataclass
class Life:
    """One leader. made, going: versions at which it was there first, and at which it was deleted."""

    uid: str
    key: str
    made: int
    going: int | None = None


class History:
    """Of one set, from the moment of its making."""

    def __init__(self, world: World, name: str) -> None:
        self._name = name
        self._pods, self._statefulsets = (
            Following(world.api, world.path(kind), f"{NAME_LABEL}={name}", world.ended)
            for kind in ("Pod", "StatefulSet")
        )

    def pods(self) -> list[Frame]:
        """All pods of the set, before and after each change until now."""
        return [moment.frame for moment in self._pods.moments()]

    def told(self) -> list[Told]:
        """What the leader StatefulSet was told, each time something else."""
        return _without_repetition(each.told for each in self._tellings())

    def leaders(self) -> dict[int, list[str]]:
        """Group → UIDs of the leaders that it has had, in order.

        Left out are detours. A leader is deleted right before the StatefulSet is told that its group is next.
        Where the StatefulSet controller is faster than that, or than its own cache, it makes a leader as it
        was and replaces that once more: which happens on a machine under load, and no promise forbids it.
        """
        detours = self._detours()
        return {
            index: [life.uid for life in lives if life.uid not in detours]
            for index, lives in _lives(self._pods.moments()).items()
        }

    def overlaps(self) -> list[str]:
        """Workers that met another leader than theirs, unless theirs was a detour: those the StatefulSet
        controller deletes, and it waits for nobody.

        A worker that is made anew while the garbage collector takes its StatefulSet down may be late as well.
        """
        detours, moments = self._detours(), self._pods.moments()
        going = {life.uid: life.going for lives in _lives(moments).values() for life in lives}
        leader_of = {
            each["metadata"]["uid"]: controller_of(each).get("uid", "")
            for moment in self._statefulsets.moments()
            for each in moment.frame.values()
        }
        made: dict[str, int] = {}
        found: dict[str, str] = {}
        for version, frame in moments:
            for leader, worker in _teams(frame):
                uid, former = worker["metadata"]["uid"], leader_of.get(controller_of(worker).get("uid", ""))
                begun, ended = made.setdefault(uid, version), going.get(former or "")
                if former in (None, leader["metadata"]["uid"]) or former in detours:
                    continue
                if ended is None or begun < ended:
                    found[uid] = f"{name_of(worker)} of a former leader met {leader['metadata']['uid']}"
        return list(found.values())

    def early_workers(self) -> list[str]:
        """StatefulSets that were made while pods of a former one had the names that their own pods need.

        Those of leaders that had been there for a minute are left out: then nobody waits any longer.
        """
        pods = self._pods.moments()
        made: dict[str, tuple[int, Object]] = {}
        for moment in self._statefulsets.moments():
            for each in moment.frame.values():
                made.setdefault(each["metadata"]["uid"], (moment.version, each))
        found = []
        for uid, (version, statefulset) in made.items():
            name, frame = name_of(statefulset), [each.frame for each in pods if each.version <= version][-1]
            owners = {pod: controller_of(obj) for pod, obj in frame.items()}
            former = [pod for pod, of in owners.items() if of.get("name") == name and of.get("uid") != uid]
            if former and not _is_late(statefulset, frame.get(name)):
                found.append(f"StatefulSet {name} met {', '.join(former)}")
        return found

    def _detours(self) -> set[str]:
        tellings = self._tellings()
        return {
            life.uid
            for index, lives in _lives(self._pods.moments()).items()
            for former, life in pairwise(lives)
            if is_detour(index, former, life, tellings)
        }

    def _tellings(self) -> list[Telling]:
        return [
            _telling(moment.version, moment.frame[self._name])
            for moment in self._statefulsets.moments()
            if self._name in moment.frame
        ]


def _is_late(workers: Object, leader: Object | None) -> bool:
    """The leader had been there for long."""
    return leader is not None and _created_at(workers) - _created_at(leader) >= _COLLECTED_WITHIN


def _created_at(obj: Object) -> datetime:
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"])


def _teams(frame: Frame) -> Iterator[tuple[Object, Object]]:
    """Every worker with the leader that its group has now, if it has one."""
    for pods in _by_group(frame).values():
        for leader in filter(is_leader, pods):
            yield from ((leader, pod) for pod in pods if not is_leader(pod))


def _lives(moments: Iterable[Moment]) -> dict[int, list[Life]]:
    """The leaders of each group, in order."""
    found: dict[int, dict[str, Life]] = {}
    for version, frame in moments:
        present = {pod["metadata"]["uid"]: pod for pod in frame.values() if is_leader(pod)}
        for uid, pod in present.items():
            life = Life(uid, labels_of(pod)[REVISION_LABEL], version)
            found.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), {}).setdefault(uid, life)
        for life in (each for lives in found.values() for each in lives.values()):
            is_there = life.uid in present and "deletionTimestamp" not in present[life.uid]["metadata"]
            if not is_there and life.going is None:
                life.going = version
    return {index: list(lives.values()) for index, lives in found.items()}


def is_detour(index: int, former: Life, life: Life, tellings: Sequence[Telling]) -> bool:
    """It was made before the StatefulSet controller knew that the group's turn had come."""
    if former.going is None:
        return False
    then = [each for each in tellings if each.version <= former.going]
    later = [each for each in tellings[len(then) :] if then and each.told != then[-1].told]
    if later and later[0].moves(index, life.key):
        return True
    known = [each for each in tellings if each.version <= life.made]
    return bool(known) and known[-1].moves(index, life.key) and not known[-1].is_observed


def ready_groups(frame: Frame) -> set[int]:
    """Groups of which every pod is ready and of one revision, and none is being deleted."""
    return {index for index, pods in _by_group(frame).items() if _is_ready(pods)}


def existing_groups(frame: Frame) -> set[int]:
    """Groups that have a leader, whatever its state."""
    return {index for index, pods in _by_group(frame).items() if any(map(is_leader, pods))}


def _is_ready(pods: list[Object]) -> bool:
    leaders = [pod for pod in pods if is_leader(pod)]
    if len(leaders) != 1 or len({labels_of(pod)[REVISION_LABEL] for pod in pods}) > 1:
        return False
    return len(pods) == int(annotations_of(leaders[0])[SIZE_ANNOTATION]) and all(map(is_ready, pods))


def _without_repetition(every: Iterable[Told]) -> list[Told]:
    found: list[Told] = []
    for told in every:
        found += [told] if told not in found[-1:] else []
    return found


def _by_group(frame: Frame) -> dict[int, list[Object]]:
    groups: dict[int, list[Object]] = {}
    for pod in frame.values():
        groups.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), []).append(pod)
    return groups


def _telling(version: int, statefulset: Object) -> Telling:
    update = statefulset["spec"].get("updateStrategy", {}).get("rollingUpdate", {})
    key = labels_of(statefulset)[REVISION_LABEL]
    observed = (statefulset.get("status") or {}).get("observedGeneration", 0)
    return Telling(
        version,
        Told(update.get("partition", 0), statefulset["spec"]["replicas"], key),
        observed >= statefulset["metadata"]["generation"],
    )
