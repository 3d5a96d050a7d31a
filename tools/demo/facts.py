"""Collect facts about sets, pods and groups, and record what streams reported. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)

Object = Mapping[str, Any]

_KEY_LENGTH = 40
READY = "ready"
TERMINATING = "terminating"
Leaders = Mapping[str, str]
"""UID of a worker StatefulSet → UID of the leader pod that owns it."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a set.

    host: its host name, from which the names of the workers of a Hash leader derive.
    group, index: its place; index 0 is the leader. The group of a Hash set is a number computed from its key.
    size: the number of pods of its group.
    revision: the key of its template.
    owner: the UID of the StatefulSet or ReplicaSet that created it.
    state: one word for readers, such as READY or TERMINATING.
    environment: the plain variables of its first container.
    """

    name: str
    uid: str
    host: str
    set_name: str
    group: int
    index: int
    size: int
    revision: str
    owner: str
    state: str
    image: str
    created: datetime
    environment: Mapping[str, str]

    @property
    def is_leader(self) -> bool:
        return self.index == 0

    @property
    def is_ready(self) -> bool:
        return self.state == READY


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the set: its type, whether it is true, and the reason."""

    type: str
    is_true: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SetFacts:
    """The spec of a set and what its status says.

    has_indices: whether groups have indices instead of keys.
    is_observed: whether the status is about the present spec.
    """

    name: str
    uid: str
    replicas: int
    size: int
    ready: int
    updated: int
    is_observed: bool
    conditions: tuple[Condition, ...]
    has_indices: bool = True

    def holds(self, type_: str) -> bool:
        """Report whether a condition is true."""
        return any(condition.type == type_ and condition.is_true for condition in self.conditions)

    @property
    def pods(self) -> int:
        """The number of desired pods."""
        return self.replicas * self.size


def pod_of(obj: Object) -> Pod | None:
    """Return the facts of a pod; None if it belongs to no set or has no labels yet."""
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    if not {NAME_LABEL, GROUP_INDEX_LABEL, WORKER_INDEX_LABEL} <= labels.keys():
        return None
    container = obj["spec"]["containers"][0]
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        host=obj["spec"].get("hostname") or metadata["name"],
        set_name=labels[NAME_LABEL],
        group=_number(labels[GROUP_INDEX_LABEL]),
        index=int(labels[WORKER_INDEX_LABEL]),
        size=int((metadata.get("annotations") or {}).get(SIZE_ANNOTATION, 1)),
        revision=labels.get(REVISION_LABEL, ""),
        owner=owner_of(obj),
        state=_state(obj),
        image=container["image"],
        created=time_of(metadata["creationTimestamp"]),
        environment={entry["name"]: entry.get("value", "") for entry in container.get("env") or ()},
    )


def host_of(set_name: str, group: str) -> str:
    """Return the host name of a leader; `group` is the index or key from the label of its pods."""
    return f"{set_name}-{group[:8] if len(group) == _KEY_LENGTH else group}"


def _number(group: str) -> int:
    return int(group[:8], 16) if len(group) == _KEY_LENGTH else int(group)


def set_of(obj: Object) -> SetFacts:
    """Return the facts of a LeaderWorkerSet."""
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    return SetFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        replicas=spec["replicas"],
        size=spec["leaderWorkerTemplate"]["size"],
        ready=status.get("readyReplicas", 0),
        updated=status.get("updatedReplicas", 0),
        is_observed=_observed_generation(status) == metadata["generation"],
        conditions=tuple(
            Condition(condition["type"], condition["status"] == "True", condition.get("reason", ""))
            for condition in sorted(status.get("conditions") or (), key=itemgetter("type"))
        ),
        has_indices=spec.get("groupIdentity") != GroupIdentity.HASH,
    )


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def owner_of(obj: Object) -> str:
    """Return the UID of an object's controller; empty without one."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")


def time_of(text: str) -> datetime:
    """Parse a time as Kubernetes writes it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _observed_generation(status: Mapping[str, Any]) -> int:
    """Return the observed generation of the status or, as earlier releases wrote it, of its conditions."""
    conditions = status.get("conditions") or ()
    oldest = min((condition.get("observedGeneration", 0) for condition in conditions), default=0)
    return int(status.get("observedGeneration", oldest))


