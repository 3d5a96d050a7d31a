"""Replay the changes of a DisaggregatedSet and its objects as steps, each with the scene before and after it.

The changes come from a watch or an audit log, in the order of the API server's store. Only the fields of an
object that a checker reads are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SCALER_KIND, SLICE_LABEL
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, SIZE_ANNOTATION, WORKER_INDEX_LABEL
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_LABEL
from test.harness.groups import annotations_of, condition, labels_of
from test.harness.world import SET
from tools.localcluster.pods import is_ready

Object = dict[str, Any]
RoleKey = tuple[int, str]
"""Slice and role."""


@dataclass(frozen=True)
class Seen:
    """The new state of some objects of a kind.

    at: the time in seconds of some clock.
    who: the user that wrote the state; "" if unknown.
    is_whole: whether there are no other objects of the kind.
    """

    at: float
    kind: str
    objects: Mapping[str, Object | None]
    who: str = ""
    is_whole: bool = False


@dataclass(frozen=True)
class Child:
    """One LeaderWorkerSet."""

    name: str
    uid: str
    role_key: RoleKey
    key: str
    desired: int
    images: frozenset[str] = frozenset()
    is_terminating: bool = False


@dataclass(frozen=True)
class Pod:
    """One pod.

    child: the name of its LeaderWorkerSet.
    is_damaged: whether it failed or restarted, so that its group is recreated.
    born_of: the UID of the child when the pod was first seen.
    """

    name: str
    uid: str
    child: str
    group: int
    worker: int
    size: int = 1
    is_ready: bool = False
    is_going: bool = False
    is_damaged: bool = False
    born_of: str = ""


@dataclass(frozen=True)
class Wish:
    """The target of a role in a slice, with its limits."""

    target: int
    surge: int
    unavailable: int

    @property
    def ceiling(self) -> int:
        return self.target + self.surge


@dataclass(frozen=True)
class Asked:
    """The set itself.

    is_done: whether its status says that it is at rest.
    """

    roles: tuple[Object, ...] = ()
    slices: int = 1
    is_done: bool = False


@dataclass(frozen=True)
class Scene:
    """All objects of one set at one moment, by name.

    asked: the set; None if it does not exist or is terminating.
    revisions: number and key of each revision.
    """

    asked: Asked | None = None
    children: Mapping[str, Child] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    revisions: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    scalers: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def target(self) -> str:
        """The key of the newest revision, which all groups should reach."""
        return max(self.revisions.values(), default=(0, ""))[1]

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(key for _, key in self.revisions.values())

    @cached_property
    def wishes(self) -> dict[RoleKey, Wish]:
        """The targets of all roles of the spec."""
        if self.asked is None:
            return {}
        return {
            (index, role["name"]): wish_of(role, self._target_of(role, index))
            for index in range(self.asked.slices)
            for role in self.asked.roles
        }

    def wish(self, role_key: RoleKey) -> Wish:
        """Return the target of a slice and role; 0 groups if the spec no longer has it."""
        return self.wishes.get(role_key, Wish(0, 1, 0))

    @cached_property
    def ready(self) -> dict[str, frozenset[int]]:
        """Child → groups whose pods are all ready and not terminating."""
        by_group: dict[str, dict[int, list[Pod]]] = {}
        for pod in self.pods.values():
            if pod.is_ready and not pod.is_going:
                by_group.setdefault(pod.child, {}).setdefault(pod.group, []).append(pod)
        return {
            child: frozenset(group for group, pods in groups.items() if len(pods) >= pods[0].size)
            for child, groups in by_group.items()
        }

    @cached_property
    def leaders(self) -> dict[str, int]:
        """Child → number of groups that have a leader, whatever its state."""
        leaders: dict[str, int] = {}
        for pod in self.pods.values():
            if pod.worker == 0:
                leaders[pod.child] = leaders.get(pod.child, 0) + 1
        return leaders

    def at(self, role_key: RoleKey) -> list[Child]:
        return [child for child in self.children.values() if child.role_key == role_key]

    def present(self, role_key: RoleKey, earlier: Sequence[Scene] = ()) -> int:
        """Count the desired or the existing groups of each child, whichever are more. Deleted children do not
        count. No child has more existing groups than it had in each of the earlier scenes.
        """
        scenes = (self, *earlier)
        return sum(
            max(
                0 if child.is_terminating else child.desired,
                min(scene.leaders.get(child.name, 0) for scene in scenes),
            )
            for child in self.at(role_key)
        )

    def _target_of(self, role: Mapping[str, Any], index: int) -> int:
        if (role.get("scaling") or {}).get("mode") != "External":
            return int(role["spec"].get("replicas", 1))
        slices = self.asked.slices if self.asked is not None else 1
        total = self.scalers.get(role["name"])
        if total is None:
            # Without a scaler, any number of groups is right.
            return sum(child.desired for child in self.at((index, role["name"])))
        return total // slices + (index < total % slices)


@dataclass(frozen=True)
class Step:
    """One change of a scene."""

    at: float
    kind: str
    name: str
    who: str
    before: Scene
    after: Scene


def steps_of(name: str, seen: Iterable[Seen]) -> list[Step]:
    """Return every step of the set of this name. The initial state is not a step."""
    steps: list[Step] = []
    scene = Scene()
    for change in seen:
        after = _changed(name, scene, change)
        if after != scene and not change.is_whole:
            first = next(iter(change.objects), "")
            steps.append(Step(change.at, change.kind, first, change.who, scene, after))
        scene = after
    return steps


def wish_of(role: Mapping[str, Any], target: int) -> Wish:
    """Return the target of a role with this number of groups."""
    strategy = (role.get("spec") or {}).get("rolloutStrategy") or {}
    budget = strategy.get("rollingUpdateConfiguration")
    if budget is None:
        return Wish(target, 1, 0)
    unavailable = _scaled(budget.get("maxUnavailable", 1), target, math.floor)
    surge = _scaled(budget.get("maxSurge", 0), target, math.ceil)
    return Wish(target, surge, unavailable) if surge or unavailable else Wish(target, 1, 0)


def _changed(name: str, scene: Scene, seen: Seen) -> Scene:
    if seen.kind == KIND:
        if name not in seen.objects and not seen.is_whole:
            return scene
        return replace(scene, asked=_asked(seen.objects.get(name)))
    if seen.kind == SET:
        return replace(scene, children=_merged(scene.children, seen, name, _child))
    if seen.kind == "Pod":
        pods = _merged(scene.pods, seen, name, _pod)
        return replace(scene, pods={pod: _born(obj, scene) for pod, obj in pods.items()})
    if seen.kind == "ControllerRevision":
        return replace(scene, revisions=_merged(scene.revisions, seen, name, _revision))
    if seen.kind == SCALER_KIND:
        # The count of a deleted scaler holds until there is a new scaler.
        scaled = _merged({}, seen, name, _count)
        counts = {scaler.removeprefix(f"{name}-"): count for scaler, count in scaled.items()}
        return replace(scene, scalers={**scene.scalers, **counts})
    return scene


def _merged(stored: Mapping[str, Any], seen: Seen, name: str, read: Any) -> dict[str, Any]:
    merged = {} if seen.is_whole else dict(stored)
    for key, obj in seen.objects.items():
        merged.pop(key, None)
        if obj is not None and labels_of(obj).get(NAME_LABEL) == name:
            value = read(obj)
            if value is not None:
                merged[key] = value
    return merged


def _asked(obj: Object | None) -> Asked | None:
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return None
    status = obj.get("status") or {}
    is_observed = status.get("observedGeneration") == obj["metadata"].get("generation")
    is_done = is_observed and condition(obj, "Available").get("status") == "True"
    return Asked(tuple(obj["spec"]["roles"]), obj["spec"].get("slices", 1), is_done)


def _child(obj: Object) -> Child:
    labels, metadata = labels_of(obj), obj["metadata"]
    template = obj["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    return Child(
        name=metadata["name"],
        uid=metadata["uid"],
        role_key=(int(labels.get(SLICE_LABEL, 0)), labels[ROLE_LABEL]),
        key=labels[REVISION_LABEL],
        desired=obj["spec"].get("replicas", 1),
        images=frozenset(container.get("image", "") for container in template["spec"]["containers"]),
        is_terminating="deletionTimestamp" in metadata,
    )


def _pod(obj: Object) -> Pod | None:
    labels, metadata = labels_of(obj), obj["metadata"]
    if WORKER_INDEX_LABEL not in labels:
        return None
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        child=labels[CHILD_LABEL],
        group=int(labels[GROUP_INDEX_LABEL]),
        worker=int(labels[WORKER_INDEX_LABEL]),
        size=int(annotations_of(obj)[SIZE_ANNOTATION]),
        is_ready=is_ready(obj),
        is_going="deletionTimestamp" in metadata,
        is_damaged=_is_damaged(obj.get("status") or {}),
    )


def _is_damaged(status: Object) -> bool:
    restarts = (container.get("restartCount", 0) for container in status.get("containerStatuses") or ())
    return status.get("phase") == "Failed" or any(restarts)


def _born(pod: Pod, scene: Scene) -> Pod:
    """Return the pod with the UID of the child for which it was created."""
    if pod.born_of:
        return pod
    former = scene.pods.get(pod.name)
    if former is not None and former.uid == pod.uid:
        return replace(pod, born_of=former.born_of)
    child = scene.children.get(pod.child)
    return replace(pod, born_of=child.uid if child is not None else "-")


def _revision(obj: Object) -> tuple[int, str] | None:
    """Return number and key of a revision; None for revisions of StatefulSets, which carry the labels of
    their pods.
    """
    labels = labels_of(obj)
    return None if CHILD_LABEL in labels else (int(obj.get("revision", 0)), labels[REVISION_LABEL])


def _count(obj: Object) -> int | None:
    count = (obj.get("spec") or {}).get("replicas")
    return None if count is None else int(count)


def _scaled(value: int | str, target: int, rounded: Any) -> int:
    if isinstance(value, int):
        return max(0, value)
    return int(rounded(int(value.removesuffix("%")) * target / 100))
