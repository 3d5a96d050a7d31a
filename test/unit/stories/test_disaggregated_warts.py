"""Tests of weaknesses of upstream that show only over the life of a DisaggregatedSet."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.slices.state import counts_of, newest_first
from lws.runtime.actions import Reference
from lws.runtime.errors import Forbidden
from lws_api.disaggregatedset.v1 import KIND
from test.unit.disaggregated import make_disaggregated, make_facts
from test.unit.stories.disaggregated_world import CHILD, World
from test.unit.stories.upstream_sets import UpstreamSet, role, upstream_key

NAMES = ("prefill", "decode")
TESTS = Path(__file__).parents[2]
OURS = "disaggregatedset"
"""The kind of the passes over DisaggregatedSets."""


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    yield World(loop)
    loop.close()


def roles(image: str, replicas: int = 2) -> list[dict[str, Any]]:
    return [role(name, replicas, image) for name in NAMES]


def upstream_at_rest(world: World, version: str) -> UpstreamSet:
    """Return what a release of upstream creates from `roles("nginx:1")`, with all groups ready."""
    upstream = UpstreamSet(world.cluster, version, roles("nginx:1"))
    for role_spec in upstream.obj["spec"]["roles"]:
        upstream.child(upstream.key, role_spec, 2)
        upstream.service(upstream.key, role_spec)
    world.settle()
    return upstream


def roll(world: World, image: str) -> None:
    world.edit(lambda spec: spec.update(roles=UpstreamSet.completed(roles(image))))


def until(world: World, reached: Any) -> None:
    """Play single moves until `reached` returns true. Before each, delayed passes run."""
    for _ in range(400):
        if reached():
            return
        world.manager.ring()
        world.go_on()
    raise AssertionError("it never comes to that")


def test_wart_10_a_rollback_to_children_named_without_slices_completes(world: World) -> None:
    """Upstream waits forever for `demo-0-KEY-prefill` while `demo-KEY-prefill` runs."""
    upstream = upstream_at_rest(world, "v0.9.0")
    names = {child["metadata"]["name"] for child in world.children}
    assert names == {f"demo-{upstream.key}-{name}" for name in NAMES}
    roll(world, "nginx:2")
    until(
        world,
        lambda: len(world.counts()) == 2 and world.counts()[upstream.key] != {"prefill": 2, "decode": 2},
    )
    roll(world, "nginx:1")
    world.settle()
    assert world.counts() == {upstream.key: {"prefill": 2, "decode": 2}}
    assert names == {child["metadata"]["name"] for child in world.children}
    assert world.conditions["Available"] == "True"


def test_wart_20_children_of_the_same_age_have_a_stable_order() -> None:
    owner = make_disaggregated()
    children = [
        make_facts(owner, Identity(0, key, name, is_legacy), 1 if is_legacy else 2)
        for key, is_legacy in (("aaaaaaaa", False), ("bbbbbbbb", False), ("bbbbbbbb", True))
        for name in NAMES
    ]
    assert len({child.obj["metadata"].get("creationTimestamp") for child in children}) == 1
    orders = {tuple(newest_first(order, ())) for order in permutations(children)}
    assert orders == {("bbbbbbbb", "aaaaaaaa")}
    of_key = [child for child in children if child.key == "bbbbbbbb"]
    desired = {
        tuple((name, counts_of(order, "cccccccc", None)[name].desired) for name in NAMES)
        for order in permutations(of_key)
    }
    assert len(desired) == 1


def test_wart_27_the_status_shows_a_rollout_by_slice_revision_and_role(world: World) -> None:
    """Upstream's status says RolloutInProgress, with sums that hide which revision serves."""
    upstream = upstream_at_rest(world, "reference")
    first = world.status["updateRevision"]
    roll(world, "nginx:2")
    new = upstream_key(world.get(KIND)["spec"]["roles"])
    until(world, lambda: len(world.status["sliceStatuses"][0]["revisions"]) == 2)
    assert world.status["currentRevision"] == first
    assert world.status["updateRevision"].startswith(f"demo-{new}-")
    (of_slice,) = world.status["sliceStatuses"]
    assert [revision["revision"] for revision in of_slice["revisions"]] == [new, upstream.key]
    assert {of_role["name"] for of_role in of_slice["revisions"][1]["roles"]} == set(NAMES)


