"""Track the managers that share the shards, through one Lease that all of them hold together.

In: what this manager holds. Out: the other managers that were heard of lately, and what they hold; `is_held`,
true only while no manager acts that divides the work in another way, or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lws.runtime.actions import Reference
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound
from lws.runtime.leadership.lease import ATTEMPTS, Candidate, Lease, given_up, micro_time

log = logging.getLogger(__name__)

MANAGER_ANNOTATION = "leaderworkerset.sigs.k8s.io/manager-"
"""What the annotations of the managers begin with: each has one of its own."""

_FORMER_ANNOTATION = "leaderworkerset.sigs.k8s.io/managers"

# A member that is silent for longer may be dead: others stand for what it holds, and get it when it expires.
_PERIODS_HEARD = 3


@dataclass(slots=True)
class _Heard:
    """What a manager last wrote, and when that was new, by our clock. who: empty where it cannot be read."""

    text: str
    at: float
    who: str = ""
    holds: frozenset[int] = frozenset()


class ShardMembership(Lease):
    """The Lease that a single manager would hold, held by all that know the same number of shards.

    Each of them renews it for itself, by a patch: they never wait for each other. So nobody who counts on
    another number, or holds it alone (other releases, the original controller), acts at the same time.
    """

    def __init__(self, cluster: Cluster, who: Candidate, shards: int) -> None:
        super().__init__(cluster, replace(who, identity=f"{shards}-shards"))
        self.holds: frozenset[int] = frozenset()
        self._who = who.identity
        self._key = MANAGER_ANNOTATION + hashlib.sha256(who.identity.encode()).hexdigest()[:16]
        self._shards = shards
        self._beat = 0
        # By annotation, without our own.
        self._heard: dict[str, _Heard] = {}

    def others(self) -> dict[str, frozenset[int]]:
        """Managers that were heard of lately, without this one: identity → shards that they hold."""
        heard = self._heard_within(_PERIODS_HEARD * self._times.retry_period)
        return {each.who: each.holds for each in heard if each.who}

    async def _try(self) -> None:
        await super()._try()
        # Who was silent for so long has stopped acting.
        recent = {each.text for each in self._heard_within(self._times.duration)}
        silent = {key: each.text for key, each in self._heard.items() if each.text not in recent}
        await asyncio.gather(*(self._strike_off(key, text) for key, text in silent.items()))

    async def _strike_off(self, key: str, text: str) -> None:
        path = _path(key)
        operations = [{"op": "test", "path": path, "value": text}, {"op": "remove", "path": path}]
        try:
            await self._cluster.patch(self._reference(), operations)
        except (Invalid, NotFound):
            # It is back, or somebody else has done it.
            log.debug("lease %s: %s is not as it was any more", self.name, key)

    async def _give_up(self) -> bool:
        """Take part no more; the last one gives the Lease up. False where somebody came just now."""
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
                await self._cluster.replace(given_up(_struck(lease)))
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
        """Renew it for ourselves, beside others who do. lease: as it was seen last."""
        duration = max(int(lease["spec"].get("leaseDurationSeconds") or 0), self._duration_seconds())
        own = self._entry()
        operations = [
            self._test(),
            {"op": "add", "path": "/spec/renewTime", "value": micro_time()},
            {"op": "add", "path": "/spec/leaseDurationSeconds", "value": duration},
            {"op": "add", "path": _path(self._key), "value": own}
            if _annotations(lease)
            else {"op": "add", "path": "/metadata/annotations", "value": {self._key: own}},
        ]
        stored = await self._sent(self._cluster.patch(self._reference(), operations))
        self._listen(stored)
        return stored

    def _with_us(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Nothing stays of those who divided the work in another way."""
        self._heard = {}
        lease = _struck(super()._with_us(lease))
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
        """Our clock decides who is silent: what is written counts when it is another text than before."""
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
        return [each for each in self._heard.values() if each.at >= since]

    def _read_entry(self, text: str, now: float) -> _Heard:
        try:
            entry = json.loads(text)
        except ValueError:
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


def _struck(lease: dict[str, Any]) -> dict[str, Any]:
    """Without any manager."""
    kept = {
        key: value
        for key, value in _annotations(lease).items()
        if not key.startswith((MANAGER_ANNOTATION, _FORMER_ANNOTATION))
    }
    return {**lease, "metadata": {**lease["metadata"], "annotations": kept}}


def _path(annotation: str) -> str:
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")
