"""How changes reach the store, and when kopf's stream of sets counts as alive."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import kopf
import pytest

from lws.leaderworkerset.tables import LEADER_WORKER_SET, TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import LEADERWORKERSETS, PODS, SERVICES, Resource, Workload
from lws.runtime.errors import Throttled, Unreachable
from lws.runtime.informer import KopfStream, Rollback, Source, informers_of
from lws.runtime.operator import register_stream
from lws.runtime.store import Store
from test.unit.builders import make_set
from test.unit.fake_time import in_fake_time, now

INTERVAL = 60.0


@dataclass
class FakeCluster:
    """A cluster that lists sets.

    listed: versions by name. page: the number of sets per page. seconds: the time for a page.
    """

    listed: dict[str, int] = field(default_factory=dict)
    version: int = 100
    page: int = 500
    seconds: float = 0.0
    errors: list[Exception] = field(default_factory=list)
    lists_at: list[float] = field(default_factory=list)

    async def list_page(
        self, resource: Resource, query: Mapping[str, str], metadata_only: bool, namespace: str
    ) -> dict[str, Any]:
        assert resource is LEADERWORKERSETS and metadata_only and not namespace
        start = int(query.get("continue", "0"))
        if start == 0:
            self.lists_at.append(now())
        await asyncio.sleep(self.seconds)
        if self.errors:
            raise self.errors.pop(0)
        items = [{"metadata": a_set(name, version)["metadata"]} for name, version in self.listed.items()]
        metadata = {"resourceVersion": str(self.version)}
        if start + self.page < len(items):
            metadata["continue"] = str(start + self.page)
        return {"metadata": metadata, "items": items[start : start + self.page]}


def a_set(name: str, version: int) -> dict[str, Any]:
    lws = make_set(name)
    lws["metadata"]["resourceVersion"] = str(version)
    return lws


@dataclass
class World:
    """A store that kopf has filled, an API server, and the stream that compares them."""

    cluster: FakeCluster
    store: Store = field(default_factory=lambda: Store(lambda before, after: None, TABLES))

    def __post_init__(self) -> None:
        self.rollback = Rollback()
        source = Source(cast(Cluster, self.cluster), self.rollback, now)
        self.stream = KopfStream(source, self.store, LEADERWORKERSETS)

    def with_stored(self, **sets: int) -> World:
        for name, version in sets.items():
            self.store.put(a_set(name, version))
        return self

    def names(self) -> set[str]:
        return {lws["metadata"]["name"] for lws in self.store.of_kind("LeaderWorkerSet")}

    async def run_for(self, seconds: float) -> None:
        task = asyncio.create_task(self.stream.run(INTERVAL))
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("listed", "stored", "agrees"),
    [
        pytest.param({}, {}, True, id="no sets"),
        pytest.param({"a": 5, "b": 7}, {"a": 5, "b": 7}, True, id="equal"),
        pytest.param({"a": 5}, {"a": 109}, True, id="the store is ahead"),
        pytest.param({"a": 5}, {"a": 4}, False, id="the store is behind"),
        pytest.param({"a": 5, "b": 7}, {"a": 5}, False, id="one set is missing"),
        pytest.param({"a": 5}, {}, False, id="no events yet"),
    ],
)
@in_fake_time
async def test_agreement_with_the_api_server(
    listed: dict[str, int], stored: dict[str, int], agrees: bool
) -> None:
    world = World(FakeCluster(listed)).with_stored(**stored)
    await world.run_for(0.01)
    assert world.stream.listed.is_set() is agrees


@in_fake_time
async def test_deleted_sets_are_dropped_and_newer_ones_are_kept() -> None:
    world = World(FakeCluster({"a": 5}, version=100)).with_stored(a=5, gone=50, new=101)
    await world.run_for(0.01)
    assert world.names() == {"a", "new"}
    assert world.stream.listed.is_set()


@in_fake_time
async def test_all_pages_of_a_list_are_compared() -> None:
    sets = {f"s{number}": number + 1 for number in range(5)}
    world = World(FakeCluster(sets, page=2)).with_stored(**sets)
    await world.run_for(0.01)
    assert world.stream.listed.is_set() and len(world.names()) == 5
    del sets["s4"]
    behind = World(FakeCluster({**sets, "s4": 9}, page=2)).with_stored(**sets)
    await behind.run_for(0.01)
    assert not behind.stream.listed.is_set()


@in_fake_time
async def test_checks_are_frequent_until_the_first_list_and_rare_afterwards() -> None:
    world = World(FakeCluster({"a": 5}))
    task = asyncio.create_task(world.stream.run(INTERVAL))
    await asyncio.sleep(1.0)
    assert not world.stream.listed.is_set()
    assert 5 <= len(world.cluster.lists_at) <= 20
    world.with_stored(a=5)
    await world.stream.listed.wait()
    before = len(world.cluster.lists_at)
    await asyncio.sleep(2.5 * INTERVAL)
    assert len(world.cluster.lists_at) == before + 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_lagging_stream_counts_as_silent() -> None:
    world = World(FakeCluster({"a": 5})).with_stored(a=5)
    task = asyncio.create_task(world.stream.run(INTERVAL))
    await asyncio.sleep(2 * INTERVAL)
    assert world.stream.seconds_silent <= INTERVAL
    world.cluster.listed["a"] = 6
    # The stream lags from the comparison on that finds it.
    await asyncio.sleep(6 * INTERVAL)
    assert world.stream.seconds_silent >= 5 * INTERVAL
    assert world.stream.listed.is_set(), "the list remains complete"
    world.with_stored(a=6)
    await asyncio.sleep(INTERVAL)
    assert world.stream.seconds_silent <= INTERVAL
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_an_unavailable_api_server_is_retried_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = World(FakeCluster({"a": 5}, errors=[Unreachable("connection refused")] * 3)).with_stored(a=5)
    await world.run_for(30.0)
    assert world.stream.listed.is_set()
    assert [record.message for record in caplog.records] == ["leaderworkersets: connection refused"] * 3
    waits = [later - earlier for earlier, later in itertools.pairwise(world.cluster.lists_at)]
    assert min(waits) >= 1.0


@in_fake_time
async def test_an_unavailable_api_server_is_not_a_dead_stream() -> None:
    world = World(FakeCluster({"a": 5}, errors=[Unreachable("connection refused")] * 5000)).with_stored(a=5)
    await world.run_for(3600.0)
    assert world.stream.seconds_silent < 20.0


@in_fake_time
async def test_retry_after_is_respected_between_comparisons() -> None:
    errors: list[Exception] = [Throttled(429, "TooManyRequests", "busy", 25.0)] * 3
    world = World(FakeCluster({"a": 5}, errors=errors)).with_stored(a=5)
    await world.run_for(100.0)
    waits = [later - earlier for earlier, later in itertools.pairwise(world.cluster.lists_at)]
    assert world.stream.listed.is_set() and waits[:3] == pytest.approx([25.0] * 3)


@in_fake_time
async def test_a_comparison_of_many_slow_pages_is_not_a_dead_stream() -> None:
    """Sets that kopf has not listed yet are missing from the first comparison, and are there in the next."""
    sets = {f"s{number}": number + 1 for number in range(100)}
    world = World(FakeCluster(sets, version=200, page=1, seconds=3.0))
    task = asyncio.create_task(world.stream.run(INTERVAL))
    silences = []
    for _ in range(65):
        await asyncio.sleep(10.0)
        silences.append(world.stream.seconds_silent)
        if len(silences) == 35:
            world.with_stored(**sets)
    assert world.stream.listed.is_set() and len(world.cluster.lists_at) == 2
    assert max(silences) < INTERVAL
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_stream_that_catches_up_slowly_is_not_a_dead_stream() -> None:
    sets = {f"s{number}": number + 1 for number in range(10)}
    world = World(FakeCluster(sets))
    task = asyncio.create_task(world.stream.run(INTERVAL))
    for name, version in sets.items():
        await asyncio.sleep(100.0)
        assert world.stream.seconds_silent <= 101.0
        world.with_stored(**{name: version})
    await world.stream.listed.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_list_older_than_the_previous_means_that_etcd_was_restored() -> None:
    world = World(FakeCluster({"a": 5}, version=100)).with_stored(a=5)
    await world.run_for(1.0)
    world.cluster.version = 60
    await world.run_for(1.0)
    assert world.rollback.is_rolled_back


@in_fake_time
async def test_an_older_set_in_a_newer_list_means_that_etcd_was_restored() -> None:
    world = World(FakeCluster({"a": 5}, version=100)).with_stored(a=101)
    await world.run_for(1.0)
    assert not world.rollback.is_rolled_back, "written after the list"
    world.cluster.version = 200
    await world.run_for(1.0)
    assert world.rollback.is_rolled_back


@in_fake_time
async def test_a_refresh_waits_until_the_store_has_what_the_api_server_lists() -> None:
    world = World(FakeCluster({"a": 5})).with_stored(a=5)
    await world.stream.refresh()
    world.cluster.listed["a"] = 6
    refreshing = asyncio.create_task(world.stream.refresh())
    await asyncio.sleep(5.0)
    assert not refreshing.done()
    world.with_stored(a=6)
    await asyncio.sleep(2.1)
    assert refreshing.done()


class Restless(FakeCluster):
    """A cluster in which another client writes every set at each list; kopf reports it a moment later."""

    async def list_page(
        self, resource: Resource, query: Mapping[str, str], metadata_only: bool, namespace: str
    ) -> dict[str, Any]:
        self.version += len(self.listed)
        for number, name in enumerate(self.listed):
            self.listed[name] = self.version - number
        page = await super().list_page(resource, query, metadata_only, namespace)
        written = {**self.listed}
        asyncio.get_running_loop().call_later(0.05, lambda: self.world.with_stored(**written))
        return page

    world: World


def restless_world() -> World:
    cluster = Restless({"a": 1, "b": 2, "c": 3})
    cluster.world = World(cluster)
    return cluster.world


@in_fake_time
async def test_the_stream_is_ready_during_constant_writes() -> None:
    restless = restless_world()
    task = asyncio.create_task(restless.stream.run(INTERVAL))
    await asyncio.sleep(1.0)
    assert restless.stream.listed.is_set()
    for _ in range(20):
        await asyncio.sleep(INTERVAL / 2)
        assert restless.stream.seconds_silent < 2 * INTERVAL
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_fake_time
async def test_a_refresh_ends_during_constant_writes() -> None:
    restless = restless_world()
    await asyncio.wait_for(restless.stream.refresh(), 1.0)
    assert restless.names() == {"a", "b", "c"}


@in_fake_time
async def test_a_set_deleted_before_its_event_is_not_waited_for() -> None:
    world = World(FakeCluster({"a": 5, "gone": 6})).with_stored(a=5)
    refreshing = asyncio.create_task(world.stream.refresh())
    await asyncio.sleep(1.0)
    assert not refreshing.done()
    del world.cluster.listed["gone"]
    # Newer than the awaited set: a set that is created meanwhile is not awaited either.
    world.cluster.listed["new"] = 90
    await asyncio.wait_for(refreshing, 3.0)


# --- Who puts what into the store ---------------------------------------------------------------------------


def handler_of(store: Store) -> Callable[..., Any]:
    registry = kopf.OperatorRegistry()
    register_stream(registry, store, LEADERWORKERSETS)
    (handler,) = registry._watching.get_all_handlers()
    return cast("Callable[..., Any]", handler.fn)


async def test_events_of_kopf_are_stored() -> None:
    store = Store(lambda before, after: None, TABLES)
    take = handler_of(store)
    # Events of an initial list have no type.
    await take(event={"type": None, "object": a_set("a", 5)}, other="ignored")
    await take(event={"type": "ADDED", "object": a_set("b", 6)})
    await take(event={"type": "MODIFIED", "object": a_set("a", 7)})
    versions = {
        lws["metadata"]["name"]: lws["metadata"]["resourceVersion"]
        for lws in store.of_kind("LeaderWorkerSet")
    }
    assert versions == {"a": "7", "b": "6"}
    await take(event={"type": "DELETED", "object": a_set("a", 8)})
    assert [lws["metadata"]["name"] for lws in store.of_kind("LeaderWorkerSet")] == ["b"]


async def test_kopf_watches_only_sets_and_never_writes() -> None:
    registry = kopf.OperatorRegistry()
    register_stream(registry, Store(lambda before, after: None, TABLES), LEADERWORKERSETS)
    (handler,) = registry._watching.get_all_handlers()
    selector = handler.selector
    assert selector is not None
    assert (selector.group, selector.version, selector.any_name) == (
        "leaderworkerset.x-k8s.io",
        "v1",
        "leaderworkersets",
    )
    for others in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert list(others.get_all_handlers()) == []


async def test_streams_of_children_are_narrowed_by_the_server() -> None:
    source, store = Source(cast(Cluster, object())), Store(lambda before, after: None, TABLES)
    informers = informers_of(source, store, [LEADER_WORKER_SET])
    assert list(informers) == [
        "statefulsets",
        "deployments",
        "replicasets",
        "pods",
        "services",
        "controllerrevisions",
        "persistentvolumeclaims",
        "poddisruptionbudgets",
        "jobs",
    ]
    for name, informer in informers.items():
        assert informer.resource.plural == name
        assert informer._query["labelSelector"] == "leaderworkerset.sigs.k8s.io/name"


async def test_a_kind_of_two_workloads_has_a_stream_for_each_label() -> None:
    first = Workload(Resource("example.com/v1", "One", "ones"), "example.com/one", (SERVICES, PODS))
    # Children of the second kind are workloads themselves, and come from kopf.
    second = Workload(
        Resource("example.com/v1", "Two", "twos"), "example.com/two", (SERVICES, first.resource)
    )
    source, store = Source(cast(Cluster, object())), Store(lambda before, after: None, TABLES)
    informers = informers_of(source, store, [first, second])
    assert {
        name: (informer._query["labelSelector"], informer._other_labels)
        for name, informer in informers.items()
    } == {
        "services": ("example.com/one", {"example.com/two"}),
        "services with example.com/two": ("example.com/two", {"example.com/one"}),
        "pods": ("example.com/one", set()),
    }
