"""Two managers share the namespaces and take over from each other; one set never has two active managers."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import cycle
from pathlib import Path

import pytest

from lws.runtime.leadership.shard_election import lease_names
from test.harness.fault_proxy import Delay
from test.harness.groups import images_of, settle
from test.harness.manifests import a_set, new_image
from test.harness.proxied import Stage, credential_of
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from test.integration.chaos.endpoint import Endpoint
from test.integration.chaos.invariants import writes_out_of_turn
from test.integration.chaos.record import LEASES, Entry, entries_of
from test.integration.sharding.conftest import SHARDS
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import Api, LocalCluster

pytestmark = pytest.mark.local_only

NAME = "b8b2488c.x-k8s.io"
LEASE_NAMES = lease_names(NAME, SHARDS)
# As the stage configures them: a holder may be active for 4 s, and others wait for 6 s.
DURATION = timedelta(seconds=6)
PATIENCE = 180.0


def identity_of(manager: ManagerProcess) -> str:
    """Return the newest identity under which it held a Lease, or ""."""
    identities = re.findall(r"held by this manager \((\S+)\)", manager.log_path.read_text())
    return identities[-1] if identities else ""


def shards_of(api: Api, manager: ManagerProcess) -> set[int]:
    """Return the shards whose Leases it holds."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    holders = {
        lease["metadata"]["name"]: lease["spec"].get("holderIdentity") for lease in api.get(path)["items"]
    }
    identity = identity_of(manager)
    return {shard for shard, name in enumerate(LEASE_NAMES) if identity and holders.get(name) == identity}


def share(api: Api, managers: Sequence[ManagerProcess]) -> list[set[int]]:
    """Wait until all shards are held, two by each manager or all by one; return the shards of each."""

    def held() -> list[set[int]]:
        return [shards_of(api, manager) for manager in managers]

    def is_even(shares: list[set[int]]) -> bool:
        return set().union(*shares) == set(range(SHARDS)) and len({len(shards) for shards in shares}) == 1

    return eventually(f"{len(managers)} managers share the shards", held, is_even, PATIENCE)


def start(stage: Stage, endpoint: Endpoint) -> tuple[ManagerProcess, ManagerProcess]:
    """Start two managers that share the work."""
    first, second = stage.manager().start(), stage.manager().start()
    endpoint.managers = (first, second)
    for manager in (first, second):
        manager.wait_ready()
    return first, second


def for_each_world(worlds: Iterable[World], work: Callable[[World], object]) -> None:
    for world in worlds:
        work(world)


def wait_until_rolled_out(world: World, image: str) -> None:
    """Wait until every group has the image."""
    settle(world, "web", seconds=PATIENCE)
    assert images_of(world, "web") == {index: {image} for index in range(3)}


def wait_until_rollout_begins(world: World, image: str) -> None:
    """Wait until some groups have the image."""

    def see() -> bool:
        return {image} in images_of(world, "web").values()

    eventually(f"all groups in {world.namespace} have {image}", see, seconds=PATIENCE)


def assert_never_two(
    entries: Sequence[Entry], worlds: Sequence[World], managers: Sequence[ManagerProcess]
) -> None:
    """Check that only holders of a shard's Lease, with a valid membership, wrote to its set."""
    names = {credential_of(manager): manager.log_path.stem for manager in managers}
    messages: list[str] = []
    for world, lease in zip(worlds, LEASE_NAMES, strict=True):
        # Events are written afterwards, and no decision depends on them.
        in_namespace = [
            entry for entry in entries if entry.namespace == world.namespace and entry.resource != "events"
        ]
        assert any(entry.credential in names for entry in in_namespace), (
            f"no manager wrote to {world.namespace}"
        )
        of_shard = [entry for entry in entries if entry.resource == LEASES and entry.name == lease]
        messages += writes_out_of_turn([*in_namespace, *of_shard], names, world.namespace, DURATION)
        for credential, name in names.items():
            # All managers hold the membership Lease together, each with its own entry.
            membership = [entry for entry in entries if entry.resource == LEASES and entry.name == NAME]
            own = [entry for entry in [*in_namespace, *membership] if entry.credential == credential]
            messages += writes_out_of_turn(own, {credential: name}, world.namespace, DURATION)
    assert not messages, "\n".join(["more than one may have acted:", *messages])


