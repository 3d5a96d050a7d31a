"""Replay the record of a set as steps, each with the frame before and after a write.

Changes are in the order of the store. Of pods and StatefulSets, only the fields that a check reads are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lws.leaderworkerset.pod_identity import must_return_to
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.integration.chaos.record import PODS, SETS, STATEFULSETS, Change, Entry, Object


@dataclass(frozen=True)
class Pod:
    """A pod.

    owner: UID of its StatefulSet. size: pods of the group, from the leader's annotation. image: of its
    first container. restarts: of all containers. is_gated: has a scheduling gate. waits_to_return: it has no
    node, and only one node may take it.
    """

    name: str
    uid: str
    group: int
    worker: int
    key: str
    owner: str
    size: int = 1
    image: str = ""
    is_ready: bool = False
    is_terminating: bool = False
    has_failed: bool = False
    restarts: int = 0
    is_gated: bool = False
    waits_to_return: bool = False

    @property
    def is_leader(self) -> bool:
        return self.worker == 0


@dataclass(frozen=True)
class StatefulSet:
    """A StatefulSet.

    owner: UID of the set, or of the leader pod. settled: the status reports that all desired pods are ready.
    """

    name: str
    uid: str
    owner: str
    key: str
    replicas: int
    partition: int
    settled: bool


@dataclass(frozen=True)
class DesiredState:
    """The desired state of a set. image: of the first container of workers, which leaders share."""

    replicas: int
    unavailable: int
    surge: int
    image: str = ""

    @property
    def floor(self) -> int:
        """Return the minimum of ready groups."""
        return self.replicas - self.unavailable

    @property
    def ceiling(self) -> int:
        """Return the maximum of existing groups."""
        return self.replicas + self.surge


@dataclass(frozen=True)
class Frame:
    """All objects of one set at one moment, by name. desired: None while the set does not exist."""

    pods: Mapping[str, Pod] = field(default_factory=dict)
    statefulsets: Mapping[str, StatefulSet] = field(default_factory=dict)
    desired: DesiredState | None = None

    @cached_property
    def leaders(self) -> dict[int, Pod]:
        """Return leaders by group."""
        return {pod.group: pod for pod in self.pods.values() if pod.is_leader}

    @cached_property
    def ready(self) -> frozenset[int]:
        """Return groups that serve, according to their pods."""
        return frozenset(group for group, leader in self.leaders.items() if self._serves(leader))

    @cached_property
    def reported(self) -> frozenset[int]:
        """Return groups that a controller sees as ready, from leaders and the status of StatefulSets."""
        return frozenset(group for group, leader in self.leaders.items() if self._is_reported(leader))

    def workers_of(self, leader: Pod) -> list[Pod]:
        """Return the workers that were created for this leader."""
        owner = self.statefulsets.get(leader.name)
        if owner is None or owner.owner != leader.uid:
            return []
        return [pod for pod in self.pods.values() if pod.owner == owner.uid]

    def _serves(self, leader: Pod) -> bool:
        team = [leader, *self.workers_of(leader)]
        return len(team) == leader.size and all(pod.is_ready for pod in team)

    def _is_reported(self, leader: Pod) -> bool:
        if not leader.is_ready or leader.size == 1:
            return leader.is_ready
        workers = self.statefulsets.get(leader.name)
        return workers is not None and workers.owner == leader.uid and workers.settled


@dataclass(frozen=True)
class Step:
    """One write, or a snapshot."""

    entry: Entry
    before: Frame
    after: Frame


def steps_of(name: str, changes: Iterable[Change]) -> list[Step]:
    """Return every step of the set of that name."""
    steps: list[Step] = []
    frame = Frame()
    for change in changes:
        after = _changed(name, frame, change)
        if after != frame:
            steps.append(Step(change.entry, frame, after))
        frame = after
    return steps


def _changed(name: str, frame: Frame, change: Change) -> Frame:
    if change.entry.resource == PODS:
        return replace(frame, pods=_merged(frame.pods, change, name, pod_of))
    if change.entry.resource == STATEFULSETS:
        return replace(frame, statefulsets=_merged(frame.statefulsets, change, name, statefulset_of))
    if change.entry.resource == SETS and name in change.objects:
        obj = change.objects[name]
        return replace(frame, desired=desired_state_of(obj) if obj is not None else None)
    return frame


def _merged(previous: Mapping[str, Any], change: Change, name: str, read: Any) -> dict[str, Any]:
    merged = {} if change.is_snapshot else dict(previous)
    for key, obj in change.objects.items():
        if obj is None and key in merged and _is_another(merged[key], change):
            # This is a late report of the end of a predecessor.
            continue
        merged.pop(key, None)
        if obj is not None and _labels(obj).get(NAME_LABEL) == name:
            merged[key] = read(obj)
    return merged


def _is_another(previous: Any, change: Change) -> bool:
    uid = (change.entry.answer.get("metadata") or {}).get("uid")
    return uid is not None and previous.uid != uid


def pod_of(obj: Object, group: int | None = None) -> Pod:
    """Return the fields of a pod that count. group: its number, if its label is not one."""
    metadata, status, labels = obj["metadata"], obj.get("status") or {}, _labels(obj)
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    is_terminating = "deletionTimestamp" in metadata
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        group=int(labels[GROUP_INDEX_LABEL]) if group is None else group,
        worker=int(labels[WORKER_INDEX_LABEL]),
        key=labels.get(REVISION_LABEL, ""),
        owner=_owner(obj),
        size=int((metadata.get("annotations") or {}).get(SIZE_ANNOTATION, 1)),
        image=_image(obj.get("spec") or {}),
        is_ready=conditions.get("Ready") == "True" and not is_terminating,
        is_terminating=is_terminating,
        has_failed=status.get("phase") in ("Failed", "Succeeded"),
        restarts=sum(container.get("restartCount", 0) for container in containers),
        is_gated=bool((obj.get("spec") or {}).get("schedulingGates")),
        waits_to_return=bool(must_return_to(obj)),
    )


def statefulset_of(obj: Object) -> StatefulSet:
    """Return the fields of a StatefulSet that count."""
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    replicas = spec.get("replicas", 1)
    is_observed = status.get("observedGeneration") == metadata.get("generation")
    return StatefulSet(
        name=metadata["name"],
        uid=metadata["uid"],
        owner=_owner(obj),
        key=_labels(obj).get(REVISION_LABEL, ""),
        replicas=replicas,
        partition=rolling.get("partition", 0),
        settled=is_observed and status.get("readyReplicas", 0) >= replicas,
    )


def desired_state_of(obj: Object) -> DesiredState:
    """Return the desired state of a set, with limits scaled and bounded as its API specifies."""
    spec = obj["spec"]
    replicas = spec.get("replicas", 1)
    strategy = spec.get("rolloutStrategy") or {}
    budget = strategy.get("rollingUpdateConfiguration") or {}
    unavailable = _scaled(budget.get("maxUnavailable", 1), replicas, math.floor)
    surge = min(_scaled(budget.get("maxSurge", 0), replicas, math.ceil), replicas)
    # With a surge, one group always stays; without any budget, one group may be unavailable.
    unavailable = min(unavailable, replicas - 1) if surge else max(unavailable, 1)
    template = (spec.get("leaderWorkerTemplate") or {}).get("workerTemplate") or {}
    return DesiredState(replicas, unavailable, surge, _image(template.get("spec") or {}))


def groups_of(steps: Iterable[Step]) -> Iterator[tuple[int, list[Pod]]]:
    """Every group with the leaders that it has had, in order."""
    leaders_by_group: dict[int, dict[str, Pod]] = {}
    for step in steps:
        for group, leader in step.after.leaders.items():
            leaders_by_group.setdefault(group, {}).setdefault(leader.uid, leader)
    for group, leaders in sorted(leaders_by_group.items()):
        yield group, list(leaders.values())


def _scaled(value: int | str, replicas: int, rounded: Any) -> int:
    if isinstance(value, int):
        return value
    return int(rounded(int(value.removesuffix("%")) * replicas / 100))


def _image(pod: Object) -> str:
    return str(next((container.get("image", "") for container in pod.get("containers") or ()), ""))


def _owner(obj: Object) -> str:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
