"""Who takes part, where several managers share the work? One Lease that all of them hold together.

In: what this manager holds. Out: the others that were heard of lately, and what they hold; `is_held`, true
only while nobody acts who divides the work in another way, or not at all.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lws.cluster.client.connection import Cluster
from lws.cluster.errors import AlreadyExists, ClusterError, Conflict
from lws.cluster.leases.lease import Candidate, Lease, given_up

log = logging.getLogger(__name__)

MANAGERS_ANNOTATION = "leaderworkerset.sigs.k8s.io/managers"

# A member that is silent for longer may be dead: others stand for what it holds, and get it when it expires.
_PERIODS_HEARD = 3
_ATTEMPTS = 5


@dataclass(slots=True)
class _Heard:
    """What another manager last wrote, and when that was new, by our clock."""

    beat: int
    holds: frozenset[int]
    at: float


class RollCall(Lease):
    """The Lease that a single manager would hold, held by all that know the same number of shards.

    Each of them renews it for itself. So nobody who counts on another number, or holds it alone (other
    releases, the original controller), acts at the same time.
    """

    def __init__(self, cluster: Cluster, who: Candidate, shards: int) -> None:
        super().__init__(cluster, replace(who, identity=f"{shards}-shards"))
        self.holds: frozenset[int] = frozenset()
        self._who = who.identity
        self._shards = shards
        self._beat = 0
        self._heard: dict[str, _Heard] = {}

    def others(self) -> dict[str, frozenset[int]]:
        """Managers that were heard of lately, without this one: identity → shards that they hold."""
        since = self._clock() - _PERIODS_HEARD * self._times.retry_period
        return {who: heard.holds for who, heard in self._heard.items() if heard.at >= since}

    async def release(self) -> None:
        """Take part no more; the last one gives the Lease up."""
        if not self._holds:
            return
        self._holds = False
        try:
            async with asyncio.timeout(self._times.renew_deadline / 2):
                for _ in range(_ATTEMPTS):
                    if await self._leave():
                        return
        except (ClusterError, TimeoutError) as error:
            log.warning("lease %s: not released: %s", self.name, str(error) or "no answer in time")

    async def _leave(self) -> bool:
        """False where somebody else wrote at the same moment: he may have come just now."""
        lease = await self._cluster.get("Lease", self._namespace, self.name)
        if (lease.get("spec") or {}).get("holderIdentity") != self.identity:
            return True
        entries = self._entries(lease)
        entries.pop(self._who, None)
        try:
            await self._cluster.replace(_annotated(lease if entries else given_up(lease), entries))
        except Conflict:
            return False
        log.info("lease %s: left%s", self.name, "" if entries else ", and released by the last one")
        return True

    async def _renew(self) -> dict[str, Any] | None:
        # The others write it too: what we wrote last is hardly ever the latest.
        return None

    async def _take(self) -> dict[str, Any] | None:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await super()._take()
            except (Conflict, AlreadyExists):
                continue
        return await super()._take()

    def _with_us(self, lease: dict[str, Any]) -> dict[str, Any]:
        entries = self._entries(lease)
        self._listen(entries)
        self._beat += 1
        # Who was silent for so long has stopped acting.
        since = self._clock() - self._times.duration
        recent = {who for who, heard in self._heard.items() if heard.at >= since}
        present = {who: each for who, each in entries.items() if who in recent}
        present[self._who] = {"beat": self._beat, "holds": sorted(self.holds)}
        return _annotated(super()._with_us(lease), present)

    def _listen(self, entries: Mapping[str, Any]) -> None:
        """Our clock decides who is silent: a beat counts when it is another one than before."""
        heard = {}
        for who, each in entries.items():
            known = self._heard.get(who)
            is_new = known is None or known.beat != each["beat"]
            at = self._clock() if known is None or is_new else known.at
            if who != self._who:
                heard[who] = _Heard(each["beat"], frozenset(each["holds"]), at)
        self._heard = heard

    def _entries(self, lease: Mapping[str, Any]) -> dict[str, Any]:
        """The annotation, as far as it can be read; nothing of those who divided the work in another way."""
        if (lease.get("spec") or {}).get("holderIdentity") != self.identity:
            return {}
        try:
            found = json.loads((lease["metadata"].get("annotations") or {}).get(MANAGERS_ANNOTATION, "{}"))
        except ValueError:
            return {}
        entries = found.items() if isinstance(found, dict) else ()
        return {who: each for who, each in entries if self._is_entry(each)}

    def _is_entry(self, each: Any) -> bool:
        return (
            isinstance(each, dict)
            and isinstance(each.get("beat"), int)
            and isinstance(each.get("holds"), list)
            and all(isinstance(shard, int) and 0 <= shard < self._shards for shard in each["holds"])
        )


def _annotated(lease: dict[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    metadata = lease["metadata"]
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(MANAGERS_ANNOTATION, None)
    if entries:
        annotations[MANAGERS_ANNOTATION] = json.dumps(entries, sort_keys=True)
    return {**lease, "metadata": {**metadata, "annotations": annotations}}
