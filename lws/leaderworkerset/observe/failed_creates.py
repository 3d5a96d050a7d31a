"""Find out why StatefulSet controllers cannot create pods, from their FailedCreate Events.

Events are read live, in the background. One read serves all StatefulSets of a namespace: the API server scans
all Events of the namespace for each read, and the cause (a busy cluster, a quota) usually affects several.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lws import timing
from lws.kube.conditions import FAILED_CREATE, Rejection, elapsed, moment_of
from lws.kube.metadata import uid_of
from lws.kube.statefulsets import is_short
from lws.leaderworkerset.assessment.prewarm import is_idle
from lws.runtime import costs
from lws.runtime.actions import Object
from lws.runtime.client.connection import Cluster, pages
from lws.runtime.client.resources import EVENTS
from lws.runtime.errors import ClusterError

log = logging.getLogger(__name__)

_SELECTOR = f"regarding.kind!=LeaderWorkerSet,type=Warning,reason={FAILED_CREATE}"
_NEVER = datetime.min.replace(tzinfo=UTC)
_LONG_BEFORE_BOOT = timedelta(days=-1)
_MOST_READS = 4
"""Maximum number of concurrent reads: a shortage of the whole cluster affects sets of all namespaces."""

_Failure = tuple[datetime, str]
"""Time and note of the last FailedCreate Event about a StatefulSet."""


@dataclass(slots=True)
class _Namespace:
    """State of the reads of one namespace.
    read_at: time of the last read, whether it succeeded or not, by a monotonic clock. pause: minimum time
    until the next read. failures: the last Event about each StatefulSet, by UID. waiting: UIDs of the
    StatefulSets and Jobs that sets wait for, by name of the set.
    """

    read_at: timedelta = _LONG_BEFORE_BOOT
    pause: timedelta = timing.FAILED_CREATES_FRESH
    failures: Mapping[str, _Failure] = field(default_factory=dict)
    waiting: dict[str, frozenset[str]] = field(default_factory=dict)
    is_being_read: bool = False


class FailedCreates:
    """Read FailedCreate Events in the background and cache the results. No pass waits for a read: a pass uses
    the last result, and its set is enqueued if the new result differs.
    start: runs a coroutine outside of the passes. wake: enqueues the set with this namespace and name. clock:
    a monotonic clock in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        start: Callable[[Coroutine[Any, Any, None]], object],
        wake: Callable[[str, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._start = start
        self._wake = wake
        self._clock = clock
        self._reads = asyncio.Semaphore(_MOST_READS)
        self._namespaces: dict[str, _Namespace] = {}

    @property
    def time(self) -> timedelta:
        """The time by a monotonic clock."""
        return timedelta(seconds=self._clock())

    def request_read(self, namespace: str, name: str, uids: Collection[str]) -> None:
        """Start a read of the Events of a namespace, unless the last one was recent.
        name: the set that waits for Events about the StatefulSets with these UIDs.
        """
        state, now = self._namespaces.setdefault(namespace, _Namespace()), self.time
        if not state.is_being_read and now - state.read_at < state.pause:
            return
        # A set may wait for its StatefulSets and for its Jobs.
        state.waiting[name] = state.waiting.get(name, frozenset()).union(uids)
        if not state.is_being_read:
            state.is_being_read, state.read_at = True, now
            for other in [*self._namespaces]:
                if now - self._namespaces[other].read_at > timing.FAILED_CREATES_IDLE:
                    del self._namespaces[other]
            self._start(self._read(namespace, state))

    def last_failures(self, namespace: str, uids: Iterable[str], now: datetime) -> dict[str, _Failure]:
        """Return the last failure of each StatefulSet with one of these UIDs, as far as known, by UID.
        now: the time of the API server. Its clock and that of the StatefulSet controller may differ.
        """
        state = self._namespaces.get(namespace)
        failures = state.failures if state is not None else {}
        return {
            uid: failures[uid]
            for uid in uids
            if uid in failures and now - failures[uid][0] < timing.FAILED_CREATES_VALID
        }

    async def _read(self, namespace: str, state: _Namespace) -> None:
        """Read the Events of a namespace. If the read fails, the last result remains."""
        began, newest = self._clock(), dict[str, _Failure]()
        try:
            async with self._reads:
                began = self._clock()
                query = {"fieldSelector": _SELECTOR}
                async for page in pages(self._cluster, EVENTS, query, namespace=namespace):
                    _add_newest(page.get("items") or (), newest)
        except ClusterError as error:
            log.debug("Events of namespace %s cannot be read: %s", namespace, error.message)
            newest = dict(state.failures)
        finally:
            state.pause = costs.read_pause(self._clock() - began)
            waiting, state.waiting, state.is_being_read = state.waiting, {}, False
        before, state.failures = state.failures, newest
        for name, uids in waiting.items():
            if any(before.get(uid) != newest.get(uid) for uid in uids):
                self._wake(namespace, name)


def _add_newest(events: Iterable[Mapping[str, Any]], newest: dict[str, _Failure]) -> None:
    """Keep the newest Event about each StatefulSet; among equally new ones, the alphabetically first."""
    for event in events:
        uid, note = (event.get("regarding") or {}).get("uid") or "", str(event.get("note") or "")
        if not note:
            continue
        moment, last = _last_seen(event), newest.get(uid)
        if last is None or moment > last[0] or (moment == last[0] and note < last[1]):
            newest[uid] = (moment, note)


def _last_seen(event: Mapping[str, Any]) -> datetime:
    """Return when the Event last occurred (events.k8s.io/v1, or written by a client of the older API)."""
    series = event.get("series") or {}
    text = (
        series.get("lastObservedTime")
        or event.get("deprecatedLastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return moment_of(text) or _NEVER


# --- Find the StatefulSets of a set that are short of pods, and the reason.


# Groups of one set usually lack their pods for the same reason.
_MOST_REPORTED = 3


@dataclass(slots=True)
class _Short:
    """A StatefulSet that is short of pods. since, checked: by a monotonic clock; the second is the time at
    which a read of its Events was last requested.
    """

    since: timedelta
    checked: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Shortage:
    """StatefulSets of a set that are short of pods. recheck_after: seconds until this may have changed; None
    if no pod is missing. pods_refused_at: time of the last rejected pod, by UID of a StatefulSet long short.
    """

    rejections: tuple[Rejection, ...] = ()
    recheck_after: float | None = None
    pods_refused_at: Mapping[str, datetime] = field(default_factory=dict)


class Shortages:
    """Track the StatefulSets that are short of pods, by set. A restart of the manager loses nothing."""

    def __init__(self, failed: FailedCreates) -> None:
        self._failed = failed
        self._sets: dict[tuple[str, str], dict[str, _Short]] = {}

    def of_set(self, namespace: str, name: str, statefulsets: Iterable[Object], now: datetime) -> Shortage:
        """Return the shortage of a set, and request its Events if they are due.
        statefulsets: StatefulSets of the leaders and of the workers of the set, in this order.
        """
        short = {uid_of(statefulset): statefulset for statefulset in statefulsets if is_short(statefulset)}
        if not short:
            self._sets.pop((namespace, name), None)
            return Shortage()
        last_watched, time = self._sets.get((namespace, name), {}), self._failed.time
        watched = self._sets[namespace, name] = {uid: last_watched.get(uid, _Short(time)) for uid in short}
        lasting = [uid for uid, state in watched.items() if time - state.since >= timing.SHORT_OF_PODS_FOR]
        reported = list(short.items())[:_MOST_REPORTED]
        to_check = [watched[uid] for uid, _ in reported if _seconds_to_check(watched[uid], time) <= 0]
        if to_check:
            for state in to_check:
                state.checked = time
            self._failed.request_read(namespace, name, lasting)
        # One read returns the Events of all StatefulSets of the namespace.
        failures = self._failed.last_failures(namespace, short, now)
        rejections = tuple(
            Rejection(f"{obj['kind']} {obj['metadata']['name']} is short of pods", failures[uid][1])
            for uid, obj in reported
            if watched[uid].checked is not None and uid in failures
        )
        recheck_after = max(1.0, min(_seconds_to_check(watched[uid], time) for uid, _ in reported))
        pods_refused_at = {uid: failures[uid][0] for uid in lasting if uid in failures}
        return Shortage(rejections, recheck_after, pods_refused_at)

    def of_jobs(self, namespace: str, name: str, jobs: Iterable[Object], now: datetime) -> dict[str, str]:
        """Return the notes of rejected pods of Jobs that have had no pods for a while, by UID of the Job."""
        idle = [uid_of(job) for job in jobs if is_idle(job) and _is_old(job, now)]
        if idle:
            self._failed.request_read(namespace, name, idle)
        failures = self._failed.last_failures(namespace, idle, now)
        return {uid: note for uid, (_, note) in failures.items()}

    def forget(self, namespace: str, name: str) -> None:
        """Drop the state of a deleted set."""
        self._sets.pop((namespace, name), None)


def _is_old(job: Object, now: datetime) -> bool:
    created = moment_of(job["metadata"].get("creationTimestamp"))
    return created is not None and elapsed(created, now) >= timing.SHORT_OF_PODS_FOR


def _seconds_to_check(short: _Short, time: timedelta) -> float:
    """Return the seconds until the Events of a StatefulSet must be read."""
    if short.checked is None:
        return (short.since + timing.SHORT_OF_PODS_FOR - time).total_seconds()
    return (short.checked + timing.FAILED_CREATES_READ_AGAIN - time).total_seconds()
