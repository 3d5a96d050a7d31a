"""Rollouts keep their guarantees while writes are rejected or lost and streams break."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from test.harness.fault_proxy import CutAfter, ErrorEvent, Fault, Lose, ManagerRequest, Refuse, Rule
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import World
from test.integration.chaos.load import create_fleet, create_pair, floors_of, roll_out_completely, rolling_out
from test.integration.chaos.record import Record
from test.integration.chaos.verdict import assert_never_below_the_budget, judge, now

pytestmark = pytest.mark.local_only

PLAYED = {"Refuse": 30, "Lose": 10, "CutAfter": 30, "ErrorEvent": 5}
# With slow answers, a Lease as short as in the other tests would be lost.
USUAL_LEASE = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=2s",
)


def unreliable_connection(dice: random.Random) -> Rule:
    """Answer three of ten writes with an error, or not at all although they took effect.

    Every watch ends after a second or two, and some of them cannot be resumed.
    """
    refusals: tuple[Fault, ...] = (Refuse(500), Lose(), Refuse(409), Refuse(429, retry_after=1), Refuse(429))
    faults = itertools.cycle(refusals)

    def rule(request: ManagerRequest) -> Fault | None:
        if request.is_watch:
            return ErrorEvent(410) if dice.random() < 0.2 else CutAfter(dice.uniform(0.2, 2.0))
        return next(faults) if request.is_write and dice.random() < 0.3 else None

    return rule


def test_rejected_writes_and_interrupted_watches(
    stage: Stage, world: World, record: Record, dice: random.Random
) -> None:
    with stage.proxy() as proxy:
        manager = stage.start(*USUAL_LEASE, proxy=proxy)
        names = create_fleet(world)
        pair = create_pair(world)
        began = now()
        proxy.rule = unreliable_connection(dice)
        proxy.cut_streams()
        with rolling_out(world, [*names, pair]):
            eventually("every kind of fault has happened often enough", often(proxy.seen.get), seconds=300)
        roll_out_completely(world, [*names, pair], "server:last")
        assert manager.is_running
    played = judge(record, world.namespace, names, pair)
    assert_never_below_the_budget(played, began, floors_of(names))


def often(seen: Callable[[str], int | None]) -> Callable[[], bool]:
    """Return a function that reports whether every kind of fault has happened often enough."""
    return lambda: all((seen(fault) or 0) >= count for fault, count in PLAYED.items())
