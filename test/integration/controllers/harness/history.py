"""What happened to a set between two moments, in every single state that the API server went through?

In: a resource version to begin at. Out: frames (all pods after each change), groups ready and existing in
each of them, and what the leader StatefulSet was told. Nothing is sampled: the watch is replayed afterwards,
from the API server's own record of about a minute.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, SIZE_ANNOTATION
from test.integration.controllers.harness.groups import annotations_of, is_leader, labels_of, name_of
from test.integration.controllers.harness.world import World
from tools.localcluster.api import Call
from tools.localcluster.pods import is_ready

Object = dict[str, Any]
Frame = dict[str, Object]
"""Name → object, at one moment."""

_REPLAY_SECONDS = 20


@dataclass(frozen=True)
class Told:
    """What a leader StatefulSet was told at one moment."""

    partition: int
    replicas: int
    key: str


class History:
    """Of one set, from the moment of its making."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._began = {kind: self._list(kind) for kind in ("Pod", "StatefulSet")}

    def pods(self) -> list[Frame]:
        """All pods of the set, before and after each change until now."""
        return self._frames("Pod")

    def told(self) -> list[Told]:
        """What the leader StatefulSet was told, each time something else."""
        found: list[Told] = []
        for frame in self._frames("StatefulSet"):
            if self._name in frame:
                told = _told(frame[self._name])
                found += [told] if told not in found[-1:] else []
        return found

    def leaders(self) -> dict[int, list[str]]:
        """Group → UIDs of the leaders that it has had, in order.

        Left out is one that came back as it was and never got ready: where the StatefulSet controller makes
        a leader anew before it is told the next partition, it replaces it once more. On a machine under load
        that happens now and then, and no promise forbids it.
        """
        found: dict[int, dict[str, Object]] = {}
        ready: set[str] = set()
        for frame in self.pods():
            for pod in filter(is_leader, frame.values()):
                uid = pod["metadata"]["uid"]
                found.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), {}).setdefault(uid, pod)
                ready |= {uid} if is_ready(pod) else set()
        return {index: _without_detours(list(pods.values()), ready) for index, pods in found.items()}

    def _list(self, kind: str) -> Object:
        query = urlencode({"labelSelector": f"{NAME_LABEL}={self._name}"})
        return self._world.api.get(f"{self._world.path(kind)}?{query}")

    def _frames(self, kind: str) -> list[Frame]:
        began, ended = self._began[kind], self._list(kind)
        last = {name_of(each): each["metadata"]["resourceVersion"] for each in ended["items"]}
        frame: Frame = {name_of(each): each for each in began["items"]}
        frames = [frame]
        query = {
            "watch": "1",
            "resourceVersion": began["metadata"]["resourceVersion"],
            "labelSelector": f"{NAME_LABEL}={self._name}",
            "timeoutSeconds": str(_REPLAY_SECONDS),
        }
        if _versions(frame) == last:
            return frames
        stream = self._world.api.watch(Call("GET", self._world.path(kind), query=query))
        with closing(cast("Generator[Object]", stream)) as events:
            for event in events:
                changed = event["object"]
                frame = {name: each for name, each in frame.items() if name != name_of(changed)}
                if event["type"] != "DELETED":
                    frame[name_of(changed)] = changed
                frames.append(frame)
                if _versions(frame) == last:
                    return frames
        raise AssertionError(f"the replay of {kind}s of {self._name} did not reach the present")


def ready_groups(frame: Frame) -> set[int]:
    """Groups of which every pod is ready and of one revision, and none is being deleted."""
    return {index for index, pods in _by_group(frame).items() if _is_ready(pods)}


def existing_groups(frame: Frame) -> set[int]:
    """Groups that have a leader, whatever its state."""
    return {index for index, pods in _by_group(frame).items() if any(map(is_leader, pods))}


def mixed_groups(frame: Frame) -> set[int]:
    """Groups with pods of two revisions whose leader is not being deleted: old workers met a new leader."""
    return {
        index
        for index, pods in _by_group(frame).items()
        if len({labels_of(pod)[REVISION_LABEL] for pod in pods}) > 1
        and any(is_leader(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    }


def _is_ready(pods: list[Object]) -> bool:
    leaders = [pod for pod in pods if is_leader(pod)]
    if len(leaders) != 1 or len({labels_of(pod)[REVISION_LABEL] for pod in pods}) > 1:
        return False
    return len(pods) == int(annotations_of(leaders[0])[SIZE_ANNOTATION]) and all(map(is_ready, pods))


def _without_detours(leaders: list[Object], ready: set[str]) -> list[str]:
    keys = [labels_of(leader)[REVISION_LABEL] for leader in leaders]
    uids = [leader["metadata"]["uid"] for leader in leaders]
    return [
        uid
        for place, uid in enumerate(uids)
        if uid in ready or place in (0, len(uids) - 1) or keys[place] != keys[place - 1]
    ]


def _by_group(frame: Frame) -> dict[int, list[Object]]:
    groups: dict[int, list[Object]] = {}
    for pod in frame.values():
        groups.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), []).append(pod)
    return groups


def _versions(frame: Frame) -> dict[str, str]:
    return {name: each["metadata"]["resourceVersion"] for name, each in frame.items()}


def _told(statefulset: Object) -> Told:
    update = statefulset["spec"].get("updateStrategy", {}).get("rollingUpdate", {})
    key = labels_of(statefulset)[REVISION_LABEL]
    return Told(update.get("partition", 0), statefulset["spec"]["replicas"], key)
