"""Answers: what does the cluster hold now, and what was there at every moment since some point?

In: lists and watch events of a few kinds. Out: views of now, and a moment for every change of a pod. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tools.demo.facts import Object, Pod, SetFacts, owner_of, pod_of, set_of
from tools.demo.groups import Group, groups_of


class Kind(StrEnum):
    """What is followed."""

    SET = "LeaderWorkerSet"
    POD = "Pod"
    STATEFULSET = "StatefulSet"
    SERVICE = "Service"
    REVISION = "ControllerRevision"
    EVENT = "Event"
    LEASE = "Lease"


Moment = tuple[Pod, ...]
"""Every pod of every set, as one event of the stream of pods left them."""


@dataclass(frozen=True)
class View:
    """Everything that is followed, at one time. leaders: see groups.Leaders."""

    objects: Mapping[Kind, tuple[Object, ...]]
    leaders: Mapping[str, str]

    def pods(self, set_name: str) -> tuple[Pod, ...]:
        """The pods of a set."""
        pods = (pod_of(found) for found in self.objects[Kind.POD])
        return tuple(pod for pod in pods if pod is not None and pod.set_name == set_name)

    def groups(self, set_name: str) -> tuple[Group, ...]:
        """The groups of a set, by index."""
        return groups_of(self.pods(set_name), self.leaders)

    def set(self, name: str) -> SetFacts | None:
        """A set by its name; None when there is none."""
        return next((each for each in map(set_of, self.objects[Kind.SET]) if each.name == name), None)


class Record:
    """Takes in what streams say; not safe for several threads at once."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[str, Object]] = {kind: {} for kind in Kind}
        self._leaders: dict[str, str] = {}
        self._pods: dict[str, Pod] = {}
        self._moments: list[Moment] = [()]

    def replace(self, kind: Kind, items: Iterable[Object]) -> None:
        """A list was read: what is not in it is gone."""
        self._objects[kind] = {}
        if kind == Kind.POD:
            self._pods = {}
        for item in items:
            self._keep(kind, item)
        self._remember(kind)

    def take(self, kind: Kind, event: Mapping[str, Any]) -> None:
        """An event of a watch arrived."""
        found = event["object"]
        if event["type"] == "DELETED":
            self._objects[kind].pop(found["metadata"]["uid"], None)
            self._pods.pop(found["metadata"]["uid"], None)
        else:
            self._keep(kind, found)
        self._remember(kind)

    def view(self) -> View:
        """What is there now."""
        objects = {kind: tuple(found.values()) for kind, found in self._objects.items()}
        return View(objects, dict(self._leaders))

    def mark(self) -> int:
        """Now, as a point to look back to."""
        return len(self._moments) - 1

    def since(self, mark: int) -> tuple[Moment, ...]:
        """The moment of the mark and all that came after it."""
        return tuple(self._moments[mark:])

    def _keep(self, kind: Kind, found: Object) -> None:
        uid = found["metadata"]["uid"]
        self._objects[kind][uid] = found
        if kind == Kind.STATEFULSET:
            # Never forgotten: pods outlive the StatefulSet that made them.
            self._leaders[uid] = owner_of(found)
        elif kind == Kind.POD and (pod := pod_of(found)) is not None:
            self._pods[uid] = pod

    def _remember(self, kind: Kind) -> None:
        moment = tuple(self._pods.values())
        if kind == Kind.POD and moment != self._moments[-1]:
            self._moments.append(moment)
