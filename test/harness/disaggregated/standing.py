"""Read the state of a DisaggregatedSet from its objects, and wait until the set is at rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, REVISION_LABEL, ROLE_LABEL, SCALER_KIND, SLICE_LABEL
from test.harness.groups import condition, labels_of, name_of
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster.pods import is_ready

Object = dict[str, Any]
Counts = dict[int, dict[str, dict[str, int]]]
"""Slice → revision key → role → number of groups."""

# Selects revisions of DisaggregatedSets only: revisions of StatefulSets carry the labels of their pods.
OWN_REVISIONS = f"{NAME_LABEL}={{}},!leaderworkerset.sigs.k8s.io/name"
SECONDS = 240.0


def children_of(world: World, name: str) -> list[Object]:
    """Return the LeaderWorkerSets of the set."""
    return world.list(SET, f"{NAME_LABEL}={name}")


def counts_in(children: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the desired groups of LeaderWorkerSets; 0 for LeaderWorkerSets that are terminating."""
    counts: Counts = {}
    for child in children:
        labels = labels_of(child)
        of_slice = counts.setdefault(int(labels.get(SLICE_LABEL, 0)), {})
        is_terminating = "deletionTimestamp" in child["metadata"]
        desired = 0 if is_terminating else child["spec"]["replicas"]
        of_slice.setdefault(labels[REVISION_LABEL], {})[labels[ROLE_LABEL]] = desired
    return counts


def counts(world: World, name: str) -> Counts:
    return counts_in(children_of(world, name))


def keys_of(world: World, name: str) -> list[str]:
    """Return the keys of the set's recorded revisions, oldest first."""
    revisions = world.list("ControllerRevision", OWN_REVISIONS.format(name))
    revisions.sort(key=lambda revision: revision["revision"])
    return [labels_of(revision)[REVISION_LABEL] for revision in revisions]


def status_of(world: World, name: str) -> Object:
    status: Object = world.get(KIND, name).get("status") or {}
    return status


def unsettled(world: World, name: str) -> str:
    """Explain why the set is not at rest, by its status and by its objects; empty if it is."""
    obj = world.get(KIND, name)
    status, generation = obj.get("status") or {}, obj["metadata"]["generation"]
    available = condition(obj, "Available")
    if (available.get("status"), status.get("observedGeneration")) != ("True", generation):
        return f"generation {generation}: {status}"
    if status.get("currentRevision") != status.get("updateRevision"):
        return f"its status has a rollout in progress: {status}"
    slices, roles = obj["spec"].get("slices", 1), obj["spec"]["roles"]
    expected = {role["name"]: _expected(world, name, role, slices) for role in roles}
    actual = counts(world, name)
    if len(actual) != slices or any(len(by_key) != 1 for by_key in actual.values()):
        return f"not one revision in each of {slices} slices: {actual}"
    by_roles = [by_role for by_key in actual.values() for by_role in by_key.values()]
    totals = {role: sum(by_role.get(role, 0) for by_role in by_roles) for role in expected}
    if totals != expected or any(set(by_role) != set(expected) for by_role in by_roles):
        return f"{actual}, expected {expected}"
    pods = world.list("Pod", f"{NAME_LABEL}={name}")
    expected_pods = sum(
        child["spec"]["replicas"] * child["spec"]["leaderWorkerTemplate"]["size"]
        for child in children_of(world, name)
    )
    ready = sum(map(is_ready, pods))
    if (len(pods), ready) != (expected_pods, expected_pods):
        return f"{len(pods)} pods, {ready} ready, expected {expected_pods}"
    return ""


def settle(world: World, *names: str, seconds: float = SECONDS) -> None:
    """Wait until the sets are at rest, one after another."""
    for name in names:
        eventually(f"{name} at rest", partial(unsettled, world, name), lambda why: not why, seconds)


def images_of(world: World, name: str) -> dict[str, set[str]]:
    """Return role → images of its pods."""
    by_role: dict[str, set[str]] = {}
    for pod in world.list("Pod", f"{NAME_LABEL}={name}"):
        images = {container["image"] for container in pod["spec"]["containers"]}
        by_role.setdefault(labels_of(pod)[ROLE_LABEL], set()).update(images)
    return by_role


def remaining_objects(world: World, name: str) -> set[str]:
    """Return all objects that have the label of the set."""
    kinds = (SET, SCALER_KIND, "Service", "ControllerRevision", "StatefulSet", "Pod")
    return {f"{kind} {name_of(obj)}" for kind in kinds for obj in world.list(kind, f"{NAME_LABEL}={name}")}


def _expected(world: World, name: str, role: Mapping[str, Any], slices: int) -> int | None:
    """Return the expected groups of a role over all slices; None while its scaler is missing."""
    if (role.get("scaling") or {}).get("mode") != "External":
        return int(role["spec"]["replicas"]) * slices
    scaler = world.find(SCALER_KIND, f"{name}-{role['name']}")
    return None if scaler is None else int(scaler["spec"]["replicas"])
