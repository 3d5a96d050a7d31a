"""Read the state of a set and its groups from pods, StatefulSets and status, and wait until the set is at
rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster.pods import is_ready

Object = dict[str, Any]


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return dict(obj["metadata"].get("labels") or {})


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return dict(obj["metadata"].get("annotations") or {})


def name_of(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def names_of(objects: Iterable[Mapping[str, Any]]) -> set[str]:
    return {name_of(obj) for obj in objects}


def controller_of(obj: Mapping[str, Any]) -> Object:
    """Return the controller reference of an object; empty without one."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((dict(reference) for reference in references if reference.get("controller")), {})


def is_leader(pod: Mapping[str, Any]) -> bool:
    return labels_of(pod).get(WORKER_INDEX_LABEL) == "0"


def pods_of(world: World, name: str) -> list[Object]:
    return world.list("Pod", f"{NAME_LABEL}={name}")


def leaders_of(world: World, name: str) -> list[Object]:
    return [pod for pod in pods_of(world, name) if is_leader(pod)]


def pod_uids(world: World, name: str) -> dict[str, str]:
    """Return pod name → UID for a set."""
    return {name_of(pod): pod["metadata"]["uid"] for pod in pods_of(world, name)}


def uids_of_group(world: World, name: str, index: int) -> dict[str, str]:
    """Return pod name → UID for one group."""
    pods = world.list("Pod", f"{NAME_LABEL}={name},{GROUP_INDEX_LABEL}={index}")
    return {name_of(pod): pod["metadata"]["uid"] for pod in pods}


def images_of(world: World, name: str) -> dict[int, set[str]]:
    """Return group index → images of its pods."""
    images: dict[int, set[str]] = {}
    for pod in pods_of(world, name):
        index = int(labels_of(pod)[GROUP_INDEX_LABEL])
        images.setdefault(index, set()).update(container["image"] for container in pod["spec"]["containers"])
    return images


def keys_of(world: World, name: str) -> dict[int, set[str]]:
    """Return group index → revision keys of its pods."""
    keys: dict[int, set[str]] = {}
    for pod in pods_of(world, name):
        keys.setdefault(int(labels_of(pod)[GROUP_INDEX_LABEL]), set()).add(labels_of(pod)[REVISION_LABEL])
    return keys


def revisions_of(world: World, name: str) -> list[Object]:
    """Return the ControllerRevisions of the set, oldest first, without revisions of its StatefulSets, which
    have the same labels.
    """
    revisions = world.list("ControllerRevision", f"{NAME_LABEL}={name}")
    return sorted(
        (revision for revision in revisions if controller_of(revision).get("kind") in (SET, None)),
        key=lambda revision: int(revision["revision"]),
    )


def condition(lws: Mapping[str, Any], kind: str) -> Object:
    """Return the condition of this type; empty if the set does not have it."""
    conditions = (lws.get("status") or {}).get("conditions") or ()
    return next((dict(entry) for entry in conditions if entry["type"] == kind), {})


def unsettled(world: World, name: str, updated: int | None = None) -> str:
    """Explain why the set is not at rest; empty if it is.

    updated: the number of groups on the newest revision; None for all.
    """
    lws = world.get(SET, name)
    replicas, size = lws["spec"]["replicas"], lws["spec"]["leaderWorkerTemplate"]["size"]
    status, generation = lws.get("status") or {}, lws["metadata"]["generation"]
    expected_status = {
        "observedGeneration": generation,
        "replicas": replicas,
        "readyReplicas": replicas,
        "updatedReplicas": replicas if updated is None else updated,
    }
    for field, value in expected_status.items():
        if status.get(field, 0) != value:
            return f"status.{field} is {status.get(field, 0)}, expected {value}"
    available = condition(lws, "Available")
    if (available.get("status"), available.get("observedGeneration")) != ("True", generation):
        return f"condition Available is {available}"
    pods = pods_of(world, name)
    expected = sum(int(annotations_of(pod)[SIZE_ANNOTATION]) for pod in pods if is_leader(pod))
    leaders = sum(map(is_leader, pods))
    ready = sum(map(is_ready, pods))
    if (leaders, len(pods), ready) != (replicas, expected, expected):
        return f"{leaders} of {replicas} leaders; {len(pods)} pods, {ready} ready, expected {expected}"
    if updated is None and any(annotations_of(pod)[SIZE_ANNOTATION] != str(size) for pod in pods):
        return f"not all pods belong to groups of {size}"
    return ""


def settle(world: World, *names: str, updated: int | None = None, seconds: float = 180.0) -> None:
    """Wait until the sets are at rest: every group is complete, ready and, by default, up to date."""

    def see() -> str:
        return "; ".join(f"{name}: {why}" for name in names if (why := unsettled(world, name, updated)))

    eventually(f"{', '.join(names)} at rest", see, lambda why: not why, seconds)
