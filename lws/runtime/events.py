"""Write Kubernetes Events (events.k8s.io/v1) in the background, and count repeated ones.

Each `Announce` becomes an Event, or one more in the series of an equal Event. A failed write is logged and
never delays a pass. If many groups have the same Event, the first few Events are written one by one and the
others are combined.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from cachetools import FIFOCache, LRUCache

from lws import timing
from lws.kube.names import parent_and_ordinal
from lws.runtime.actions import Announce, Reference
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ClusterError, NotFound

log = logging.getLogger(__name__)


_MOST_SERIES = 4096
_MOST_PENDING = 2000
_NOTE_BYTES = 1024


@dataclass(slots=True)
class _Series:
    """The record of an Event: its reference, and how often it was repeated."""

    target: Reference
    count: int
    last_at: float
    written_at: float


class EventRecorder:
    """Writes Events one by one, as this reportingController and reportingInstance. `announce` never waits."""

    def __init__(
        self, cluster: Cluster, reporter: str, instance: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._reporter = reporter
        self._instance = instance
        self._clock = clock
        self._waiting: asyncio.Queue[Announce] = asyncio.Queue(_MOST_PENDING)
        self._known = LRUCache[tuple[Any, ...], _Series](_MOST_SERIES)
        self._windows: dict[FoldKey, Window] = {}
        self._sent = FIFOCache[tuple[Any, ...], None](_MOST_SERIES)

    def announce(self, announce: Announce) -> None:
        """Enqueue an Event. If the queue is full, the Event is only logged."""
        if announce.once and not self._is_new(announce):
            return
        log.info("%s %s: %s", announce.regarding, announce.reason, announce.note)
        if announce.ends:
            self._write_windows_of(announce.regarding)
        key = fold_key(announce)
        if key is None:
            self._enqueue(announce)
            return
        window = self._windows.get(key)
        if window is None or window.is_over(self._clock()):
            window = self._windows[key] = Window(self._clock())
            self._call_later(timing.EVENT_WINDOW_SECONDS, self._close, key, window)
        if window.is_written_alone(announce):
            self._enqueue(announce)
        elif window.due_in is not None:
            self._call_later(window.due_in, self._write_combined, window)

    def _is_new(self, announce: Announce) -> bool:
        identity = _identity(announce)
        is_new = identity not in self._sent
        self._sent[identity] = None
        return is_new

    def _call_later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, call, *arguments)

    def _close(self, key: FoldKey, window: Window) -> None:
        if self._windows.get(key) is not window:
            return
        if window.is_over(self._clock()):
            del self._windows[key]
        else:
            self._call_later(timing.EVENT_WINDOW_SECONDS, self._close, key, window)

    def _write_combined(self, window: Window) -> None:
        if (announce := window.take(self._clock())) is not None:
            self._enqueue(announce)

    def _write_windows_of(self, regarding: Reference) -> None:
        for key, window in self._windows.items():
            if key[0] == object_key(regarding):
                self._write_combined(window)

    def _enqueue(self, announce: Announce) -> None:
        try:
            self._waiting.put_nowait(announce)
        except asyncio.QueueFull:
            log.warning("too many pending Events, dropped: %s", announce.note)

    async def run(self) -> None:
        """Write announced Events indefinitely."""
        while True:
            announce = await self._waiting.get()
            try:
                await self._write(announce)
            except ClusterError as error:
                log.debug("Event about %s not written: %s", announce.regarding, error.message)
            finally:
                self._waiting.task_done()

    def flush(self) -> None:
        """Enqueue batched Events now, because this process may soon be unable to write them."""
        for window in self._windows.values():
            self._write_combined(window)

    async def drain(self) -> None:
        """Enqueue batched Events, and wait until every Event has been written or has failed."""
        self.flush()
        await self._waiting.join()

    async def _write(self, announce: Announce) -> None:
        now = self._clock()
        identity = _identity(announce)
        series = self._known.get(identity)
        if series is not None and now - series.last_at < timing.SERIES_SECONDS:
            series.count += 1
            series.last_at = now
            if series.count > 2 and now - series.written_at < timing.SERIES_WRITE_SECONDS:
                return
            series.written_at = now
            patch = {"series": {"count": series.count, "lastObservedTime": micro_time(self._cluster.now)}}
            try:
                await self._cluster.merge(series.target, patch)
                return
            except NotFound:
                # The Event has expired or was deleted. A new one reports that its cause continues.
                log.debug("Event %s is deleted, a new one is created", series.target)
        created = await self._cluster.create(self._build(announce))
        self._known[identity] = _Series(Reference.to(created), 1, now, now)

    def _build(self, announce: Announce) -> dict[str, Any]:
        regarding = announce.regarding
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{regarding.name}.{time.time_ns():x}",
                "namespace": regarding.namespace or "default",
            },
            "eventTime": micro_time(self._cluster.now),
            "reportingController": self._reporter,
            "reportingInstance": self._instance,
            "type": announce.type,
            "reason": announce.reason,
            "action": announce.action,
            "note": announce.note.encode(errors="replace")[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": _object_reference(regarding),
        }
        if announce.related is not None:
            event["related"] = _object_reference(announce.related)
        return event


def _identity(announce: Announce) -> tuple[Any, ...]:
    related = announce.related
    return (
        object_key(announce.regarding),
        announce.type,
        announce.reason,
        announce.action,
        announce.note,
        (related.kind, related.name, related.uid) if related else None,
    )


def _object_reference(reference: Reference) -> dict[str, str]:
    fields = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
        "resourceVersion": reference.resource_version,
    }
    return {key: value for key, value in fields.items() if value}


def micro_time(moment: datetime) -> str:
    """Return a time as a MicroTime of the Kubernetes API."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


