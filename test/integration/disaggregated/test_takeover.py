"""DisaggregatedSets in the states that upstream leaves are taken over without a needless change.

All of them are created first, while the test holds the Lease; then the Lease is handed over once.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from lws_api.disaggregatedset.v1 import KIND, NAME_LABEL, SCALER_KIND
from test.harness.audit import AuditLog, Request
from test.harness.disaggregated.standing import SECONDS, counts, keys_of, settle, status_of
from test.harness.disaggregated.watching import Watch
from test.harness.groups import name_of
from test.harness.product import Product
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World, a_namespace
from test.integration.disaggregated.upstream import UpstreamController
from test.integration.takeover.lease import lease_held_by_upstream
from test.unit.stories.test_disaggregated_takeover import (
    DRIFTED,
    EXAMPLES,
    SettledSet,
    store_in_rollout,
)
from tools.localcluster import Api, LocalCluster

pytestmark = pytest.mark.local_only

NAME = "demo"
QUIET_SECONDS = 5.0
PLAYERS = 6
# test/unit/stories/test_disaggregated_takeover.py tests the other states.
RESTS = {
    "legacy": SettledSet("v0.9.0"),
    "drifted": SettledSet("v0.10.0", key=DRIFTED),
    "stopped": SettledSet("reference", counts=(0, 0), has_served=False),
    "slices": SettledSet("reference", slices=3),
    "external": SettledSet("reference", external=True),
    "external-slices": SettledSet("v0.10.0", slices=3, external=True, key=DRIFTED),
}
ROLLING = {"rolling-1": ("v0.9.0", 1), "rolling-4": ("v0.10.0", 4), "rolling-6": ("reference", 6)}
"""For each state, the release that left it, and the step of the first example."""


@dataclass(frozen=True)
class Takeover:
    """One state.

    before, after: versions of objects that must not change. written: the manager's writes.
    """

    world: World
    watch: Watch
    before: dict[str, str]
    after: dict[str, str]
    written: list[Request]


def versions(world: World) -> dict[str, str]:
    """Return the versions of children, Services and scalers, and the identities of pods."""
    objects = {
        f"{kind} {name_of(obj)}": obj["metadata"]["resourceVersion"]
        for kind in (SET, "Service", SCALER_KIND)
        for obj in world.list(kind, NAME_LABEL)
    }
    pods = {f"Pod {name_of(pod)}": pod["metadata"]["uid"] for pod in world.list("Pod", NAME_LABEL)}
    return {**objects, **pods}


@pytest.fixture(scope="module")
def takeovers(local_cluster: LocalCluster, api: Api, product: Product) -> Iterator[dict[str, Takeover]]:
    audit = AuditLog(local_cluster.audit_log)
    with ExitStack() as stack, ThreadPoolExecutor(PLAYERS) as players:
        worlds = {
            name: stack.enter_context(a_namespace(local_cluster, f"t-taken-{name}"))
            for name in (*RESTS, *ROLLING)
        }
        controllers = {name: UpstreamController(world) for name, world in worlds.items()}
        for name, state in RESTS.items():
            state.store(controllers[name])
        for name, (version, at) in ROLLING.items():
            store_in_rollout(controllers[name], version, EXAMPLES[0], at)
        list(players.map(UpstreamController.bring_up, controllers.values()))
        with lease_held_by_upstream(api, product):
            list(players.map(UpstreamController.control, controllers.values()))
            watches = {name: Watch(world) for name, world in worlds.items()}
            before = {name: versions(world) for name, world in worlds.items()}
            audit.mark()
        for name in RESTS:
            eventually(f"{name} is taken over", lambda name=name: has_history(worlds[name]), seconds=SECONDS)
        resting = [worlds[name] for name in RESTS]
        stays("no object changes any more", lambda: [versions(world) for world in resting], QUIET_SECONDS)
        writes = [request for request in audit.requests() if request.is_write]
        yield {
            name: Takeover(
                world,
                watches[name],
                before[name],
                versions(world),
                [request for request in writes if request.namespace == world.namespace],
            )
            for name, world in worlds.items()
        }


def has_history(world: World) -> bool:
    return bool(status_of(world, NAME).get("updateRevision"))


@pytest.mark.parametrize("name", RESTS)
def test_a_settled_set_is_recorded_and_left_alone(takeovers: dict[str, Takeover], name: str) -> None:
    takeover = takeovers[name]
    assert takeover.after == takeover.before
    written = sorted(request.resource for request in takeover.written if request.resource != "events")
    assert written == ["controllerrevisions", "disaggregatedsets/status"], list(map(str, takeover.written))
    settle(takeover.world, NAME)
    takeover.watch.judge(NAME)


@pytest.mark.parametrize("name", ROLLING)
def test_a_rollout_continues_with_the_next_step(takeovers: dict[str, Takeover], name: str) -> None:
    takeover = takeovers[name]
    settle(takeover.world, NAME)
    _, at = ROLLING[name]
    old, new = keys_of(takeover.world, NAME)
    assert rows(takeover.watch, old, new) == EXAMPLES[0].rows[at:]
    takeover.watch.judge(NAME)


def rows(watch: Watch, old: str, new: str) -> list[Any]:
    """Return the counts of both revisions, without states between two writes of one step."""
    result: list[Any] = []
    for step in watch.steps(NAME):
        by_key = {
            key: {
                child.role_key[1]: child.desired for child in step.after.children.values() if child.key == key
            }
            for key in (old, new)
        }
        row = tuple(tuple(by_key[key].get(role, 0) for role in ("prefill", "decode")) for key in (old, new))
        if row not in result:
            result.append(row)
    expected = EXAMPLES[0].rows
    return [entry for entry in result if entry in expected]


def test_legacy_children_are_replaced_when_slices_are_added(takeovers: dict[str, Takeover]) -> None:
    takeover = takeovers["legacy"]
    (key,) = keys_of(takeover.world, NAME)
    takeover.world.patch(KIND, NAME, {"spec": {"slices": 3}})
    settle(takeover.world, NAME)
    of_slice = {key: {"prefill": 2, "decode": 3}}
    assert counts(takeover.world, NAME) == {0: of_slice, 1: of_slice, 2: of_slice}
    legacy = {f"{NAME}-{key}-prefill", f"{NAME}-{key}-decode"}
    assert not legacy & {name_of(lws) for lws in takeover.world.list(SET)}
    takeover.world.patch(KIND, NAME, {"spec": {"slices": 1}})
    settle(takeover.world, NAME)
    assert counts(takeover.world, NAME) == {0: of_slice}
    takeover.watch.judge(NAME, lost=legacy)
