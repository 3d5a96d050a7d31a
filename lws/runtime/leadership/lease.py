"""Leader election over one Lease, as in client-go, measured by a monotonic clock.

`is_held` is true only while no other manager can be acting.

The elector of the kubernetes client is not used. It measures with the wall clock, writes local time as UTC,
ends on the first connection error and never releases the Lease.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ClusterError, Conflict, NotFound
from lws.runtime.events import micro_time
from lws.runtime.informer import Rollback

log = logging.getLogger(__name__)

ATTEMPTS = 5
"""Number of attempts if other clients write at the same moment."""

# Share of the time between renew deadline and expiry that writes in flight must leave.
_MARGIN = 0.2
# Retry periods without a read after which it is unknown whether the Lease was missing all the time.
_PERIODS_WATCHED = 5
# Stands for a holder that was never observed.
_UNKNOWN = "unknown"


def since_boot() -> float:
    """Return the seconds since boot, including suspensions of the machine: other managers waited then."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The durations of a Lease in seconds.

    duration: how long other managers wait for a silent holder. renew_deadline: how long we act after our last
    renewal. retry_period: the interval between attempts to acquire or renew the Lease.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate for a Lease, and the record that is notified if a Lease is older than before."""

    namespace: str
    name: str
    identity: str
    times: LeaseTimes
    clock: Callable[[], float] = since_boot
    rollback: Rollback = field(default_factory=Rollback)


class Lease:
    """A coordination.k8s.io/v1 Lease from the point of view of one candidate.

    A missing Lease is acquired only after its duration: somebody may have deleted it, and its holder may not
    know that yet. So a new installation waits for that time, too.

    is_guarded: whether another Lease shows the holders of this one. Then it is missing because nobody holds
    it, unless `assume_holder` was called.
    """

    def __init__(self, cluster: Cluster, who: Candidate, *, is_guarded: bool = False) -> None:
        self.identity = who.identity
        self.name = who.name
        self._rollback = who.rollback
        self._cluster = cluster
        self._namespace = who.namespace
        self._times = who.times
        self._clock = who.clock
        self._holds = False
        self._renewed_at = self._sent_at = 0.0
        # Number of acquisitions; it also grows if the Lease lapsed and was reacquired between two checks.
        self._gains = 0
        # Whether the stored Lease may name us as its holder: a write without a response may have been stored.
        self._may_be_ours = False
        # The result of our last successful write.
        self._stored: dict[str, Any] | None = None
        # The newest version that was read or written.
        self._newest = 0
        # The last observed holder, when it last changed, and how long to wait from then on. The holder's
        # clock is never compared with ours.
        self._seen: Any = None if is_guarded else _UNKNOWN
        self._seen_at = self._read_at = 0.0
        self._patience = who.times.duration

    def is_held(self) -> bool:
        """Return whether we hold the Lease and our last renewal is younger than the renew deadline."""
        return self._holds and self._clock() - self._renewed_at < self._times.renew_deadline

    @property
    def is_ours(self) -> bool:
        """Whether we hold the Lease, or can still renew it because nobody can have acquired it yet."""
        return self._holds and self._clock() - self._renewed_at < self._times.duration

    @property
    def time_left(self) -> float:
        """Seconds within which a write that starts now must end, because no other manager relists earlier."""
        times = self._times
        until = times.duration - _MARGIN * (times.duration - times.renew_deadline)
        return self._renewed_at + until - self._clock() if self.is_held() else 0.0

    @property
    def term(self) -> int:
        """The number of the current term, from 1 on; 0 while the Lease is not held."""
        return self._gains if self.is_held() else 0

    async def attempt(self) -> None:
        """Renew the Lease, or acquire it if that is allowed. Errors are logged."""
        try:
            await self._try()
        except (ClusterError, TimeoutError) as error:
            log.warning("lease %s: %s", self.name, str(error) or "no response in time")

    async def observe(self) -> None:
        """Begin to measure the holder's silence, without acquiring the Lease."""
        try:
            self._may_take((await self._read()).get("spec") or {})
        except (ClusterError, TimeoutError) as error:
            log.debug("lease %s: %s", self.name, str(error) or "no response in time")

    def assume_holder(self) -> None:
        """Assume that a guarded Lease has a holder, so that it is acquired only after its duration."""
        self._seen = self._seen or _UNKNOWN

    async def run(self, on_gain: Callable[[], None], on_loss: Callable[[], None]) -> None:
        """Try to acquire and renew the Lease indefinitely, and to reacquire it after it was lost."""
        acting = 0
        while True:
            await self.attempt()
            gained = self.term
            if acting and acting != gained:
                log.warning("lease %s: lost: stopped reconciling, trying to reacquire", self.name)
                on_loss()
            if gained and acting != gained:
                log.info("lease %s: held by this manager (%s)", self.name, self.identity)
                on_gain()
            acting = gained
            # Jitter spreads the attempts of the candidates.
            jitter = 1.0 if gained else random.uniform(1.0, 1.2)
            await asyncio.sleep(self._times.retry_period * jitter)

    async def release(self) -> None:
        """Release the Lease, so that another manager need not wait for it to expire."""
        if not self._may_be_ours:
            return
        self._holds = False
        try:
            async with self._timeout():
                for _ in range(ATTEMPTS):
                    if await self._try_release():
                        self._may_be_ours = False
                        return
        except (ClusterError, TimeoutError) as error:
            log.warning("lease %s: not released: %s", self.name, str(error) or "no response in time")

    async def _try_release(self) -> bool:
        """Release the Lease. Return False if another client, or a late write of ours, changed it."""
        # Use the result of our last write; if it is not the newest version, the server reports a conflict.
        lease, self._stored = self._stored, None
        try:
            lease = lease or await self._cluster.get("Lease", self._namespace, self.name)
            if (lease.get("spec") or {}).get("holderIdentity") not in ("", None, self.identity):
                return True
            # Written even if the Lease names no holder, so that a late write of ours gets a conflict.
            await self._cluster.replace(released(lease, self._cluster.now))
        except NotFound:
            return True
        except Conflict:
            return False
        log.info("lease %s: released", self.name)
        return True

    async def _try(self) -> None:
        stored = await self._renew() or await self._take()
        self._stored = stored
        if stored is None:
            self._holds = False
            return
        self._check_version(stored)
        if not self.is_held():
            self._gains += 1
        self._holds = True
        self._renewed_at = self._sent_at
        self._seen, self._seen_at, self._patience = self.identity, self._sent_at, self._times.duration

    async def _renew(self) -> dict[str, Any] | None:
        """Write our last state of the Lease with a new time, in one request instead of two.

        Return None if another client has written the Lease since.
        """
        if self._stored is None:
            return None
        try:
            return await self._sent(self._cluster.replace(self._with_us(self._stored)))
        except (Conflict, NotFound):
            return None

    async def _take(self) -> dict[str, Any] | None:
        """Read the Lease and acquire it. Return None if that is not allowed."""
        try:
            return await self._taken(await self._read())
        except NotFound:
            if self._seen == _UNKNOWN:
                log.info("lease %s: missing: waiting for a holder that may not know it yet", self.name)
            return await self._taken(self._unwritten())

    async def _taken(self, lease: dict[str, Any]) -> dict[str, Any] | None:
        if not self._may_take(lease.get("spec") or {}):
            return None
        write = self._cluster.replace if "resourceVersion" in lease["metadata"] else self._cluster.create
        return await self._sent(write(self._with_us(lease)))

    async def _sent(self, write: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Return the result of a write that acquires or renews the Lease."""
        # Measured before the request, because the server may store it at once.
        self._may_be_ours, self._sent_at = True, self._clock()
        async with self._timeout():
            return await write

    async def _read(self) -> dict[str, Any]:
        async with self._timeout():
            lease = await self._cluster.get("Lease", self._namespace, self.name)
        self._check_version(lease)
        return lease

    def _timeout(self) -> asyncio.Timeout:
        """Return a timeout of half the renew deadline, so that one missing response loses no Lease."""
        return asyncio.timeout(self._times.renew_deadline / 2)

    def _check_version(self, lease: dict[str, Any]) -> None:
        version = lease["metadata"].get("resourceVersion", "")
        self._newest = self._rollback.check(f"lease {self.name}", version, self._newest)

    def _with_us(self, lease: dict[str, Any]) -> dict[str, Any]:
        spec = lease.get("spec") or {}
        now, is_ours = micro_time(self._cluster.now), spec.get("holderIdentity") == self.identity
        desired = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._duration_seconds(),
            "acquireTime": spec.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if is_ours or not spec else 1),
        }
        return {**lease, "spec": {**spec, **desired}}

    def _duration_seconds(self) -> int:
        return math.ceil(self._times.duration)

    def _unwritten(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self._namespace},
        }

    def _may_take(self, spec: dict[str, Any]) -> bool:
        """Return whether the Lease may be acquired.

        One that was deleted, or emptied by a client other than its holder, must expire too: the holder may
        not know.
        """
        # Measured after the response, because the holder may have renewed the Lease until then.
        now = self._clock()
        holder = spec.get("holderIdentity") or None
        # Upstream releases the Lease in the same way.
        is_released = holder is None and spec.get("leaseDurationSeconds") == 1
        if is_released or (self.is_ours and holder in (None, self.identity)):
            self.assume_holder()
            return True
        if holder != self.identity and (holder or self._seen is not None):
            seen = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
            # A missing Lease may have existed in between.
            is_watched = bool(holder) or now - self._read_at < _PERIODS_WATCHED * self._times.retry_period
            if seen != self._seen or not is_watched:
                self._seen, self._seen_at = seen, now
            self._read_at = now
            if holder:
                self._patience = float(spec.get("leaseDurationSeconds") or self._times.duration)
        return self._seen is None or now - self._seen_at > self._patience


def released(lease: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return the Lease without a holder, so that other managers can acquire it at once."""
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}
    return {**lease, "spec": {**(lease.get("spec") or {}), **spec}}
