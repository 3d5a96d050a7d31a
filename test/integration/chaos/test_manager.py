"""Rollouts keep their guarantees while managers are killed, frozen or have a wrong clock."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from test.harness.groups import is_leader, name_of, pods_of, settle
from test.harness.manifests import a_set, new_image, rolling
from test.harness.proxied import Stage
from test.harness.repeating import repeated
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.integration.chaos.endpoint import Endpoint
from test.integration.chaos.invariants import hash_violations
from test.integration.chaos.load import create_fleet, create_pair, floors_of, roll_out_completely, rolling_out
from test.integration.chaos.record import Record
from test.integration.chaos.verdict import assert_never_below_the_budget, assert_one_acts, judge, now
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import Api, ApiError

pytestmark = pytest.mark.local_only

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/b8b2488c.x-k8s.io"

KILLS = int(os.environ.get("CHAOS_KILLS") or "15")
# The shorter the Lease is, the sooner another manager replaces a killed one.
SHORT_LEASE = (
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=300ms",
)
SHORT_DEADLINE = timedelta(seconds=1.5)
# As the stage configures them.
DEADLINE = timedelta(seconds=4)
# Longer than requests, streams and Leases last.
FROZEN_SECONDS = 60.0
# A busy machine does not lose this Lease. A jump of the clock by hours would, if waits used the wall clock.
LONG_LEASE = (
    "--leader-elect-lease-duration=90s",
    "--leader-elect-renew-deadline=60s",
    "--leader-elect-retry-period=1s",
)
ROUNDS = 4
JUMPS_HOURS = (1, -5, 30, -24, 0)


@pytest.fixture
def endpoint(stage: Stage) -> Iterator[Endpoint]:
    """The address at which the API server finds the webhooks of the running managers."""
    with Endpoint() as endpoint:
        stage.deployment.point_webhooks_at(endpoint.port)
        yield endpoint


def start(endpoint: Endpoint, *managers: ManagerProcess) -> Sequence[ManagerProcess]:
    """Start all managers, and wait until they are ready and reachable."""
    for manager in managers:
        manager.start()
    for manager in managers:
        manager.wait_ready()
    endpoint.managers = managers
    return managers


def acting(
    api: Api, managers: Sequence[ManagerProcess], dead: Collection[str] = ()
) -> tuple[ManagerProcess, str]:
    """Wait until one of these managers holds the Lease; return it with its identity.

    The identity is none of `dead`.
    """

    def holder() -> tuple[ManagerProcess, str] | None:
        identity = str(api.get(LEASE)["spec"].get("holderIdentity") or "")
        if not identity or identity in dead:
            return None
        line = f"held by this manager ({identity})"
        return next(
            ((manager, identity) for manager in managers if line in manager.log_path.read_text()), None
        )

    leader = eventually("one of the managers holds the Lease", holder, seconds=300)
    assert leader is not None
    return leader


def test_repeated_kills_of_the_manager(
    stage: Stage, endpoint: Endpoint, world: World, record: Record, dice: random.Random
) -> None:
    """Another manager takes over in the middle of any action."""
    # If a client disappears before its write is answered, the audit log shows a failure in any case. The
    # proxy waits for the answer.
    with stage.proxy() as proxy:
        managers = start(endpoint, *(stage.manager(*SHORT_LEASE, proxy=proxy) for _ in range(2)))
        names = create_fleet(world)
        pair = create_pair(world)
        began = now()
        with rolling_out(world, [*names, pair]):
            dead: set[str] = set()
            while len(dead) < KILLS:
                victim, identity = acting(world.api, managers, dead)
                # Kill it at a random moment.
                time.sleep(dice.uniform(0, 1.2))
                victim.kill()
                dead.add(identity)
                victim.start()
        roll_out_completely(world, [*names, pair], "server:last")
    played = judge(record, world.namespace, names, pair)
    assert_never_below_the_budget(played, began, floors_of(names))
    assert_one_acts(record, world.namespace, managers, SHORT_DEADLINE)


def test_kills_of_the_manager_while_hash_groups_are_replaced(
    stage: Stage, endpoint: Endpoint, world: World, record: Record, dice: random.Random
) -> None:
    """New groups wait for former ones, whichever manager decides it."""
    name, budget = "hashed", rolling(maxUnavailable=1, maxSurge=1)
    with stage.proxy() as proxy:
        managers = start(endpoint, *(stage.manager(*SHORT_LEASE, proxy=proxy) for _ in range(2)))
        world.create(a_set(name, replicas=3, size=2, groupIdentity="Hash", rolloutStrategy=budget))
        settle(world, name)
        with rolling_out(world, [name]):
            dead: set[str] = set()
            while len(dead) < KILLS // 2:
                victim, identity = acting(world.api, managers, dead)
                time.sleep(dice.uniform(0, 1.2))
                victim.kill()
                dead.add(identity)
                if workers := [pod for pod in pods_of(world, name) if not is_leader(pod)]:
                    with suppress(ApiError):
                        world.delete("Pod", name_of(dice.choice(workers)))
                victim.start()
        settle(world, name, seconds=300)
        world.patch(SET, name, new_image("server:last"))
        settle(world, name, seconds=300)
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(world, name)} == {"server:last"}
    assert hash_violations(name, record.changes(), most=4) == []
    assert_one_acts(record, world.namespace, managers, SHORT_DEADLINE)


def test_a_frozen_leader_does_not_write_after_failover(
    stage: Stage, endpoint: Endpoint, world: World, record: Record, dice: random.Random
) -> None:
    managers = start(endpoint, stage.manager(), stage.manager())
    names = create_fleet(world)
    pair = create_pair(world)
    began = now()
    with rolling_out(world, [*names, pair]):
        frozen, _ = acting(world.api, managers)
        standby = next(manager for manager in managers if manager is not frozen)
        time.sleep(dice.uniform(1, 3))
        endpoint.managers = (standby,)
        with stopped(frozen):
            thawed_at = time.monotonic() + FROZEN_SECONDS
            eventually(
                "the standby takes over", lambda: acting(world.api, managers)[0] is standby, seconds=300
            )
            time.sleep(max(0.0, thawed_at - time.monotonic()))
        # The resumed manager has queued work and unread events.
        time.sleep(dice.uniform(1, 3))
    roll_out_completely(world, [*names, pair], "server:last")
    assert frozen.is_running
    # The resumed manager is a candidate again, and works.
    endpoint.managers = (frozen,)
    assert standby.stop() == 0
    assert acting(world.api, [frozen])[0] is frozen
    roll_out_completely(world, [*names, pair], "server:after")
    played = judge(record, world.namespace, names, pair)
    assert_never_below_the_budget(played, began, floors_of(names))
    assert_one_acts(record, world.namespace, managers, DEADLINE)


def test_managers_with_skewed_clocks(
    stage: Stage, endpoint: Endpoint, world: World, record: Record, dice: random.Random, tmp_path: Path
) -> None:
    """The Lease keeps its holder, rollouts continue and lost groups are recreated.

    No wait uses the wall clock.
    """
    skew = tmp_path / "skew"
    skew.write_text("0")
    bent = Path(__file__).with_name("skewed_clock")
    environment = {"SKEWED_CLOCK": str(skew), "PYTHONPATH": ":".join(map(str, [bent, *sys.path]))}
    skewed, unskewed = stage.manager(*LONG_LEASE, environment=environment), stage.manager(*LONG_LEASE)
    start(endpoint, skewed)
    acting(world.api, [skewed])
    start(endpoint, unskewed)
    endpoint.managers = (skewed, unskewed)
    names = create_fleet(world, "one", "surging")
    held = world.api.get(LEASE)["spec"]["leaseTransitions"]
    began = now()
    with rolling_out(world, names):
        for hours in JUMPS_HOURS:
            skew.write_text(str(hours * 3600))
            time.sleep(dice.uniform(2, 4))
    roll_out_completely(world, names, "server:last")
    played = judge(record, world.namespace, names)
    assert_never_below_the_budget(played, began, floors_of(names))
    # After a jump back by hours, a group that loses workers again does not wait for hours.
    for hours in (0, -6):
        skew.write_text(str(hours * 3600))
        leader, lost = world.uid("Pod", "one-1"), world.uid("Pod", "one-1-1")
        world.delete("Pod", "one-1-1")
        world.gone_or_replaced("Pod", "one-1-1", lost)
        world.gone_or_replaced("Pod", "one-1", leader)
        settle(world, "one")
    judge(record, world.namespace, names)
    assert world.api.get(LEASE)["spec"]["leaseTransitions"] == held
    assert skewed.is_running and unskewed.is_running


def test_rolling_restart_of_managers_under_writes(stage: Stage, endpoint: Endpoint, world: World) -> None:
    """With the chart's settings, each one releases the Lease at once, and no review is lost."""
    managers = [stage.manager(*LONG_LEASE, "--webhook-shutdown-delay=5s") for _ in range(2)]
    start(endpoint, *managers)
    # Some reviews are always in transit, and would be lost with their connection.
    endpoint.latency = 0.02
    with reviewing(world) as lost:
        for _ in range(ROUNDS):
            leaving, _ = acting(world.api, managers)
            (staying,) = (manager for manager in managers if manager is not leaving)
            # A Service does this for new connections.
            endpoint.managers = (staying, leaving)
            leaving.send_signal(signal.SIGTERM)
            acting(world.api, [staying])
            assert leaving.is_running and leaving.stop() == 0
            leaving.start().wait_ready()
    assert lost == []


@contextmanager
def reviewing(world: World) -> Iterator[list[str]]:
    """Have several clients send sets for review, as dry runs, and collect the rejections."""
    lost, answered = list[str](), Counter[int]()
    path = f"{world.path('LeaderWorkerSet')}?dryRun=All"

    def review() -> None:
        try:
            world.api.create(path, a_set("reviewed"))
            answered[threading.get_ident()] += 1
        except Exception as error:
            lost.append(str(error))

    with repeated(review, clients=4):
        yield lost
    assert len(answered) == 4
    assert min(answered.values()) > 100


@contextmanager
def stopped(manager: ManagerProcess) -> Iterator[None]:
    """Stop a process, as if it hung or its machine were suspended."""
    manager.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        manager.send_signal(signal.SIGCONT)