def _state(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return TERMINATING
    status = pod.get("status") or {}
    phase = str(status.get("phase", "Pending"))
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    if phase == "Running":
        return READY if conditions.get("Ready") == "True" else "not ready"
    if phase == "Pending":
        return "starting" if pod["spec"].get("nodeName") else "pending"
    return str(status.get("reason") or phase).lower()


@dataclass(frozen=True, slots=True)
class Group:
    """A leader (None while there is none) and its own workers, without any that a former leader left."""

    index: int
    size: int
    leader: Pod | None
    workers: tuple[Pod, ...]

    @property
    def pods(self) -> tuple[Pod, ...]:
        return self.workers if self.leader is None else (self.leader, *self.workers)

    @property
    def revision(self) -> str:
        """The key of the group's template; empty without pods."""
        return self.pods[0].revision if self.pods else ""

    @property
    def ready_workers(self) -> int:
        return sum(pod.is_ready for pod in self.workers)

    @property
    def is_ready(self) -> bool:
        """Whether the group serves, which requires that it is complete and every pod is ready."""
        return len(self.pods) == self.size and all(pod.is_ready for pod in self.pods)


def groups_of(pods: Iterable[Pod], leaders: Leaders) -> tuple[Group, ...]:
    """Return the groups that the pods of one set form, by index."""
    ordered = sorted(pods, key=lambda pod: (pod.group, pod.index))
    return tuple(
        _group(index, tuple(members), leaders)
        for index, members in groupby(ordered, key=lambda pod: pod.group)
    )


def _group(index: int, members: tuple[Pod, ...], leaders: Leaders) -> Group:
    leader = next((pod for pod in members if pod.is_leader), None)
    uid = leader.uid if leader is not None else None
    workers = tuple(pod for pod in members if not pod.is_leader and leaders.get(pod.owner) == uid)
    return Group(index, members[0].size, leader, workers)


class Kind(StrEnum):
    """The kinds that are followed."""

    SET = "LeaderWorkerSet"
    POD = "Pod"
    STATEFULSET = "StatefulSet"
    SERVICE = "Service"
    REVISION = "ControllerRevision"
    EVENT = "Event"
    LEASE = "Lease"


Moment = tuple[Pod, ...]
"""Every pod of every set, after one event of the stream of pods."""


@dataclass(frozen=True)
class View:
    """All followed objects at one time; `leaders` maps UIDs of worker StatefulSets to UIDs of leaders."""

    objects: Mapping[Kind, tuple[Object, ...]]
    leaders: Mapping[str, str]

    def pods(self, set_name: str) -> tuple[Pod, ...]:
        """Return the pods of a set."""
        pods = (pod_of(obj) for obj in self.objects[Kind.POD])
        return tuple(pod for pod in pods if pod is not None and pod.set_name == set_name)

    def groups(self, set_name: str) -> tuple[Group, ...]:
        """Return the groups of a set, by index."""
        return groups_of(self.pods(set_name), self.leaders)

    def set(self, name: str) -> SetFacts | None:
        """Return a set by its name; None if there is none."""
        return next((facts for facts in map(set_of, self.objects[Kind.SET]) if facts.name == name), None)


class Record:
    """Records what streams report. It is not safe for several threads at the same time."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[str, Object]] = {kind: {} for kind in Kind}
        self._leaders: dict[str, str] = {}
        self._pods: dict[str, Pod] = {}
        self._moments: list[Moment] = [()]

    def replace(self, kind: Kind, items: Iterable[Object]) -> None:
        """Replace all objects of a kind by a list. Objects that are not in the list no longer exist."""
        self._objects[kind] = {}
        if kind == Kind.POD:
            self._pods = {}
        for item in items:
            self._keep(kind, item)
        self._remember(kind)

    def take(self, kind: Kind, event: Mapping[str, Any]) -> None:
        """Record an event of a watch."""
        obj = event["object"]
        if event["type"] == "DELETED":
            self._objects[kind].pop(obj["metadata"]["uid"], None)
            self._pods.pop(obj["metadata"]["uid"], None)
        else:
            self._keep(kind, obj)
        self._remember(kind)

    def view(self) -> View:
        """Return everything that exists now."""
        objects = {kind: tuple(by_uid.values()) for kind, by_uid in self._objects.items()}
        return View(objects, dict(self._leaders))

    def mark(self) -> int:
        """Return the present moment as a mark for `since`."""
        return len(self._moments) - 1

    def since(self, mark: int) -> tuple[Moment, ...]:
        """Return the moment of the mark and all later moments."""
        return tuple(self._moments[mark:])

    def _keep(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        self._objects[kind][uid] = obj
        if kind == Kind.STATEFULSET:
            # Entries are never removed, because pods outlive the StatefulSet that created them.
            self._leaders[uid] = owner_of(obj)
        elif kind == Kind.POD and (pod := pod_of(obj)) is not None:
            self._pods[uid] = pod

    def _remember(self, kind: Kind) -> None:
        moment = tuple(self._pods.values())
        if kind == Kind.POD and moment != self._moments[-1]:
            self._moments.append(moment)
