"""Answers: what do objects of a set say that matters here?

In: objects as the API server returned them. Out: small frozen facts. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)

Object = Mapping[str, Any]

READY = "ready"
TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a set.

    group, index: its place, index 0 leads. size: pods of its group. revision: the key of its template.
    owner: UID of the StatefulSet that made it. state: one word for people, READY or TERMINATING among them.
    environment: plain variables of its first container.
    """

    name: str
    uid: str
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
    """A condition of the set: its type, whether it is true, and why."""

    type: str
    is_true: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SetFacts:
    """What a set asks for, and what its status says.

    is_observed: the status is about the spec as it is now. conditions: by type.
    """

    name: str
    uid: str
    replicas: int
    size: int
    ready: int
    updated: int
    is_observed: bool
    conditions: tuple[Condition, ...]

    def holds(self, type_: str) -> bool:
        """Whether a condition is true."""
        return any(each.type == type_ and each.is_true for each in self.conditions)

    @property
    def pods(self) -> int:
        """How many pods are wanted."""
        return self.replicas * self.size


def pod_of(found: Object) -> Pod | None:
    """The facts of a pod; None when it belongs to no set or is not labelled yet."""
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    if not {NAME_LABEL, GROUP_INDEX_LABEL, WORKER_INDEX_LABEL} <= labels.keys():
        return None
    container = found["spec"]["containers"][0]
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        set_name=labels[NAME_LABEL],
        group=int(labels[GROUP_INDEX_LABEL]),
        index=int(labels[WORKER_INDEX_LABEL]),
        size=int((metadata.get("annotations") or {}).get(SIZE_ANNOTATION, 1)),
        revision=labels.get(REVISION_LABEL, ""),
        owner=owner_of(found),
        state=_state(found),
        image=container["image"],
        created=time_of(metadata["creationTimestamp"]),
        environment={each["name"]: each.get("value", "") for each in container.get("env") or ()},
    )


def set_of(found: Object) -> SetFacts:
    """The facts of a LeaderWorkerSet."""
    metadata, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    return SetFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        replicas=spec["replicas"],
        size=spec["leaderWorkerTemplate"]["size"],
        ready=status.get("readyReplicas", 0),
        updated=status.get("updatedReplicas", 0),
        is_observed=_observed_generation(status) == metadata["generation"],
        conditions=tuple(
            Condition(each["type"], each["status"] == "True", each.get("reason", ""))
            for each in sorted(status.get("conditions") or (), key=itemgetter("type"))
        ),
    )


def owner_of(found: Object) -> str:
    """UID of the controller of an object; empty without one."""
    references = found["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def time_of(text: str) -> datetime:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _observed_generation(status: Mapping[str, Any]) -> int:
    """Of the status as a whole or, as earlier releases wrote it, of its conditions."""
    conditions = status.get("conditions") or ()
    oldest = min((each.get("observedGeneration", 0) for each in conditions), default=0)
    return int(status.get("observedGeneration", oldest))


def _state(found: Object) -> str:
    if "deletionTimestamp" in found["metadata"]:
        return TERMINATING
    status = found.get("status") or {}
    phase = str(status.get("phase", "Pending"))
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    if phase == "Running":
        return READY if conditions.get("Ready") == "True" else "not ready"
    if phase == "Pending":
        return "starting" if found["spec"].get("nodeName") else "pending"
    return str(status.get("reason") or phase).lower()
