"""Share the namespaces among several managers by shards.

There is one membership Lease, and one Lease for each shard.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from lws.kube.names import fnv_1a
from lws.kube.patches import escaped
from lws.runtime.actions import Reference
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound
from lws.runtime.events import micro_time
from lws.runtime.leadership.election import OnChange, OnLeading, Scope
from lws.runtime.leadership.lease import ATTEMPTS, Candidate, Lease, released
from lws_api.leaderworkerset.v1 import LABEL_PREFIX

# --- Track the managers that share the shards, through one Lease that all of them hold together.


MANAGER_ANNOTATION = f"{LABEL_PREFIX}/manager-"
"""Prefix of the annotations of managers. Each manager has its own annotation."""

_FORMER_ANNOTATION = f"{LABEL_PREFIX}/managers"

# Retry periods of silence after which others compete for a member's shards, whose Leases must still expire.
_PERIODS_HEARD = 3


@dataclass(slots=True)
class _Heard:
    """The last annotation of a manager.

    text: its value. at: when it changed, by our clock. who: the manager's identity; empty if it cannot be
    read. holds: the shards of the manager.
    """

    text: str
    at: float
    who: str = ""
    holds: frozenset[int] = frozenset()


class ShardMembership(Lease):
    """The Lease of a single manager, held together by all managers with the same number of shards.

    Each manager renews it by a patch, without waiting for the others. So no manager with another number of
    shards, and no controller that holds the Lease alone (other releases, upstream), acts at the same time.
    """

    def __init__(self, cluster: Cluster, who: Candidate, shards: int) -> None:
        super().__init__(cluster, replace(who, identity=f"{shards}-shards"))
        self.holds: frozenset[int] = frozenset()
        self._who = who.identity
        self._key = MANAGER_ANNOTATION + hashlib.sha256(who.identity.encode()).hexdigest()[:16]
        self._shards = shards
        self._beat = 0
        # The other managers, by the key of their annotation.
        self._heard: dict[str, _Heard] = {}

    def others(self) -> dict[str, frozenset[int]]:
        """Return other managers with a recent renewal: identity → shards that they hold."""
        recent = self._heard_within(_PERIODS_HEARD * self._times.retry_period)
        return {member.who: member.holds for member in recent if member.who}

    async def _try(self) -> None:
        await super()._try()
        # A member that has not renewed for the duration of the Lease has stopped acting.
        recent = {member.text for member in self._heard_within(self._times.duration)}
        silent = {key: member.text for key, member in self._heard.items() if member.text not in recent}
        await asyncio.gather(*(self._remove_member(key, text) for key, text in silent.items()))

    async def _remove_member(self, key: str, text: str) -> None:
        path = _path(key)
        operations = [{"op": "test", "path": path, "value": text}, {"op": "remove", "path": path}]
        try:
            await self._cluster.patch(self._reference(), operations)
        except (Invalid, NotFound):
            # The member has renewed, or another manager has removed it.
            log.debug("lease %s: %s has changed", self.name, key)

    async def _try_release(self) -> bool:
        """Remove our entry; the last manager releases the Lease. Return False if another has just joined."""
        lease, self._stored = self._stored, None
        try:
            lease = lease or await self._cluster.get("Lease", self._namespace, self.name)
            if _holder(lease) != self.identity:
                return True
            if self._key in _annotations(lease):
                leaving = [self._test(), {"op": "remove", "path": _path(self._key)}]
                lease = await self._cluster.patch(self._reference(), leaving)
            self._listen(lease)
            is_last = not self._heard_within(self._times.duration)
            if is_last:
                await self._cluster.replace(released(_without_members(lease), self._cluster.now))
        except NotFound:
            return True
        except (Conflict, Invalid):
            return False
        log.info("lease %s: left%s", self.name, ", and released by the last one" if is_last else "")
        return True

    async def _renew(self) -> dict[str, Any] | None:
        if self._stored is None:
            return None
        try:
            return await self._join(self._stored)
        except (NotFound, Invalid, Conflict):
            return None

    async def _take(self) -> dict[str, Any] | None:
        for _ in range(ATTEMPTS - 1):
            try:
                return await super()._take()
            except (Conflict, AlreadyExists, Invalid):
                continue
        return await super()._take()

    async def _taken(self, lease: dict[str, Any]) -> dict[str, Any] | None:
        if _holder(lease) == self.identity:
            return await self._join(lease)
        return await super()._taken(lease)

    async def _join(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Add or renew our own entry in the last known state of the Lease, and return the Lease."""
        duration = max(int(lease["spec"].get("leaseDurationSeconds") or 0), self._duration_seconds())
        own = self._entry()
        operations = [
            self._test(),
            {"op": "add", "path": "/spec/renewTime", "value": micro_time(self._cluster.now)},
            {"op": "add", "path": "/spec/leaseDurationSeconds", "value": duration},
            {"op": "add", "path": _path(self._key), "value": own}
            if _annotations(lease)
            else {"op": "add", "path": "/metadata/annotations", "value": {self._key: own}},
        ]
        stored = await self._sent(self._cluster.patch(self._reference(), operations))
        self._listen(stored)
        return stored

    def _with_us(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Return the Lease with our entry, without the entries of managers with another number of shards."""
        self._heard = {}
        lease = _without_members(super()._with_us(lease))
        metadata = lease["metadata"]
        return {
            **lease,
            "metadata": {**metadata, "annotations": {**_annotations(lease), self._key: self._entry()}},
        }

    def _entry(self) -> str:
        self._beat += 1
        entry = {"who": self._who, "beat": self._beat, "holds": sorted(self.holds)}
        return json.dumps(entry, sort_keys=True)

    def _listen(self, lease: Mapping[str, Any]) -> None:
        """Record when the annotation of each other member changed, by our own clock."""
        now, heard = self._clock(), {}
        for key, text in _annotations(lease).items():
            if key.startswith(MANAGER_ANNOTATION) and key != self._key:
                before = self._heard.get(key)
                heard[key] = (
                    before if before is not None and before.text == text else self._read_entry(text, now)
                )
        self._heard = heard

    def _heard_within(self, seconds: float) -> list[_Heard]:
        since = self._clock() - seconds
        return [member for member in self._heard.values() if member.at >= since]

    def _read_entry(self, text: str, now: float) -> _Heard:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            return _Heard(text, now)
        who, holds = (entry.get("who"), entry.get("holds")) if isinstance(entry, dict) else (None, None)
        if not isinstance(who, str) or not isinstance(holds, list):
            return _Heard(text, now)
        if not all(isinstance(shard, int) and 0 <= shard < self._shards for shard in holds):
            return _Heard(text, now)
        return _Heard(text, now, who, frozenset(holds))

    def _reference(self) -> Reference:
        return Reference.to(self._unwritten())

    def _test(self) -> dict[str, Any]:
        return {"op": "test", "path": "/spec/holderIdentity", "value": self.identity}


def _holder(lease: Mapping[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _annotations(lease: Mapping[str, Any]) -> dict[str, str]:
    return lease["metadata"].get("annotations") or {}


def _without_members(lease: dict[str, Any]) -> dict[str, Any]:
    """Return the Lease without the annotations of managers."""
    remaining = {
        key: value
        for key, value in _annotations(lease).items()
        if not key.startswith((MANAGER_ANNOTATION, _FORMER_ANNOTATION))
    }
    return {**lease, "metadata": {**lease["metadata"], "annotations": remaining}}


def _path(annotation: str) -> str:
    return f"/metadata/annotations/{escaped(annotation)}"


log = logging.getLogger(__name__)

Tenure = tuple[int, int]
"""(term of the membership Lease, term of the Lease of the shard); neither is 0."""


class ShardElection:
    """An election for an even share of the Leases `<name>-0` to `<name>-<shards - 1>`, or for all if alone.

    is_idle: whether no pass runs and no write is in flight in a scope; only then its shard is released.
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
        self._membership = ShardMembership(cluster, who, shards)
        self._leases = [
            Lease(cluster, replace(who, name=name), is_guarded=True) for name in lease_names(who.name, shards)
        ]
        # The scope of each shard. Callers need the same object each time.
        self._scopes = [partial(_is_in, shard, shards) for shard in range(shards)]
        self._on_leading = on_leading
        self._is_idle = is_idle
        # By shard: set while this manager should renew, acquire or release the Lease of the shard.
        self._due = [asyncio.Event() for _ in self._leases]
        self._acting: dict[int, Tenure] = {}
        self._yielding: frozenset[int] = frozenset()
        for lease in self._leases:
            on_leading(lease.name, False)

    def may_write(self, namespace: str) -> bool:
        return self._term(self._shard_of(namespace)) is not None

    def time_left(self, namespace: str) -> float:
        return min(self._membership.time_left, self._leases[self._shard_of(namespace)].time_left)

    def acts_on(self, namespace: str) -> bool:
        return self._shard_of(namespace) in self._acting

    async def run(self, on_gain: OnChange, on_loss: OnChange) -> None:
        """Compete for shards, with a task for each Lease, so that no renewal waits for another Lease."""
        # From now on, measure how long other holders have not renewed.
        await asyncio.gather(*(lease.observe() for lease in self._leases))
        decide = partial(self._decide, on_gain, on_loss)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._renew_membership(decide))
            for shard in range(len(self._leases)):
                tasks.create_task(self._keep(shard, decide))

    async def release(self) -> None:
        # Released first, so that the others count one manager fewer when the shards become free.
        await self._membership.release()
        await asyncio.gather(*(lease.release() for lease in self._leases))

    async def _renew_membership(self, decide: Callable[[], None]) -> None:
        while True:
            began = _now()
            self._membership.holds = self._ours()
            await self._membership.attempt()
            decide()
            await self._pause(began)

    async def _keep(self, shard: int, decide: Callable[[], None]) -> None:
        """Renew the Lease of a shard while it is held, acquire it in turn, and release it beyond the share.

        The release waits until passes have ended, and then for one more period in which Events are written.
        """
        lease, was_surplus = self._leases[shard], False
        while True:
            await self._due[shard].wait()
            began = _now()
            if was_surplus and shard in self._yielding and self._is_idle(self._scopes[shard]):
                await lease.release()
            else:
                await lease.attempt()
            decide()
            was_surplus = shard in self._yielding
            await self._pause(began)

    async def _pause(self, began: float) -> None:
        """Wait until the next attempt is due. Jitter spreads the attempts of the candidates."""
        jitter = 1.0 if self._acting else random.uniform(1.0, 1.2)
        await asyncio.sleep(began + self._retry_period * jitter - _now())

    def _decide(self, on_gain: OnChange, on_loss: OnChange) -> None:
        share, takes_part = self._share(), self._membership.is_held()
        # Without the membership Lease, this manager leaves the shards to the others.
        due_shards = self._ours() | share.acquires if takes_part else frozenset[int]()
        for shard, event in enumerate(self._due):
            if shard in due_shards:
                event.set()
            else:
                event.clear()
        self._turn_to(share.yields, on_gain, on_loss)

    def _share(self) -> Share:
        if not self._membership.is_held():
            return Share()
        others = self._membership.others()
        for shard in frozenset[int]().union(*others.values()):
            self._leases[shard].assume_holder()
        return share_of(len(self._leases), {**others, self._who: self._ours()}, self._who)

    def _turn_to(self, yielding: frozenset[int], on_gain: OnChange, on_loss: OnChange) -> None:
        """Report gained and lost shards. A shard to release is reported as lost before it is released."""
        for shard in sorted(yielding - self._yielding):
            log.info("lease %s: released to another manager", self._leases[shard].name)
        self._yielding = yielding
        for shard, lease in enumerate(self._leases):
            term = None if shard in yielding else self._term(shard)
            acting = self._acting.get(shard)
            if acting == term:
                continue
            if acting is not None:
                del self._acting[shard]
                if shard not in yielding:
                    log.warning("lease %s: lost: stopped reconciling, trying to reacquire", lease.name)
                self._on_leading(lease.name, False)
                on_loss(self._scopes[shard])
            if term is not None:
                self._acting[shard] = term
                log.info("lease %s: held by this manager (%s)", lease.name, self._who)
                self._on_leading(lease.name, True)
                on_gain(self._scopes[shard])

    def _ours(self) -> frozenset[int]:
        return frozenset(shard for shard, lease in enumerate(self._leases) if lease.is_ours)

    def _term(self, shard: int) -> Tenure | None:
        """Return the terms of the Leases for a shard; None if another process may be acting on the shard."""
        membership, lease = self._membership.term, self._leases[shard].term
        return (membership, lease) if membership and lease else None

    def _shard_of(self, namespace: str) -> int:
        return shard_of(namespace, len(self._leases))


