"""Tests of lws.leaderworkerset.observe.gangs: PodGroups are created as long as the API server serves them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from lws.leaderworkerset.group.gangs import PROVIDERS
from lws.leaderworkerset.observe import gangs
from lws.leaderworkerset.observe.gangs import Gangs
from lws.leaderworkerset.scheduling import Scheduled
from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import Forbidden, Throttled, Unreachable
from lws.runtime.informer import Source
from lws.runtime.store import Store
from test.unit.fake_time import in_fake_time

VOLCANO = "scheduling.volcano.sh/v1beta1"
NATIVE = "scheduling.k8s.io/"


class FakeCluster:
    """An API server that serves PodGroups in these versions. Its streams deliver nothing after the list."""

    def __init__(self, *versions: str) -> None:
        self.versions = set(versions)
        self.learned: list[str] = []
        self.is_reachable = True
        self.may_list = True
        self.is_overloaded = False
        self.lists = 0

    async def exists(self, path: str) -> bool:
        if not self.is_reachable:
            raise Unreachable("connection refused")
        return path in {f"/apis/{version}/podgroups?limit=1" for version in self.versions}

    def learn(self, *resources: Any) -> None:
        self.learned += [resource.api_version for resource in resources]

    async def list_page(self, resource: Any, query: Any) -> dict[str, Any]:
        self.lists += 1
        if not self.may_list:
            raise Forbidden(403, "Forbidden", "may not list", None)
        if self.is_overloaded:
            raise Throttled(429, "TooManyRequests", "busy", 5.0)
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    def watch(self, *_: Any) -> FakeCluster:
        return self

    async def __aenter__(self) -> Any:
        await asyncio.Event().wait()

    async def __aexit__(self, *_: Any) -> None:
        raise AssertionError("never reached")


class Scene:
    """A running `Gangs` with its store."""

    def __init__(self, provider: str, cluster: FakeCluster, has_workloads: bool = False) -> None:
        self.store = store = Store(lambda before, after: None, TABLES)
        self.woken = 0
        source = Source(cast(Cluster, cluster), clock=asyncio.get_running_loop().time)
        self.gangs = Gangs(provider, source, store, self._wake, has_workloads)

    def _wake(self) -> None:
        self.woken += 1

    @property
    def version(self) -> str | None:
        served = self.gangs.served()
        return served.api_version if served is not None else None


@asynccontextmanager
async def running(provider: str, cluster: FakeCluster, has_workloads: bool = False) -> AsyncIterator[Scene]:
    scene = Scene(provider, cluster, has_workloads)
    task = asyncio.ensure_future(scene.gangs.run())
    try:
        await asyncio.sleep(1)
        yield scene
    finally:
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert scene.gangs.served() is None


@in_fake_time
async def test_gangs_are_served_while_their_api_is_served(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, gangs.__name__)
    cluster = FakeCluster()
    async with running("volcano", cluster) as scene:
        await asyncio.sleep(100)
        assert (scene.version, scene.woken, cluster.learned) == (None, 0, [])
        cluster.versions.add(VOLCANO)
        await asyncio.sleep(31)
        assert scene.gangs.served() == PROVIDERS["volcano"]
        assert (scene.woken, cluster.learned) == (1, [VOLCANO])
        cluster.is_reachable = False
        await asyncio.sleep(100)
        assert scene.version == VOLCANO, "an unreachable API server does not end the gang"
        cluster.is_reachable = True
        cluster.versions.clear()
        await asyncio.sleep(31)
        assert scene.version is None
        cluster.versions.add(VOLCANO)
        await asyncio.sleep(62)
        assert (scene.version, scene.woken) == (VOLCANO, 2)
    messages = list(dict.fromkeys(record.getMessage() for record in caplog.records))
    assert messages == [
        f"gang scheduling: the API server does not serve podgroups of {VOLCANO}: install volcano, or remove "
        f"gangSchedulingManagement from the configuration; checked every 30 s",
        f"gang scheduling: creating PodGroups for volcano ({VOLCANO})",
        "gang scheduling: connection refused",
        f"gang scheduling: podgroups of {VOLCANO}: no longer served, or a newer version is",
    ]
    complaints = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(complaints) == 2, "one error for each time that the API is not served"


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        (["v1alpha2"], "v1alpha2"),
        (["v1alpha3", "v1alpha2"], "v1alpha3"),
        (["v1alpha2", "v1beta1", "v1alpha3"], "v1beta1"),
        (["v1", "v1alpha1"], None),
    ],
)
@in_fake_time
async def test_the_best_served_version_is_used(served: list[str], expected: str | None) -> None:
    async with running("kubernetes", FakeCluster(*(NATIVE + version for version in served))) as scene:
        assert scene.version == (NATIVE + expected if expected else None)


@in_fake_time
async def test_workloads_are_served_in_one_version_only() -> None:
    cluster = FakeCluster()
    async with running("kubernetes", cluster, has_workloads=True) as scene:
        assert (scene.gangs.workloads(), scene.woken) == (Scheduled(is_missing=True), 1)
        assert scene.store.unserved == {f"{NATIVE}v1beta1"}, "for reviews"
        cluster.versions.add(f"{NATIVE}v1alpha3")
        await asyncio.sleep(31)
        assert scene.gangs.workloads() == Scheduled(is_missing=True), "there are PodGroups of another version"
        assert scene.store.unserved == {f"{NATIVE}v1beta1"}
        assert len(cluster.learned) == 1
        cluster.versions.add(f"{NATIVE}v1beta1")
        await asyncio.sleep(61)
        assert (scene.gangs.workloads(), scene.store.unserved) == (Scheduled(is_served=True), set())
        assert cluster.learned[1:] == [f"{NATIVE}v1beta1"] * 2
        assert scene.gangs.fault() is None
        await scene.gangs.refresh()


@in_fake_time
async def test_workloads_are_unknown_before_the_first_read() -> None:
    cluster = FakeCluster(f"{NATIVE}v1beta1")
    cluster.may_list = False
    async with running("kubernetes", cluster, has_workloads=True) as scene:
        assert (scene.gangs.workloads(), scene.store.unserved) == (Scheduled(), set())


@in_fake_time
async def test_a_better_version_is_used_once_it_is_served() -> None:
    cluster = FakeCluster(f"{NATIVE}v1alpha2")
    async with running("kubernetes", cluster) as scene:
        cluster.versions.add(f"{NATIVE}v1beta1")
        await asyncio.sleep(61)
        assert scene.version == f"{NATIVE}v1beta1"
        assert cluster.learned == [f"{NATIVE}v1alpha2", f"{NATIVE}v1beta1"]


@in_fake_time
async def test_the_process_is_alive_until_an_established_stream_is_silent() -> None:
    cluster = FakeCluster()
    async with running("volcano", cluster) as scene:
        await asyncio.sleep(1000)
        assert scene.gangs.fault() is None, "an API that is not served is no fault"
        cluster.may_list = False
        cluster.versions.add(VOLCANO)
        await asyncio.sleep(1000)
        assert (scene.gangs.fault(), scene.version) == (None, None), "a forbidden API is no fault"
        cluster.may_list = True
        await asyncio.sleep(60)
        assert (scene.gangs.fault(), scene.version) == (None, VOLCANO)
        await asyncio.sleep(300)
        assert (scene.gangs.fault() or "").startswith("nothing received for ")
        cluster.versions.clear()
        await asyncio.sleep(31)
        assert scene.gangs.fault() is None


@in_fake_time
async def test_a_new_leader_lists_pod_groups_and_does_not_wait_if_it_cannot() -> None:
    cluster = FakeCluster()
    async with running("volcano", cluster) as scene:
        await scene.gangs.refresh()
        assert cluster.lists == 0
        cluster.versions.add(VOLCANO)
        await asyncio.sleep(31)
        await scene.gangs.refresh()
        assert cluster.lists == 2
        cluster.may_list = False
        await scene.gangs.refresh()
        assert cluster.lists == 3
        # An overloaded API server serves them later.
        cluster.may_list, cluster.is_overloaded = True, True
        with pytest.raises(Throttled):
            await scene.gangs.refresh()
