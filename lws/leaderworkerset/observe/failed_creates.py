"""What StatefulSet controllers say that they could not create.

In: Events, read live beside the passes. Out: their words, by the StatefulSet they are about. One read serves
all StatefulSets of a namespace: the API server goes through every Event there for each, and whatever keeps
one StatefulSet short of pods (a cluster with much to do, a quota) keeps its neighbours short too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lws import costs, timing
from lws.kube.conditions import FAILED_CREATE, Obstruction
from lws.kube.statefulsets import is_short
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster, pages
from lws.runtime.client.resources import EVENTS
from lws.runtime.errors import ClusterError

log = logging.getLogger(__name__)

_SELECTOR = f"regarding.kind=StatefulSet,type=Warning,reason={FAILED_CREATE}"
_NEVER = datetime.min.replace(tzinfo=UTC)
_MOST_READS = 4
"""At a time: a quota of a whole cluster keeps sets of every namespace short of pods."""

_Words = tuple[datetime, str]
"""When it was last said, and what."""

_NOTHING: _Words = (_NEVER, "")


@dataclass(frozen=True, slots=True)
class Beside:
    """What goes on beside the passes. start: has work done. wake: has a pass over a set look at what came of
    it; called with namespace and name.
    """

    start: Callable[[Coroutine[Any, Any, None]], object]
    wake: Callable[[str, str], None]


@dataclass(slots=True)
class _Namespace:
    """read_at: when its Events were last asked for, whatever came of it. pause: until they are again. words:
    by UID of the StatefulSet. asking: UIDs that sets wait to hear of, by name of the set.
    """

    read_at: datetime = _NEVER
    pause: timedelta = timing.FAILED_CREATES_FRESH
    words: Mapping[str, _Words] = field(default_factory=dict)
    asking: dict[str, frozenset[str]] = field(default_factory=dict)
    is_being_read: bool = False


NOBODY = Beside(lambda work: work.close(), lambda namespace, name: None)
"""Where one look is all that there is."""


class FailedCreates:
    """No pass waits for a read: it goes on with the words of before, and sets for which they are others
    afterwards are woken.

    beside: who has the reads done, and is told of sets. clock: in seconds, tells how long a read takes.
    """

    def __init__(
        self,
        cluster: Cluster,
        beside: Beside,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._beside = beside
        self._clock = clock
        self._reads = asyncio.Semaphore(_MOST_READS)
        self._namespaces: dict[str, _Namespace] = {}

    def ask(self, namespace: str, name: str, uids: Collection[str], now: datetime) -> None:
        """Have the Events of a namespace read, unless they were a moment ago. name: of the set that wants to
        hear of the StatefulSets with these UIDs.
        """
        known = self._namespaces.setdefault(namespace, _Namespace())
        if not known.is_being_read and now - known.read_at < known.pause:
            return
        known.asking[name] = frozenset(uids)
        if not known.is_being_read:
            known.is_being_read, known.read_at = True, now
            self._forget_before(now - timing.FAILED_CREATES_FORGOTTEN)
            self._beside.start(self._read(namespace, known))

    def about(self, namespace: str, uid: str, now: datetime) -> str:
        """The newest words about the StatefulSet with this UID, as far as they were read; empty where there
        are none.
        """
        return self._newest(namespace, uid, now)[1]

    def last_about(self, namespace: str, uid: str, now: datetime) -> datetime | None:
        """When words about it were said last, as far as that was read; None where there are none."""
        moment, _ = self._newest(namespace, uid, now)
        return moment if moment > _NEVER else None

    def _newest(self, namespace: str, uid: str, now: datetime) -> _Words:
        known = self._namespaces.get(namespace)
        said = known.words.get(uid, _NOTHING) if known is not None else _NOTHING
        return said if now - said[0] < timing.FAILED_CREATES_TRUE else _NOTHING

    async def _read(self, namespace: str, known: _Namespace) -> None:
        """Where Events cannot be read, what was known stays known."""
        began, newest = self._clock(), dict[str, _Words]()
        try:
            async with self._reads:
                began = self._clock()
                query = {"fieldSelector": _SELECTOR}
                async for page in pages(self._cluster, EVENTS, query, namespace=namespace):
                    _take_in(page.get("items") or (), newest)
        except ClusterError as error:
            log.debug("Events of namespace %s cannot be read: %s", namespace, error.message)
            newest = dict(known.words)
        finally:
            known.pause = costs.read_pause(self._clock() - began)
            asking, known.asking, known.is_being_read = known.asking, {}, False
        before, known.words = known.words, newest
        for name, uids in asking.items():
            if any(before.get(uid) != newest.get(uid) for uid in uids):
                self._beside.wake(namespace, name)

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


# --- Which StatefulSets of a set cannot get their pods made, and why.


# Groups of one set lack their pods for one reason; to report it for each of a thousand would help nobody.
_MOST_REPORTED = 3


@dataclass(slots=True)
class _Short:
    """One StatefulSet that is short of pods. checked: when its Events were last asked for."""

    since: datetime
    checked: datetime | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """look_again: seconds until there may be more to know, None where no pod is missing. refused_at: when a
    pod was last refused to each StatefulSet that is short for a while, by UID.
    """

    obstructions: tuple[Obstruction, ...] = ()
    look_again: float | None = None
    refused_at: Mapping[str, datetime] = field(default_factory=dict)


class Shortages:
    """What it knows is found again after a restart."""

    def __init__(self, failed: FailedCreates) -> None:
        self._failed = failed
        self._sets: dict[tuple[str, str], dict[str, _Short]] = {}

    def of_set(self, namespace: str, name: str, statefulsets: Iterable[Object], now: datetime) -> Shortage:
        """statefulsets: of the set's leaders and workers, the leaders' first."""
        short = {
            statefulset["metadata"]["uid"]: statefulset
            for statefulset in statefulsets
            if is_short(statefulset)
        }
        if not short:
            self._sets.pop((namespace, name), None)
            return Shortage()
        known = self._sets.get((namespace, name), {})
        watched = self._sets[namespace, name] = {uid: known.get(uid, _Short(now)) for uid in short}
        lasting = [uid for uid, each in watched.items() if now - each.since >= timing.SHORT_OF_PODS_FOR]
        reported = list(short.items())[:_MOST_REPORTED]
        due = [watched[uid] for uid, _ in reported if _due(watched[uid], now) <= 0]
        if due:
            for each in due:
                each.checked = now
            self._failed.ask(namespace, name, lasting, now)
        found = tuple(
            Obstruction(f"StatefulSet {each['metadata']['name']} is short of pods", words)
            for uid, each in reported
            if watched[uid].checked is not None and (words := self._failed.about(namespace, uid, now))
        )
        look_again = max(1.0, min(_due(watched[uid], now) for uid, _ in reported))
        # One read of Events has told it of all StatefulSets of the namespace.
        last = ((uid, self._failed.last_about(namespace, uid, now)) for uid in lasting)
        return Shortage(found, look_again, {uid: moment for uid, moment in last if moment is not None})

    def forget(self, namespace: str, name: str) -> None:
        """There is no set of this name any more."""
        self._sets.pop((namespace, name), None)


def _due(short: _Short, now: datetime) -> float:
    """Seconds until its Events are to be read."""
    if short.checked is None:
        return (short.since + timing.SHORT_OF_PODS_FOR - now).total_seconds()
    return (short.checked + timing.FAILED_CREATES_READ_AGAIN - now).total_seconds()
