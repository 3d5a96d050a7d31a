"""A second kind of workload runs by its registration alone.

Streams, routes, ownership, Events and admission work for it, and no code of LeaderWorkerSet knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import kopf
import orjson
import pytest

from lws.config import load
from lws.leaderworkerset import registration as leaderworkerset
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Key, Route
from lws.runtime.client.connection import Cluster
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.engine import Engine, Surroundings
from lws.runtime.loop import Term
from lws.runtime.operator import build_registry
from lws.runtime.registration import merge_terms
from lws.runtime.store import Store
from lws.runtime.webhooks.server import reviewed
from lws.runtime.webhooks.serving import Serving
from test.unit import fleet
from test.unit.builders import make_set
from test.unit.fake_api import FakeApi
from test.unit.fake_time import in_fake_time
from test.unit.fleet import FLEETS, LABEL, SET, VALIDATE, make_fleet
from test.unit.stories.fake_cluster import FakeCluster
from test.unit.stories.fake_manager import FakeManager
from test.unit.stories.fake_nodes import FakeNodes

ALONE, BOTH = (fleet.REGISTRATION,), (leaderworkerset.REGISTRATION, fleet.REGISTRATION)
SETTINGS = load(None, {}, {}, namespace_file=Path("there-is-none"))


class World:
    """Fleets with everything that runs for them, in a cluster in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, registrations: Any) -> None:
        self.cluster = FakeCluster(has_feature=False)
        self.nodes = FakeNodes(self.cluster)
        self.passes: list[Key] = []
        self.manager = FakeManager(
            self.cluster, loop, lambda key, snapshot, plan: self.passes.append(key), registrations
        )

    def settle(self) -> None:
        """Run until nothing changes."""
        version = ""
        while version != self.cluster.version:
            version = self.cluster.version
            while self.manager.late or self.manager.queue.keys:
                for kind in self.manager.late:
                    self.manager.read(kind)
                self.manager.run_pass()
            self.nodes.sync_all()
            self.cluster.collect()
            for move in self.nodes.moves():
                move()

    def get(self, kind: str, name: str = "f") -> dict[str, Any]:
        obj = self.cluster.find(kind, name)
        assert obj is not None
        return obj

    @property
    def reasons(self) -> list[tuple[str, str]]:
        return [(event.regarding.kind, event.reason) for event in self.manager.recorder.announced]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_registration_without_other_kinds(loop: asyncio.AbstractEventLoop) -> None:
    """The child is created once, with label and owner; its changes trigger passes over the Fleet."""
    world = World(loop, ALONE)
    assert world.manager.kinds == ("Fleet", SET)
    world.cluster.add(make_fleet("f", 3))
    world.settle()
    child, owner = world.get(SET), world.get("Fleet")["metadata"]
    assert child["metadata"]["labels"] == {LABEL: "f"} and child["spec"]["replicas"] == 3
    reference = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": owner["uid"]}
    assert child["metadata"]["ownerReferences"] == [{**reference, "controller": True}]
    assert world.reasons == [("Fleet", "Launched")]
    world.cluster.change(child, spec={**child["spec"], "replicas": 7})
    world.settle()
    assert world.get(SET)["spec"]["replicas"] == 3
    world.cluster.request_deletion(world.get("Fleet"))
    world.settle()
    assert world.cluster.find(SET, "f") is None
    assert {key.kind for key in world.passes} == {"fleet"}


def test_objects_of_other_kinds_are_ignored(loop: asyncio.AbstractEventLoop) -> None:
    world = World(loop, ALONE)
    stranger = world.cluster.add(make_set("f"))
    world.cluster.add(make_fleet("f", 3))
    world.settle()
    assert world.get(SET) == stranger and world.reasons == [("Fleet", "NameTaken")]


def test_another_kind_runs_in_the_same_manager(loop: asyncio.AbstractEventLoop) -> None:
    """Counters of a set trigger the Fleet that owns it, and the set if another client wrote them."""
    world = World(loop, BOTH)
    world.cluster.add(make_fleet("f", 2))
    world.settle()
    assert world.get("Fleet")["status"] == {"ready": 2}
    assert {kind for kind, _ in world.cluster.objects} >= {"StatefulSet", "Pod", "Service", SET, "Fleet"}
    before = len(world.passes)
    child = world.get(SET)
    world.cluster.change(child, status={**child["status"], "readyReplicas": 1})
    world.manager.read(SET)
    assert [key.kind for key in world.manager.queue.keys] == ["set", "fleet"]
    world.settle()
    assert world.get("Fleet")["status"] == {"ready": 2} and world.passes[before].kind == "fleet"
    world.manager.resync()
    kinds = [key.kind for key in world.manager.queue.keys]
    assert sorted(kinds) == ["fleet", "group", "group", "set"]


def test_two_kinds_cannot_share_keys() -> None:
    kind: Any = None
    with pytest.raises(ValueError, match="fleet"):
        merge_terms([Term({"fleet": kind}), Term({"fleet": kind})])


def test_a_change_enqueues_keys_of_all_kinds_of_workload() -> None:
    def route(kind: str) -> Route:
        return lambda before, after: [(Key(kind, "ns", "a"), 1.0)]

    both = merge_terms(
        [Term({}, {"Pod": route("one"), "Service": route("one")}), Term({}, {"Pod": route("two")})]
    )
    assert [key.kind for key, _ in both.routes["Pod"](None, None)] == ["one", "two"]
    assert [key.kind for key, _ in both.routes["Service"](None, None)] == ["one"]


@in_fake_time
async def test_an_engine_has_only_the_streams_of_its_kinds() -> None:
    api = FakeApi("http://127.0.0.1:1")
    settings = load(None, {"leader-elect": False}, {}, namespace_file=Path("there-is-none"))
    for registrations, streams in (
        (ALONE, {"fleets", "leaderworkersets"}),
        (BOTH, {"fleets", "leaderworkersets", "statefulsets", "pods", "services", "controllerrevisions"}),
    ):
        cluster = api.cluster()
        serving = Serving(settings, cluster, Metrics(), {})
        within = Surroundings(settings, cluster, Metrics(), serving, "one", lambda: None, registrations)
        engine = Engine(within)
        assert engine.checks().keys() >= streams
        assert len(engine.checks()) == (2 if registrations is ALONE else 11)
        assert [recorder._reporter for recorder in engine._recorders] == [
            registration.reporter for registration in registrations
        ]
        await cluster.close()


async def test_reviews_of_both_kinds_are_answered(
    wire_kopf: Callable[..., tuple[kopf.WebhookFn, Any]],
) -> None:
    store = Store(lambda before, after: None, TABLES)
    registry = build_registry(cast(Cluster, object()), store, BOTH, SETTINGS)
    assert len(list(registry._watching.get_all_handlers())) == 2

    serve, _ = wire_kopf(registry, kopf.Resource("example.com", "v1", "fleets", kind="Fleet"))

    async def answer(replicas: int) -> dict[str, Any]:
        resource = {"group": "example.com", "version": "v1", "resource": "fleets"}
        request = {"uid": "u", "operation": "CREATE", "resource": resource}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = orjson.dumps({**review, "request": {**request, "object": make_fleet("f", replicas)}})
        return cast(
            dict[str, Any], orjson.loads((await reviewed(serve, VALIDATE, FLEETS, body)).body)["response"]
        )

    assert (await answer(1))["allowed"] is True
    refused = await answer(0)
    assert (
        refused["allowed"] is False
        and refused["status"]["message"] == "spec.replicas: a Fleet has at least one"
    )
