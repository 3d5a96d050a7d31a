"""How does a DisaggregatedSet stand, by what is really there?

In: a namespace and the name of a set. Out: counts by slice, revision and role, and whether it is at rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from lws_api.disaggregatedset.v1 import (
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCALER_KIND,
    SLICE_LABEL,
)
from test.harness.groups import condition, labels_of, name_of
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster.pods import is_ready

Object = dict[str, Any]
Counts = dict[int, dict[str, dict[str, int]]]
"""Slice → revision key → role → groups."""

# Of revisions of DisaggregatedSets: those of StatefulSets carry the labels of their pods.
OWN_REVISIONS = f"{NAME_LABEL}={{}},!leaderworkerset.sigs.k8s.io/name"
SECONDS = 240.0


def children_of(world: World, name: str) -> list[Object]:
    """Its LeaderWorkerSets."""
    return world.list(SET, f"{NAME_LABEL}={name}")


def counts_in(children: Iterable[Mapping[str, Any]]) -> Counts:
    """What LeaderWorkerSets want; those that are being deleted want nothing."""
    found: Counts = {}
    for each in children:
        labels = labels_of(each)
        of_slice = found.setdefault(int(labels.get(SLICE_LABEL, 0)), {})
        gone = "deletionTimestamp" in each["metadata"]
        wanted = 0 if gone else each["spec"]["replicas"]
        of_slice.setdefault(labels[REVISION_LABEL], {})[labels[ROLE_LABEL]] = wanted
    return found


def counts(world: World, name: str) -> Counts:
    return counts_in(children_of(world, name))


def keys_of(world: World, name: str) -> list[str]:
    """The keys of its recorded revisions, oldest first."""
    found = world.list("ControllerRevision", OWN_REVISIONS.format(name))
    return [labels_of(each)[REVISION_LABEL] for each in sorted(found, key=lambda each: each["revision"])]


def status_of(world: World, name: str) -> Object:
    found: Object = world.get(KIND, name).get("status") or {}
    return found


def unsettled(world: World, name: str) -> str:
    """Why the set is not at rest; empty if it is: it says so, and it is so."""
    obj = world.get(KIND, name)
    status, generation = obj.get("status") or {}, obj["metadata"]["generation"]
    available = condition(obj, "Available")
    if (available.get("status"), status.get("observedGeneration")) != ("True", generation):
        return f"generation {generation}: {status}"
    if status.get("currentRevision") != status.get("updateRevision"):
        return f"it says that a rollout goes on: {status}"
    slices, roles = obj["spec"].get("slices", 1), obj["spec"]["roles"]
    wanted = {role["name"]: _wanted(world, name, role, slices) for role in roles}
    standing = counts(world, name)
    if len(standing) != slices or any(len(of_slice) != 1 for of_slice in standing.values()):
        return f"not one revision in each of {slices} slices: {standing}"
    there = {
        role: sum(of.get(role, 0) for by_key in standing.values() for of in by_key.values())
        for role in wanted
    }
    if there != wanted or any(set(of) != set(wanted) for each in standing.values() for of in each.values()):
        return f"{standing}, wanted are {wanted}"
    pods = world.list("Pod", f"{NAME_LABEL}={name}")
    expected = sum(
        each["spec"]["replicas"] * each["spec"]["leaderWorkerTemplate"]["size"]
        for each in children_of(world, name)
    )
    ready = sum(map(is_ready, pods))
    if (len(pods), ready) != (expected, expected):
        return f"{len(pods)} pods, {ready} ready, expected {expected}"
    return ""


def settle(world: World, *names: str, seconds: float = SECONDS) -> None:
    """Wait until the sets are at rest, one after the other."""
    for name in names:
        eventually(f"{name} at rest", partial(unsettled, world, name), lambda why: not why, seconds)


def images_of(world: World, name: str) -> dict[str, set[str]]:
    """Role → images of its pods."""
    found: dict[str, set[str]] = {}
    for pod in world.list("Pod", f"{NAME_LABEL}={name}"):
        images = {each["image"] for each in pod["spec"]["containers"]}
        found.setdefault(labels_of(pod)[ROLE_LABEL], set()).update(images)
    return found


def left_of(world: World, name: str) -> set[str]:
    """What carries the label of the set."""
    kinds = (SET, SCALER_KIND, "Service", "ControllerRevision", "StatefulSet", "Pod")
    return {f"{kind} {name_of(each)}" for kind in kinds for each in world.list(kind, f"{NAME_LABEL}={name}")}


def _wanted(world: World, name: str, role: Mapping[str, Any], slices: int) -> int | None:
    """Over all slices."""
    if (role.get("scaling") or {}).get("mode") != "External":
        return int(role["spec"]["replicas"]) * slices
    scaler = world.find(SCALER_KIND, f"{name}-{role['name']}")
    return None if scaler is None else int(scaler["spec"]["replicas"])