FoldKey = tuple[str, ...]
"""Key of Events that can be combined: the object that they regard, and what else they share."""

FEW = 9
"""Number of groups in a window that have an Event each, worded as upstream's."""

_RUNS = 10
_NO_PARENT = ""


@dataclass(slots=True)
class Window:
    """Events of one key that occur close together. A window ends if no Event was batched for its length.

    since: the beginning, in seconds of a monotonic clock.
    """

    since: float
    _alone: set[str] = field(default_factory=set)
    _batch: list[Announce] = field(default_factory=list)
    _wait: float = timing.EVENT_BATCH.first

    def is_over(self, now: float) -> bool:
        """Return whether the next Event of this key begins a new window."""
        return not self._batch and now - self.since >= timing.EVENT_WINDOW_SECONDS

    def is_written_alone(self, announce: Announce) -> bool:
        """Return True for an Event of the first few groups, unless all are batched. Batch any other Event."""
        fold = announce.fold
        if fold is not None and not fold.waits and len(self._alone | {fold.member}) <= FEW:
            self._alone.add(fold.member)
            return True
        self._batch.append(announce)
        return False

    @property
    def due_in(self) -> float | None:
        """Seconds until the batch is due, right after its first Event; otherwise None."""
        return self._wait if len(self._batch) == 1 else None

    def take(self, now: float) -> Announce | None:
        """Empty the batch and return its combined Event; None if it has none."""
        batch, self._batch = self._batch, []
        if not batch:
            return None
        self.since, self._wait = now, timing.EVENT_BATCH.following(self._wait)
        return combine(batch)


def object_key(regarding: Reference) -> str:
    """Return a key that is equal for all versions of an object."""
    return regarding.uid or str(regarding)


def fold_key(announce: Announce) -> FoldKey | None:
    """Return a key that is equal for Events that can be combined; None for an Event that is written alone."""
    if announce.fold is None:
        return None
    shared = announce.type, announce.reason, announce.action, announce.fold.template
    return object_key(announce.regarding), *shared


def combine(announces: Sequence[Announce]) -> Announce:
    """Combine one or more Events of one key into one Event."""
    last = announces[-1]
    folds = [announce.fold for announce in announces if announce.fold is not None]
    names = {fold.member for fold in folds}
    changes = [(fold.member, *fold.change) for fold in folds if fold.change is not None]
    if last.fold is None or (len(names) == 1 and len(changes) < 2):
        return last
    members = format_counts(changes) if changes else format_names(names)
    related = last.related if len(names) == 1 else last.fold.related
    return replace(last, note=last.fold.template.format(members), related=related)


def format_names(names: Iterable[str]) -> str:
    """List names as ranges of ordinals: "demo-0 to demo-8, demo-11"; at most ten ranges."""
    runs: list[list[str]] = []
    last = (_NO_PARENT, -1)
    for name in sorted(names, key=lambda name: (*parent_and_ordinal(name), name)):
        parent, ordinal = parent_and_ordinal(name)
        if parent != _NO_PARENT and last == (parent, ordinal - 1):
            runs[-1].append(name)
        else:
            runs.append([name])
        last = parent, ordinal
    spans = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return _join_first(spans, [len(run) for run in runs])


def format_counts(changes: Iterable[tuple[str, int, int]]) -> str:
    """List members in the order of their first change, each with its first and last count; at most ten."""
    ends: dict[str, tuple[int, int]] = {}
    for member, before, after in changes:
        ends[member] = (ends.get(member, (before, after))[0], after)
    texts = [f"{member} from {before} to {after} replicas" for member, (before, after) in ends.items()]
    return _join_first(texts, [1] * len(texts))


def _join_first(texts: Sequence[str], members: Sequence[int]) -> str:
    """Join the first ten texts, and count the others by the number of members in each of them."""
    more = sum(members[_RUNS:])
    return ", ".join(texts[:_RUNS]) + (f" and {more} more" if more else "")
