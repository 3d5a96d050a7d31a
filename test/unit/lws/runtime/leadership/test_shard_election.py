"""Managers that share the shards: who is active where, and never two in one namespace, whatever fails."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from lws.runtime.errors import Unreachable
from lws.runtime.leadership.election import Election, LeaseElection, Scope
from lws.runtime.leadership.lease import Candidate, Lease, LeaseTimes
from lws.runtime.leadership.shard_election import ShardElection, lease_names, shard_of
from test.unit.fake_time import in_fake_time, now
from test.unit.lease_server import LeaseClient, LeaseServer

TIMES = LeaseTimes(duration=15.0, renew_deadline=10.0, retry_period=2.0)
NAME = "b8b2488c.x-k8s.io"
SHARDS = 4
# One namespace for each shard.
PLACES = [
    next(ns for n in range(99) if shard_of(ns := f"ns-{n}", SHARDS) == shard) for shard in range(SHARDS)
]


class Process:
    """A manager. shards: 0 for a manager without sharding."""

    def __init__(self, server: LeaseServer, who: str, shards: int = SHARDS) -> None:
        self.who = who
        self.client = LeaseClient(server)
        self.busy: set[str] = set()
        self.changes: list[str] = []
        self.leading: dict[str, bool] = {}
        cluster: Any = self.client
        self.election: Election
        candidate = Candidate("lws-system", NAME, who, TIMES, now)
        if shards:
            self.election = ShardElection(cluster, candidate, shards, self._lead, self._is_idle)
        else:
            self.election = LeaseElection(Lease(cluster, candidate), self._lead)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(
            self.election.run(lambda scope: self._tell("+", scope), lambda scope: self._tell("-", scope))
        )

    async def freeze(self) -> None:
        """Stop the process: forever (SIGKILL), or until it starts again (SIGSTOP)."""
        assert self.task is not None and not self.task.done()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def end(self) -> None:
        """End the process as by SIGTERM."""
        await self.freeze()
        await self.election.release()

    @property
    def writes(self) -> set[str]:
        return {namespace for namespace in PLACES if self.election.may_write(namespace)}

    @property
    def acts(self) -> set[str]:
        return {namespace for namespace in PLACES if self.election.acts_on(namespace)}

    def _lead(self, lease: str, leads: bool) -> None:
        self.leading[lease] = leads

    def _tell(self, sign: str, scope: Scope) -> None:
        self.changes += [f"{sign}{PLACES.index(namespace)}" for namespace in PLACES if scope(namespace)]

    def _is_idle(self, scope: Scope) -> bool:
        return not any(map(scope, self.busy))


@contextlib.asynccontextmanager
async def running(*processes: Process) -> AsyncIterator[None]:
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            if process.task is not None and not process.task.done():
                await process.freeze()


def counts(*processes: Process) -> list[int]:
    """Return how many shards each process is active for, sorted."""
    return sorted(len(process.acts) for process in processes)


async def until_shared(processes: Sequence[Process], seconds: float) -> None:
    """Wait until every namespace has an active manager and the shards are divided equally."""
    deadline = now() + seconds
    while True:
        shares = counts(*processes)
        if sum(shares) == SHARDS and shares[-1] - shares[0] <= 1:
            return
        assert now() < deadline, {process.who: process.acts for process in processes}
        await asyncio.sleep(0.5)


@in_fake_time
async def test_a_single_manager_acquires_all_shards_at_once() -> None:
    manager = Process(LeaseServer(NAME), "one")
    assert manager.leading == dict.fromkeys(lease_names(NAME, SHARDS), False)
    async with running(manager):
        await asyncio.sleep(0.1)
        assert manager.writes == manager.acts == set(PLACES)
        assert manager.changes == ["+0", "+1", "+2", "+3"]
        assert manager.leading == dict.fromkeys(lease_names(NAME, SHARDS), True)


@in_fake_time
async def test_two_managers_share_and_each_reports_released_shards() -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one):
        await asyncio.sleep(0.1)
        async with running(two):
            await until_shared([one, two], 10)
            assert counts(one, two) == [2, 2] and not one.writes & two.writes
            assert one.changes == ["+0", "+1", "+2", "+3", "-2", "-3"]
            assert sorted(one.leading.values()) == [False, False, True, True]
            # From now on no shard moves, and there are few requests.
            one.client.requests = two.client.requests = 0
            before = [*one.changes, *two.changes]
            await asyncio.sleep(100.0)
            assert [*one.changes, *two.changes] == before
            assert one.client.requests <= 4 * 51 and two.client.requests <= 4 * 51


@in_fake_time
async def test_a_shard_is_released_after_its_running_passes() -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    one.busy = {PLACES[3]}
    async with running(one):
        await asyncio.sleep(0.1)
        async with running(two):
            await asyncio.sleep(30.0)
            # No new pass begins there, but the running one may still write.
            assert one.acts == {PLACES[0], PLACES[1]}
            assert one.writes == {PLACES[0], PLACES[1], PLACES[3]} and two.writes == {PLACES[2]}
            one.busy.clear()
            await until_shared([one, two], 10)
            assert two.writes == {PLACES[2], PLACES[3]}


@in_fake_time
async def test_shards_of_a_killed_manager_are_acquired_after_expiry() -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one, two):
        await until_shared([one, two], 20)
        shards, lost = set(two.acts), set(one.acts)
        await one.freeze()
        died = now()
        await asyncio.sleep(14.0)
        assert two.acts == shards and not any(
            server.holder(lease) == "" for lease in lease_names(NAME, SHARDS)
        )
        await until_shared([two], 15)
        assert two.writes == shards | lost and now() - died < TIMES.duration + 5 * TIMES.retry_period
        assert not any(change.startswith("-") for change in two.changes[-len(lost) :])


@in_fake_time
async def test_shards_of_a_stopped_manager_are_acquired_at_once() -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one, two):
        await until_shared([one, two], 20)
        await one.end()
        assert not one.writes
        ended = now()
        await until_shared([two], 10)
        assert now() - ended < 3 * TIMES.retry_period


@in_fake_time
async def test_a_resumed_manager_has_lost_its_shards_and_gets_a_share_again() -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one, two):
        await until_shared([one, two], 20)
        await one.freeze()
        await until_shared([two], 40)
        assert not one.writes
        one.start()
        await until_shared([one, two], 20)
        assert one.writes and two.writes and not one.writes & two.writes
        # The process has noticed that it lost the shards and got them again.
        assert {change[1] for change in one.changes if change[0] == "-"}


@in_fake_time
async def test_a_manager_without_the_server_stops_before_another_begins() -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one, two):
        await until_shared([one, two], 20)
        one.client.trouble = Unreachable("cut off")
        for _ in range(400):
            await asyncio.sleep(0.1)
            assert not one.writes & two.writes
        assert not one.writes and not one.acts and len(two.acts) == SHARDS


@in_fake_time
async def test_a_manager_without_the_membership_lease_stops_for_all_shards() -> None:
    server = LeaseServer(NAME)
    sharded, sole = Process(server, "one"), Process(server, "sole", shards=0)
    async with running(sharded):
        await asyncio.sleep(0.1)
        async with running(sole):
            sharded.client.trouble, sharded.client.troubled = Unreachable("cut off"), NAME
            while not sole.writes:
                await asyncio.sleep(0.1)
                assert not (sharded.writes and sole.writes)
            assert not sharded.writes and not sharded.acts
            # The Leases of the process expire.
            await asyncio.sleep(30.0)
            assert sole.writes == set(PLACES) and not sharded.writes


@in_fake_time
async def test_a_new_number_of_shards_waits_for_the_old_managers() -> None:
    server = LeaseServer(NAME)
    old = [Process(server, "old-1"), Process(server, "old-2")]
    new = [Process(server, "new-1", shards=8), Process(server, "new-2", shards=8)]
    async with running(*old):
        await until_shared(old, 20)
        async with running(*new):
            await asyncio.sleep(60.0)
            assert not any(process.writes or process.acts for process in new)
            await old[0].end()
            await asyncio.sleep(60.0)
            assert not any(process.writes for process in new) and len(old[1].acts) == SHARDS
            await old[1].end()
            await asyncio.sleep(10.0)
            assert set.union(*(process.acts for process in new)) == set(PLACES)


@in_fake_time
async def test_sharded_and_unsharded_managers_never_act_together() -> None:
    server = LeaseServer(NAME)
    sole, shared = Process(server, "sole", shards=0), Process(server, "shared")
    async with running(sole):
        await asyncio.sleep(0.1)
        async with running(shared):
            await asyncio.sleep(60.0)
            assert sole.writes == set(PLACES) and not shared.writes
            await sole.end()
            await until_shared([shared], 5)
            # The change back to one manager for all namespaces.
            again = Process(server, "again", shards=0)
            async with running(again):
                await asyncio.sleep(60.0)
                assert not again.writes and shared.writes == set(PLACES)
                await shared.end()
                await asyncio.sleep(3.0)
                assert again.writes == set(PLACES) and again.changes == ["+0", "+1", "+2", "+3"]


@pytest.mark.parametrize("deleted", [[*lease_names(NAME, SHARDS), NAME], lease_names(NAME, SHARDS), [NAME]])
@in_fake_time
async def test_deleted_leases_are_recreated_by_their_holders(deleted: list[str]) -> None:
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one, two):
        await until_shared([one, two], 20)
        for instant in (0.1, 0.7, 1.2, 1.9):
            await asyncio.sleep(20.0 + instant)
            before = [one.writes, two.writes]
            for name in deleted:
                del server.leases[name]
            for _ in range(200):
                await asyncio.sleep(0.1)
                assert not one.writes & two.writes
            assert [one.writes, two.writes] == before and set(server.leases) == {
                *lease_names(NAME, SHARDS),
                NAME,
            }


@in_fake_time
async def test_a_lease_that_is_deleted_while_its_holder_is_cut_off_is_waited_for() -> None:
    """The candidate knows the holder only from the membership Lease."""
    server = LeaseServer(NAME)
    one, two = Process(server, "one"), Process(server, "two")
    async with running(one, two):
        await until_shared([one, two], 20)
        await asyncio.sleep(20.0)
        one.client.trouble = Unreachable("cut off")
        for name in lease_names(NAME, SHARDS):
            del server.leases[name]
        for _ in range(400):
            await asyncio.sleep(0.1)
            assert not one.writes & two.writes
        assert two.writes == set(PLACES)


MANY = 16
# One namespace for each of many shards.
MANY_PLACES = [
    next(ns for n in range(999) if shard_of(ns := f"ns-{n}", MANY) == shard) for shard in range(MANY)
]


@pytest.mark.parametrize("is_even", [True, False], ids=["equally slow requests", "up to twice as slow"])
@pytest.mark.parametrize(
    ("managers", "seconds"), [(4, 0.8), (4, 1.0), (4, 1.5), (8, 0.5)], ids=lambda value: str(value)
)
@in_fake_time
async def test_a_slow_api_server_leaves_no_namespace_without_a_manager(
    managers: int, seconds: float, is_even: bool
) -> None:
    """All managers are healthy.

    When renewals waited for each other, no manager could write for 17, 30, 56 and 17 % of the time.
    """
    dice, server = random.Random(managers), LeaseServer(NAME)
    processes = [Process(server, f"p{number}", MANY) for number in range(managers)]
    for process in processes:
        process.client.delay = lambda: seconds / 2 if is_even else dice.uniform(0.0, seconds)
    async with running(*processes):
        await asyncio.sleep(60.0)
        gaps = 0
        for _ in range(600):
            await asyncio.sleep(0.25)
            writers = [
                sum(process.election.may_write(namespace) for process in processes)
                for namespace in MANY_PLACES
            ]
            assert max(writers) <= 1
            gaps += writers.count(0)
        assert gaps / (600 * MANY) < 0.001
        shares = [sum(map(process.election.acts_on, MANY_PLACES)) for process in processes]
        assert max(shares) - min(shares) <= 1


def test_never_two_holders_of_a_shard() -> None:
    for seed, kinds in enumerate(([4, 4, 4], [4, 4, 2], [4, 2, 0])):
        _play(seed, kinds)


@in_fake_time
async def _play(seed: int, kinds: Sequence[int]) -> None:
    """Run two minutes with random faults. kinds: the number of shards that each process knows."""
    random.seed(seed)
    dice, server = random.Random(seed), LeaseServer(NAME)
    processes = [Process(server, f"p{number}", shards) for number, shards in enumerate(kinds)]
    for process in processes:
        process.client.delay = lambda: dice.expovariate(20.0)
    acted = 0
    async with running(*processes):
        for _ in range(480):
            await asyncio.sleep(0.25)
            if dice.random() < 0.03:
                await _disturb(dice.choice(processes), dice)
            if server.leases and dice.random() < 0.02:
                del server.leases[dice.choice([*server.leases])]
            writers = [namespace for process in processes for namespace in process.writes]
            assert len(writers) == len(set(writers)), {process.who: process.writes for process in processes}
            acted += len(writers)
    # Managers were active, although faults may have stopped all of them for a long time.
    assert acted > 48


async def _disturb(process: Process, dice: random.Random) -> None:
    assert process.task is not None
    if process.task.done():
        process.start()
    elif dice.random() < 0.4:
        await process.freeze()
    elif dice.random() < 0.5:
        await process.end()
    else:
        process.client.trouble = Unreachable("cut off") if process.client.trouble is None else None