def lease_names(name: str, shards: int) -> list[str]:
    """Return the names of the Leases of all shards, in order."""
    return [f"{name}-{shard}" for shard in range(shards)]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_in(shard: int, shards: int, namespace: str) -> bool:
    return shard_of(namespace, shards) == shard


@dataclass(frozen=True, slots=True)
class Share:
    """How the shards of one manager should change: free ones to acquire, and held ones to yield to others."""

    acquires: frozenset[int] = frozenset()
    yields: frozenset[int] = frozenset()


def share_of(shards: int, managers: Mapping[str, frozenset[int]], who: str) -> Share:
    """Compute the share of the manager `who`, one of `managers` (identity → shards that the manager holds).

    Shares differ by at most one shard. Managers that hold more keep the surplus, so that the fewest shards
    move. Each manager decides for itself from the entries that it has read. If two managers read different
    entries, the Leases prevent that both hold the same shard.
    """
    least, left_over = divmod(shards, len(managers))
    ranked = sorted(managers, key=lambda manager: (-len(managers[manager]), manager))
    targets = {manager: least + (rank < left_over) for rank, manager in enumerate(ranked)}
    mine = sorted(managers[who])
    if len(mine) > targets[who]:
        return Share(yields=frozenset(mine[targets[who] :]))
    missing = [
        manager for manager in sorted(managers) for _ in range(targets[manager] - len(managers[manager]))
    ]
    free = sorted(set(range(shards)).difference(*managers.values()))
    return Share(
        acquires=frozenset(shard for shard, manager in zip(free, missing, strict=False) if manager == who)
    )


@lru_cache(maxsize=16384)
def shard_of(namespace: str, shards: int) -> int:
    """Return the shard of a namespace, 0 to shards - 1.

    It is the 64-bit FNV-1a of the name in UTF-8, modulo `shards`. Every process and every release must
    compute it alike, or two of them would act on the same sets. The low bits are used, because names that
    differ only in their last characters hardly differ in the high bits.
    """
    return fnv_1a(namespace, bits=64) % shards
