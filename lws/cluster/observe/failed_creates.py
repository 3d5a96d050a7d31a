"""What do StatefulSet controllers say that they could not create?

In: Events, read live. Out: their words, by the StatefulSet they are about. One read serves all StatefulSets
of a namespace: the API server goes through every Event there for each, and whatever keeps one StatefulSet
short of pods (a cluster with much to do, a quota) keeps its neighbours short too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lws import costs, timing
from lws.cluster.client.connection import Cluster
from lws.cluster.client.pages import pages
from lws.cluster.client.resources import EVENTS
from lws.cluster.errors import ClusterError
from lws.kube.refusals import FAILED_CREATE

log = logging.getLogger(__name__)

_SELECTOR = f"regarding.kind=StatefulSet,type=Warning,reason={FAILED_CREATE}"
_NEVER = datetime.min.replace(tzinfo=UTC)

_Words = tuple[datetime, str]
"""When it was last said, and what."""

_NOTHING: _Words = (_NEVER, "")


@dataclass(slots=True)
class _Namespace:
    """read_at: when its Events were last asked for, whatever came of it. pause: until they are again. words:
    by UID of the StatefulSet.
    """

    read_at: datetime = _NEVER
    pause: timedelta = timing.FAILED_CREATES_FRESH
    words: dict[str, _Words] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class FailedCreates:
    """One per process. clock: in seconds, tells how long a read takes."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._namespaces: defaultdict[str, _Namespace] = defaultdict(_Namespace)

    async def words_about(self, namespace: str, uid: str, now: datetime) -> str:
        """The newest words about the StatefulSet with this UID, empty where there are none; they may be some
        seconds old.
        """
        known = self._namespaces[namespace]
        async with known.turn:
            if now - known.read_at >= known.pause:
                await self._read(namespace, known, now)
        moment, words = known.words.get(uid, _NOTHING)
        return words if now - moment < timing.FAILED_CREATES_TRUE else ""

    def last_about(self, namespace: str, uid: str, now: datetime) -> datetime | None:
        """When words about it were said last, as far as that was read; None where there are none."""
        known = self._namespaces.get(namespace)
        moment, _ = known.words.get(uid, _NOTHING) if known is not None else _NOTHING
        return moment if now - moment < timing.FAILED_CREATES_TRUE else None

    async def _read(self, namespace: str, known: _Namespace, now: datetime) -> None:
        """Where Events cannot be read, what was known stays known: nobody waits for it."""
        self._forget_before(now - timing.FAILED_CREATES_FORGOTTEN)
        self._namespaces[namespace] = known
        known.read_at, began = now, self._clock()
        newest: dict[str, _Words] = {}
        try:
            async for page in pages(self._cluster, EVENTS, {"fieldSelector": _SELECTOR}, namespace=namespace):
                _take_in(page.get("items") or (), newest)
        except ClusterError as error:
            log.debug("Events of namespace %s cannot be read: %s", namespace, error.message)
            return
        finally:
            known.pause = costs.read_pause(self._clock() - began)
        known.words = newest

    def _forget_before(self, moment: datetime) -> None:
        for namespace in [name for name, each in self._namespaces.items() if each.read_at < moment]:
            del self._namespaces[namespace]


def _take_in(events: Iterable[Mapping[str, Any]], newest: dict[str, _Words]) -> None:
    """Of the same moment always the same one, in whatever order they come."""
    for event in events:
        uid, words = (event.get("regarding") or {}).get("uid") or "", str(event.get("note") or "")
        if not words:
            continue
        moment, before = _moment(event), newest.get(uid)
        if before is None or moment > before[0] or (moment == before[0] and words < before[1]):
            newest[uid] = (moment, words)


def _moment(event: Mapping[str, Any]) -> datetime:
    """When it was last seen (events.k8s.io/v1, or written by a client of the older API)."""
    series = event.get("series") or {}
    told = (
        series.get("lastObservedTime")
        or event.get("deprecatedLastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return datetime.fromisoformat(told).astimezone(UTC) if told else _NEVER
