"""A rollout keeps every guarantee when an object of a DisaggregatedSet is deleted at each of its steps.

There is one rollout for each kind of loss, all at the same time. All of them end at the newest revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import (
    INITIAL_REPLICAS_ANNOTATION,
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    SCALER_KIND,
)
from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.disaggregated.standing import (
    OWN_REVISIONS,
    SECONDS,
    Counts,
    children_of,
    images_of,
    keys_of,
    settle,
)
from test.harness.disaggregated.watching import Watch
from test.harness.groups import name_of, names_of
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster import ApiError

Object = dict[str, Any]

PREFILL, DECODE = 3, 2
MOST_LOSSES = 20
LEAST_OF_WHAT_IS_ALWAYS_THERE = 6
LEAST_LOSSES = {
    **dict.fromkeys(("new-prefill", "new-decode"), 4),
    **dict.fromkeys(("old-prefill", "old-decode"), 3),
    **dict.fromkeys(("new-service", "old-service"), 5),
}
"""The minimum number of steps at which each is lost.

A lost child is missing at the next step or two, and Services are created late and deleted early. A rollout
pauses at six states at least: before it begins, and each time it waits for new groups.
"""
NOT_FOUND = 404
OLD, NEW = 0, -1
"""Indices of the recorded revisions, oldest first."""


@dataclass
class Rollout:
    """One set, its rollout and its losses.

    keys: of the old and of the new revision. children: names of deleted LeaderWorkerSets. losses: the counts
    of groups at which something was lost.
    """

    world: World
    watch: Watch
    name: str
    keys: tuple[str, str] = ("", "")
    children: set[str] = field(default_factory=set)
    losses: list[Counts] = field(default_factory=list)


Loss = Callable[[Rollout], None]


def child(which: int, role: str) -> Loss:
    def lose(rollout: Rollout) -> None:
        name = f"{rollout.name}-0-{rollout.keys[which]}-{role}"
        rollout.children.add(name)
        rollout.world.delete(SET, name)

    return lose


def service(which: int, role: str) -> Loss:
    return lambda rollout: rollout.world.delete(
        "Service", f"{rollout.name}-0-{rollout.keys[which]}-{role}-prv"
    )


def scaler(rollout: Rollout) -> None:
    rollout.world.delete(SCALER_KIND, f"{rollout.name}-prefill")


def revision(which: int) -> Loss:
    return lambda rollout: _delete_all(
        rollout,
        "ControllerRevision",
        f"{OWN_REVISIONS.format(rollout.name)},{REVISION_LABEL}={rollout.keys[which]}",
    )


def _delete_all(rollout: Rollout, kind: str, selector: str) -> None:
    for obj in rollout.world.list(kind, selector):
        rollout.world.delete(kind, name_of(obj))


def annotations(rollout: Rollout) -> None:
    for lws in children_of(rollout.world, rollout.name):
        rollout.world.patch(
            SET, name_of(lws), {"metadata": {"annotations": {INITIAL_REPLICAS_ANNOTATION: None}}}
        )


def status(*fields: str) -> Loss:
    """Return a loss of these fields of the status, or of all fields."""

    def lose(rollout: Rollout) -> None:
        current = rollout.world.get(KIND, rollout.name).get("status") or {}
        path = f"{rollout.world.path(KIND, rollout.name)}/status"
        rollout.world.api.merge(path, {"status": dict.fromkeys(fields or current)})

    return lose


def memory(rollout: Rollout) -> None:
    """Lose all records at once."""
    annotations(rollout)
    status()(rollout)


LOSSES: dict[str, Loss] = {
    "new-prefill": child(NEW, "prefill"),
    "new-decode": child(NEW, "decode"),
    "old-prefill": child(OLD, "prefill"),
    "old-decode": child(OLD, "decode"),
    "new-service": service(NEW, "prefill"),
    "old-service": service(OLD, "decode"),
    "scaler": scaler,
    "new-revision": revision(NEW),
    "old-revision": revision(OLD),
    "annotations": annotations,
    "status": status(),
    "rollouts": status("rollouts", "currentRevision"),
    "memory": memory,
}
EXTERNAL = {"scaler"}


def manifest(name: str, image: str) -> Object:
    prefill = None if name in EXTERNAL else PREFILL
    return a_disaggregated_set(name, roles(prefill, DECODE, image))


@pytest.fixture(scope="module")
def rolled(shared_world: World) -> Iterator[dict[str, Rollout]]:
    """Run every rollout to its end."""
    world = shared_world
    watch = Watch(world)
    for name in LOSSES:
        world.create(manifest(name, "server:1"))
    for name in EXTERNAL:
        scale(world, name)
    settle(world, *LOSSES)
    with ThreadPoolExecutor(len(LOSSES)) as players:
        yield dict(zip(LOSSES, players.map(lambda name: roll(world, watch, name), LOSSES), strict=True))


def scale(world: World, name: str) -> None:
    """Scale as an autoscaler does."""
    path = f"{world.path(SCALER_KIND, f'{name}-prefill')}/scale"
    eventually("the scaler exists", lambda: world.find(SCALER_KIND, f"{name}-prefill"))
    world.api.merge(path, {"spec": {"replicas": PREFILL}})


def roll(world: World, watch: Watch, name: str) -> Rollout:
    """Roll out another image, with a loss at each step, until all is settled."""
    rollout = Rollout(world, watch, name)
    (old,) = watch.counts(name)[0]
    world.patch(KIND, name, new_roles(manifest(name, "server:2")["spec"]["roles"]))
    _, new = eventually(
        "both revisions are recorded", lambda: keys_of(world, name), lambda keys: len(keys) == 2
    )
    rollout.keys = old, new
    seen: list[Counts] = []
    eventually(f"{name} is rolled out", lambda: lose_at_each_step(rollout, seen), bool, SECONDS)
    settle(world, name)
    return rollout


def lose_at_each_step(rollout: Rollout, seen: list[Counts]) -> bool:
    """Cause a loss at new counts, and report whether nothing of the old revision is left.

    seen: the counts at which a loss has happened.
    """
    now = rollout.watch.counts(rollout.name)
    if now not in seen and len(seen) < MOST_LOSSES:
        seen.append(now)
        try:
            LOSSES[rollout.name](rollout)
            rollout.losses.append(now)
        except ApiError as refusal:
            if refusal.status != NOT_FOUND:
                raise
    return rollout.keys[OLD] not in now[0]


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_at_each_step_of_a_rollout_violates_no_guarantee(
    rolled: dict[str, Rollout], name: str
) -> None:
    rollout = rolled[name]
    assert len(rollout.losses) >= LEAST_LOSSES.get(name, LEAST_OF_WHAT_IS_ALWAYS_THERE), rollout.losses
    revisions = rollout.keys if name.endswith("revision") else ()
    rollout.watch.judge(name, {*rollout.children, *revisions})
    assert images_of(rollout.world, name) == {"prefill": {"server:2"}, "decode": {"server:2"}}
    assert rollout.watch.counts(name) == {0: {rollout.keys[NEW]: {"prefill": PREFILL, "decode": DECODE}}}
    services = names_of(rollout.world.list("Service", f"{NAME_LABEL}={name}"))
    assert services >= {f"{name}-0-{rollout.keys[NEW]}-{role}-prv" for role in ("prefill", "decode")}
    assert keys_of(rollout.world, name)[-1] == rollout.keys[NEW]