@pytest.fixture
def began(cluster: LocalCluster, worlds: list[World]) -> tuple[Path, int]:
    """The audit log, and its end before any manager ran."""
    return cluster.audit_log, cluster.audit_log.stat().st_size


def test_another_manager_takes_over_when_one_is_killed_during_a_rollout(
    stage: Stage, endpoint: Endpoint, worlds: list[World], began: tuple[Path, int]
) -> None:
    managers = first, second = start(stage, endpoint)
    api = worlds[0].api
    for_each_world(worlds, lambda world: world.create(a_set("web", replicas=3)))
    for_each_world(worlds, lambda world: settle(world, "web", seconds=PATIENCE))
    lost, _ = share(api, managers)

    for_each_world(worlds, lambda world: world.patch(SET, "web", new_image("server:2")))
    wait_until_rollout_begins(worlds[min(lost)], "server:2")
    first.kill()
    for_each_world(worlds, lambda world: wait_until_rolled_out(world, "server:2"))
    assert share(api, [second]) == [set(range(SHARDS))]
    assert_never_two(list(entries_of(*began)), worlds, managers)


def test_a_hanging_manager_does_not_write_after_failover_and_gets_shards_again(
    stage: Stage, endpoint: Endpoint, worlds: list[World], began: tuple[Path, int]
) -> None:
    managers = hanging, healthy = start(stage, endpoint)
    api, images = worlds[0].api, cycle(["server:2", "server:3"])
    for_each_world(worlds, lambda world: world.create(a_set("web", replicas=3)))
    for_each_world(worlds, lambda world: settle(world, "web", seconds=PATIENCE))
    lost, _ = share(api, managers)

    image = next(images)
    for_each_world(worlds, lambda world: world.patch(SET, "web", new_image(image)))
    wait_until_rollout_begins(worlds[min(lost)], image)
    endpoint.managers = (healthy,)
    hanging.send_signal(signal.SIGSTOP)
    try:
        for_each_world(worlds, lambda world: wait_until_rolled_out(world, image))
        assert share(api, [healthy]) == [set(range(SHARDS))]
        # The stopped manager finds the missed changes in its streams when it resumes.
        image = next(images)
        for_each_world(worlds, lambda world: world.patch(SET, "web", new_image(image)))
    finally:
        hanging.send_signal(signal.SIGCONT)
    share(api, managers)
    for_each_world(worlds, lambda world: wait_until_rolled_out(world, image))
    # The manager answers webhooks again, and is active for the shards that it holds.
    image = next(images)
    for_each_world(worlds, lambda world: world.patch(SET, "web", new_image(image)))
    for_each_world(worlds, lambda world: wait_until_rolled_out(world, image))
    assert hanging.is_running and healthy.is_running
    assert_never_two(list(entries_of(*began)), worlds, managers)


def test_managers_keep_their_shards_when_requests_for_leases_are_slow(
    stage: Stage, endpoint: Endpoint, worlds: list[World], began: tuple[Path, int]
) -> None:
    with stage.proxy() as proxy:
        proxy.rule = lambda request: Delay(0.9) if "/leases/" in request.path else None
        managers = first, second = stage.manager(proxy=proxy).start(), stage.manager(proxy=proxy).start()
        endpoint.managers = managers
        for manager in managers:
            manager.wait_ready()
        shares = share(worlds[0].api, managers)
        lost = losses(managers)
        for_each_world(worlds, lambda world: world.create(a_set("web", replicas=3)))
        for_each_world(worlds, lambda world: settle(world, "web", seconds=PATIENCE))
        stays(
            "the managers keep their shards",
            lambda: [shards_of(worlds[0].api, manager) for manager in (first, second)],
            15.0,
        )
        assert share(worlds[0].api, managers) == shares and losses(managers) == lost
    assert_never_two(list(entries_of(*began)), worlds, managers)


def losses(managers: Iterable[ManagerProcess]) -> int:
    return sum(manager.log_path.read_text().count("lost, this manager stops acting") for manager in managers)
