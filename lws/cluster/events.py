"""How users hear from us: Kubernetes Events (events.k8s.io/v1), in the background, repeated ones counted.

In: `Announce`s. Out: one Event each, or one more in the series of an equal one. An Event that cannot be
written is logged and forgotten: it never holds a pass. A hundred groups that do the same are one Event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lws.actions import Announce, Reference
from lws.cluster.connection import Cluster
from lws.cluster.errors import ClusterError, NotFound
from lws.cluster.event_folds import fold_key, folded

log = logging.getLogger(__name__)

REPORTING_CONTROLLER = "leaderworkerset"

_SERIES_SECONDS = 360.0
# A series that goes on is written this often, however fast it grows.
_SERIES_WRITE_SECONDS = 60.0
# Long enough for a wave of a rollout, short enough for somebody who looks.
_FOLD_SECONDS = 5.0
_REMEMBERED = 4096
_WAITING = 2000
_NOTE_BYTES = 1024


@dataclass(slots=True)
class _Series:
    """What we remember of an Event: where it is and how often it was repeated."""

    target: Reference
    count: int
    last_at: float
    written_at: float


class EventRecorder:
    """Writes Events one after the other; `announce` never waits."""

    def __init__(self, cluster: Cluster, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._instance = instance
        self._clock = clock
        self._waiting: asyncio.Queue[Announce] = asyncio.Queue(_WAITING)
        self._known: OrderedDict[tuple[Any, ...], _Series] = OrderedDict()
        self._folds: dict[Hashable, list[Announce]] = {}

    def announce(self, announce: Announce) -> None:
        """Have an Event written soon; when too many wait already, this one is only logged."""
        log.info("%s %s: %s", announce.regarding, announce.reason, announce.note)
        key = fold_key(announce)
        if key is None:
            self._enqueue(announce)
        elif key in self._folds:
            self._folds[key].append(announce)
        else:
            self._folds[key] = [announce]
            asyncio.get_running_loop().call_later(_FOLD_SECONDS, self._unfold, key)

    def _unfold(self, key: Hashable) -> None:
        # Nothing where it was drained meanwhile.
        if announces := self._folds.pop(key, None):
            self._enqueue(folded(announces))

    def _enqueue(self, announce: Announce) -> None:
        try:
            self._waiting.put_nowait(announce)
        except asyncio.QueueFull:
            log.warning("too many Events wait to be written, left out: %s", announce.note)

    async def run(self) -> None:
        """Write what is announced, for ever."""
        while True:
            announce = await self._waiting.get()
            try:
                await self._write(announce)
            except ClusterError as error:
                log.debug("Event about %s not written: %s", announce.regarding, error.message)
            finally:
                self._waiting.task_done()

    def hurry(self) -> None:
        """Write soon what waits for more of its kind: it may be too late for that later."""
        for key in list(self._folds):
            self._unfold(key)

    async def drain(self) -> None:
        """Wait until all that was announced is written."""
        self.hurry()
        await self._waiting.join()

    async def _write(self, announce: Announce) -> None:
        now = self._clock()
        identity = _identity(announce)
        series = self._known.get(identity)
        if series is not None and now - series.last_at < _SERIES_SECONDS:
            series.count += 1
            series.last_at = now
            self._known.move_to_end(identity)
            if series.count > 2 and now - series.written_at < _SERIES_WRITE_SECONDS:
                return
            series.written_at = now
            patch = {"series": {"count": series.count, "lastObservedTime": _now()}}
            try:
                await self._cluster.merge(series.target, patch)
                return
            except NotFound:
                # It expired, or somebody cleared the list: what goes on must be seen again.
                log.debug("Event %s is gone, a new one begins", series.target)
        created = await self._cluster.create(self._build(announce))
        self._known[identity] = _Series(Reference.to(created), 1, now, now)
        self._known.move_to_end(identity)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def _build(self, announce: Announce) -> dict[str, Any]:
        regarding = announce.regarding
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{regarding.name}.{time.time_ns():x}",
                "namespace": regarding.namespace or "default",
            },
            "eventTime": _now(),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self._instance,
            "type": announce.type,
            "reason": announce.reason,
            "action": announce.action,
            "note": announce.note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": _object_reference(regarding),
        }
        if announce.related is not None:
            event["related"] = _object_reference(announce.related)
        return event


def _identity(announce: Announce) -> tuple[Any, ...]:
    related = announce.related
    return (
        announce.regarding.uid or str(announce.regarding),
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


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