def test_wart_32_a_rollout_waits_for_groups_and_not_for_a_timer(world: World) -> None:
    """Upstream polls once a second. Here changes of the groups start the next pass."""
    upstream_at_rest(world, "reference")
    began = world.cluster.now
    roll(world, "nginx:2")
    world.settle()
    assert world.conditions["Available"] == "True" and len(world.counts()) == 1
    assert world.cluster.now == began


def test_wart_33_a_concurrent_spec_edit_causes_no_retry_of_the_status_write(world: World) -> None:
    """Upstream updates the whole object that it has read, which the API server rejects after a change."""
    upstream_at_rest(world, "reference")
    written = []
    merge = world.cluster.merge

    async def record(target: Reference, patch: Any, subresource: str = "") -> Any:
        if target.kind == KIND:
            written.append((subresource, set(patch), set(patch.get("metadata", {}))))
            if len(written) == 1:
                world.edit(lambda spec: spec["roles"][0]["spec"].update(replicas=3))
        return await merge(target, patch, subresource)

    world.cluster.merge = record  # type: ignore[method-assign]
    world.edit(lambda spec: spec["roles"][1]["spec"].update(replicas=3))
    world.settle()
    assert written and {write[0] for write in written} == {"status"}
    for _, fields, of_metadata in written:
        assert fields <= {"status", "metadata"} and "resourceVersion" not in of_metadata
    assert {child["spec"]["replicas"] for child in world.cluster.of_kind(CHILD)} == {3}
    assert world.conditions["Available"] == "True"


def test_wart_40_groups_of_a_removed_role_are_reported_until_the_last_is_deleted(world: World) -> None:
    """As with upstream, one group stays until the rollout ends. Unlike upstream, the status shows it."""
    upstream = UpstreamSet(world.cluster, "reference", [*roles("nginx:1", 4), role("router", 2, "nginx:1")])
    for role_spec in upstream.obj["spec"]["roles"]:
        upstream.child(upstream.key, role_spec, role_spec["spec"]["replicas"])
    world.settle()
    world.edit(lambda spec: spec["roles"].pop())
    reported: list[int] = []

    def is_removed_from_status() -> bool:
        revisions = world.status["sliceStatuses"][0]["revisions"]
        of_role = [
            entry for revision in revisions for entry in revision["roles"] if entry["name"] == "router"
        ]
        reported.extend(entry.get("replicas", 0) for entry in of_role)
        return not of_role

    until(world, is_removed_from_status)
    assert list(dict.fromkeys(reported)) in ([2, 1], [2, 1, 0])
    world.settle()
    assert set(world.counts()) == {upstream_key(world.get(KIND)["spec"]["roles"])}


def test_wart_30_a_failed_creation_is_reported(world: World) -> None:
    """Upstream only logs the failure."""
    create, refused = world.cluster.create, []

    async def refuse_once(obj: Any) -> Any:
        if obj["kind"] == CHILD and not refused:
            refused.append(obj["metadata"]["name"])
            raise Forbidden(403, "Forbidden", "exceeded quota: sets")
        return await create(obj)

    world.cluster.create = refuse_once  # type: ignore[method-assign]
    world.cluster.add(make_disaggregated())
    world.settle()
    events = [event for event in world.manager.recorder.announced if event.reason == "FailedCreate"]
    assert [event.regarding.kind for event in events] == [KIND]
    assert f"Failed to create LeaderWorkerSet {refused[0]}" in events[0].note
    while world.manager.ring():
        world.settle()
    assert world.conditions["Available"] == "True" and len(world.children) == 2


def test_each_wart_is_named_by_a_test_that_upstream_would_fail() -> None:
    """The list of warts in the specification has 43 entries."""
    numbers = re.compile(r"[Ww]arts?[ _](\d+)(?:(?:,| and) (\d+))*")
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    named = {
        int(number) for text in sources for match in numbers.finditer(text) for number in match.groups("0")
    }
    assert set(range(1, 44)) - named == set()
