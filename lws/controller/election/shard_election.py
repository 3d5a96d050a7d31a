"""Decide for which shards of namespaces this process acts, beside other managers.

In: a roll call of the managers, and one Lease for each shard. Out: the answer at the moment of each write,
and calls when shards are gained and lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial

from lws.cluster.client.connection import Cluster
from lws.cluster.leases.lease import Candidate, Lease
from lws.cluster.leases.shard_membership import RollCall
from lws.controller.election.election import OnChange, OnLeading, Scope

log = logging.getLogger(__name__)

Term = tuple[int, int]
"""Which time of holding the roll call, and the Lease of the shard; neither is 0."""


class ShardElection:
    """Holds an even share of the Leases `<name>-0` to `<name>-<shards - 1>`, and all if nobody else is there.

    is_idle: whether no pass runs in these namespaces; only then a shard is given up.
    """

    def __init__(
        self,
        cluster: Cluster,
        who: Candidate,
        shards: int,
        on_leading: OnLeading,
        is_idle: Callable[[Scope], bool],
    ) -> None:
        self._retry_period = who.times.retry_period
        self._who = who.identity
        self._roll_call = RollCall(cluster, who, shards)
        self._leases = [Lease(cluster, replace(who, name=name)) for name in lease_names(who.name, shards)]
        self._on_leading = on_leading
        self._is_idle = is_idle
        # Whether a shard is this manager's to renew, to take or to give up.
        self._due = [asyncio.Event() for _ in self._leases]
        self._acting: dict[int, Term] = {}
        self._yielding: frozenset[int] = frozenset()
        for lease in self._leases:
            on_leading(lease.name, False)

    def may_write(self, namespace: str) -> bool:
        return self._term(self._shard_of(namespace)) is not None

    def time_left(self, namespace: str) -> float:
        return min(self._roll_call.time_left, self._leases[self._shard_of(namespace)].time_left)

    def acts_on(self, namespace: str) -> bool:
        return self._shard_of(namespace) in self._acting

    async def run(self, on_gain: OnChange, on_loss: OnChange) -> None:
        """A task for each Lease: no renewal waits for the Lease of another manager, nor for another shard."""
        # From now on it is measured how long those that are gone have been silent.
        await asyncio.gather(*(lease.look() for lease in self._leases))
        decide = partial(self._decide, on_gain, on_loss)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._call_roll(decide))
            for shard in range(len(self._leases)):
                tasks.create_task(self._keep(shard, decide))

    async def release(self) -> None:
        # First, so that the others count on one fewer when the shards become free.
        await self._roll_call.release()
        await asyncio.gather(*(lease.release() for lease in self._leases))

    async def _call_roll(self, decide: Callable[[], None]) -> None:
        while True:
            began = _now()
            self._roll_call.holds = self._ours()
            await self._roll_call.attempt()
            decide()
            await self._pause(began)

    async def _keep(self, shard: int, decide: Callable[[], None]) -> None:
        """Renew the Lease of a shard while it is held, take it while it is this manager's turn, and give it
        up where it is too much: not before its passes have ended, and not at once, for what they had to say
        is said meanwhile.
        """
        lease, was_too_much = self._leases[shard], False
        while True:
            await self._due[shard].wait()
            began = _now()
            if was_too_much and shard in self._yielding and self._is_idle(self._scope(shard)):
                await lease.release()
            else:
                await lease.attempt()
            decide()
            was_too_much = shard in self._yielding
            await self._pause(began)

    async def _pause(self, began: float) -> None:
        """Until the next attempt is due. Jitter keeps candidates from knocking at the same instant."""
        jitter = 1.0 if self._acting else random.uniform(1.0, 1.2)
        await asyncio.sleep(began + self._retry_period * jitter - _now())

    def _decide(self, on_gain: OnChange, on_loss: OnChange) -> None:
        share, takes_part = self._share(), self._roll_call.is_held()
        # Who has no part in it any more leaves the Leases to those who have.
        due = self._ours() | share.stands if takes_part else frozenset[int]()
        for shard, event in enumerate(self._due):
            if shard in due:
                event.set()
            else:
                event.clear()
        self._turn_to(share.yields, on_gain, on_loss)

    def _share(self) -> Share:
        if not self._roll_call.is_held():
            return Share()
        others = self._roll_call.others()
        for shard in frozenset[int]().union(*others.values()):
            self._leases[shard].has_holder()
        return share_of(len(self._leases), {**others, self._who: self._ours()}, self._who)

    def _turn_to(self, yielding: frozenset[int], on_gain: OnChange, on_loss: OnChange) -> None:
        """Tell what changed; what is to be given up counts as lost before it is."""
        for shard in sorted(yielding - self._yielding):
            log.info("lease %s: given up, it is another manager's turn", self._leases[shard].name)
        self._yielding = yielding
        for shard, lease in enumerate(self._leases):
            term = None if shard in yielding else self._term(shard)
            known = self._acting.get(shard)
            if known == term:
                continue
            if known is not None:
                del self._acting[shard]
                if shard not in yielding:
                    log.warning("lease %s: lost, this manager stops acting and stands again", lease.name)
                self._on_leading(lease.name, False)
                on_loss(self._scope(shard))
            if term is not None:
                self._acting[shard] = term
                log.info("lease %s: held by this manager (%s)", lease.name, self._who)
                self._on_leading(lease.name, True)
                on_gain(self._scope(shard))

    def _ours(self) -> frozenset[int]:
        return frozenset(shard for shard, lease in enumerate(self._leases) if lease.is_ours)

    def _term(self, shard: int) -> Term | None:
        """None where somebody else may be acting on the shard."""
        roll_call, lease = self._roll_call.term, self._leases[shard].term
        return (roll_call, lease) if roll_call and lease else None

    def _shard_of(self, namespace: str) -> int:
        return shard_of(namespace, len(self._leases))

    def _scope(self, shard: int) -> Scope:
        return _scope_of(shard, len(self._leases))


def lease_names(name: str, shards: int) -> list[str]:
    """Names of the Leases of all shards, in order."""
    return [f"{name}-{shard}" for shard in range(shards)]


def _now() -> float:
    return asyncio.get_running_loop().time()


@cache
def _scope_of(shard: int, shards: int) -> Scope:
    """The same object each time."""
    return partial(_is_in, shard, shards)


def _is_in(shard: int, shards: int, namespace: str) -> bool:
    return shard_of(namespace, shards) == shard


@dataclass(frozen=True, slots=True)
class Share:
    """stands: shards that nobody holds and that are this manager's turn. yields: what it holds and others
    should have.
    """

    stands: frozenset[int] = frozenset()
    yields: frozenset[int] = frozenset()


def share_of(shards: int, managers: Mapping[str, frozenset[int]], who: str) -> Share:
    """The share of `who`, one of `managers`: identity → shards that it holds.

    As even as can be: nobody holds two more than another. One that holds more already keeps
    what is left over, so that the fewest shards move.
    """
    targets = _targets(shards, managers)
    mine = sorted(managers[who])
    if len(mine) > targets[who]:
        return Share(yields=frozenset(mine[targets[who] :]))
    missing = [each for each in sorted(managers) for _ in range(targets[each] - len(managers[each]))]
    free = sorted(set(range(shards)).difference(*managers.values()))
    return Share(stands=frozenset(shard for shard, each in zip(free, missing, strict=False) if each == who))


def _targets(shards: int, managers: Mapping[str, frozenset[int]]) -> dict[str, int]:
    """How many each should hold."""
    least, left_over = divmod(shards, len(managers))
    ranked = sorted(managers, key=lambda who: (-len(managers[who]), who))
    return {who: least + (rank < left_over) for rank, who in enumerate(ranked)}


_OFFSET, _PRIME, _BITS = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


@lru_cache(maxsize=16384)
def shard_of(namespace: str, shards: int) -> int:
    """0 to shards - 1: FNV-1a of 64 bits over the name in UTF-8, modulo `shards`.

    The low bits count: in the high ones, names that differ in their last characters hardly differ.
    """
    digest = _OFFSET
    for byte in namespace.encode():
        digest = ((digest ^ byte) * _PRIME) & _BITS
    return digest % shards
