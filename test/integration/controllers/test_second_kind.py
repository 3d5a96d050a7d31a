"""A kind of workload that is registered alone runs in its own manager on a real API server.

The manager of sets runs at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lws.config import load
from lws.runtime.client.connection import Cluster
from lws.runtime.client.kubeconfig import load_configuration
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.manager import Manager
from lws_api.config.v1alpha1 import InternalCertManagement
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.unit.fleet import FLEETS, REGISTRATION, definition, make_fleet
from tools.localcluster import ApiError, ClusterAccess

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_fleet_manages_its_set(world: World, cluster: ClusterAccess) -> None:
    """Creation, restoration and status follow events, because nothing is checked periodically."""
    path = FLEETS.path(world.namespace)

    def ready() -> Any:
        return world.api.get(f"{path}/f").get("status", {}).get("ready")

    with _defined(world):
        async with _managed(cluster):
            world.api.create(path, make_fleet("f", 2, world.namespace))
            await _eventually("the set is ready", ready, lambda count: count == 2)
            world.patch(SET, "f", {"spec": {"replicas": 5}})
            await _eventually(
                "the size of the set is repaired", lambda: _replicas(world), lambda count: count == 2
            )
            world.api.merge(f"{path}/f", {"spec": {"replicas": 3}})
            await _eventually("the set is scaled up", ready, lambda count: count == 3)
            events = await _eventually("an Event exists", lambda: _events_of_fleets(world), bool)
            assert [event["reason"] for event in events] == ["Launched"]
            world.api.delete(f"{path}/f")
            await _eventually("the set is deleted", lambda: world.find(SET, "f"), lambda lws: not lws)


def _replicas(world: World) -> int:
    return int(world.get(SET, "f")["spec"]["replicas"])


def _events_of_fleets(world: World) -> list[dict[str, Any]]:
    return [
        event for event in world.list("Event") if event.get("reportingController") == REGISTRATION.reporter
    ]


async def _eventually(description: str, see: Callable[[], Any], accept: Callable[[Any], object]) -> Any:
    return await asyncio.to_thread(eventually, description, see, accept)


@contextmanager
def _defined(world: World) -> Iterator[None]:
    """Install the CRD of Fleets during the block."""
    crd = world.api.create(_DEFINITIONS, definition())
    try:
        eventually("Fleets are served", lambda: _is_served(world))
        yield
    finally:
        world.api.delete(f"{_DEFINITIONS}/{crd['metadata']['name']}")


def _is_served(world: World) -> bool:
    try:
        world.api.get(FLEETS.path())
    except ApiError:
        return False
    return True


@asynccontextmanager
async def _managed(cluster: ClusterAccess) -> AsyncIterator[None]:
    """Run a manager of Fleets only, in this process."""
    flags = {"leader-elect": False, "metrics-bind-address": "0", "health-probe-bind-address": "0"}
    settings = load(None, flags, {"ENABLE_WEBHOOKS": "false"}, namespace_file=Path("there-is-none"))
    certificates = {"internal_cert_management": InternalCertManagement(enable=False)}
    settings = replace(settings, configuration=settings.configuration.model_copy(update=certificates))
    client = Cluster(await load_configuration(str(cluster.kubeconfig)), "fleets-test")
    running = asyncio.create_task(Manager(settings, client, Metrics(), (REGISTRATION,)).run())
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()
