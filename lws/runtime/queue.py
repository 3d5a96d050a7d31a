"""A keyed work queue.

Each key has at most one pass at a time. Passes over different keys run concurrently. Keys that are added
twice share a pass. Failed passes are retried with a backoff. Add keys from anywhere on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lws import timing

log = logging.getLogger(__name__)

_NEVER, _AT_ONCE = float("inf"), float("-inf")


@dataclass(frozen=True, slots=True)
class Again:
    """The result of a pass: when the next pass over the key runs.

    after: the seconds until the next pass at the latest; None if only an event starts it. failed: whether to
    retry after a backoff. rest: the seconds from the beginning of the pass until events may start the next
    one; None for the window of the queue.
    """

    after: float | None = None
    failed: bool = False
    rest: float | None = field(default=None, compare=False)


Work = Callable[[Hashable], Awaitable[Again]]


class Meter(Protocol):
    """A recorder of the progress of each key (see `QueueSeries`).

    `due` is called first, then `dropped`, or `begun` and `ended`. `retried` reports a pass after a backoff.
    """

    def due(self, key: Any) -> None: ...

    def dropped(self, key: Any) -> None: ...

    def begun(self, key: Any) -> None: ...

    def ended(self, key: Any) -> None: ...

    def retried(self, key: Any) -> None: ...


@dataclass(slots=True)
class _Entry:
    """A waiting or running key. All times are by the clock of the event loop.

    timer: starts the next pass at `due_at`. dirty_by: the time by which events during the running pass need
    another one; infinite if there were none. rested_at: the time before which events start no pass.
    """

    timer: asyncio.Handle | None = None
    due_at: float = 0.0
    is_running: bool = False
    dirty_by: float = _NEVER
    failures: int = 0
    last_start: float = -_NEVER
    rested_at: float = -_NEVER


class Queue:
    """A keyed work queue. The first event of a quiet key starts a pass at once.

    window: seconds after that event, in which all events share one pass, at the end. concurrency: the maximum
    number of concurrent passes. takes: a filter for keys. Keys for which it returns False are ignored.
    """

    def __init__(
        self,
        work: Work,
        window: float,
        concurrency: int,
        meter: Meter,
        takes: Callable[[Any], bool] = lambda key: True,
    ) -> None:
        self._work = work
        self._takes = takes
        self._window = window
        self._slots = asyncio.Semaphore(concurrency)
        self._start_turns = OnePerIteration()
        self._meter = meter
        self._entries: dict[Hashable, _Entry] = {}
        # Resting key → time from which events may start a pass again. The entry is removed at that time.
        self._rested: dict[Hashable, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False

    def open(self) -> None:
        """Start to take keys. Keys that were added before were ignored."""
        self._is_open = True

    def drop(self) -> None:
        """Stop taking keys and forget every waiting key. Running passes finish."""
        self._is_open = False
        self.drop_untaken()

    def drop_untaken(self) -> None:
        """Forget every waiting key that is no longer taken. Running passes finish."""
        for key in [key for key in self._rested if not self._is_taken(key)]:
            del self._rested[key]
        for key, entry in list(self._entries.items()):
            if self._is_taken(key):
                continue
            entry.dirty_by = _NEVER
            if entry.timer is not None:
                entry.timer.cancel()
                entry.timer = None
            if not entry.is_running:
                del self._entries[key]

    async def drain(self) -> None:
        """Stop taking keys and wait until running passes have ended."""
        self.drop()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def counts(self) -> dict[str, int]:
        """Return the number of keys by state: `running` (or about to run), `waiting` and `resting`.

        The number of `failing` keys counts a part of the running and waiting keys.
        """
        entries = self._entries.values()
        running = sum(entry.is_running for entry in entries)
        failing = sum(entry.failures > 0 for entry in entries)
        waiting = len(self._entries) - running
        return {"running": running, "waiting": waiting, "failing": failing, "resting": len(self._rested)}

    def is_running(self, is_meant: Callable[[Any], bool]) -> bool:
        """Return whether a pass over one of the selected keys is running."""
        return any(entry.is_running and is_meant(key) for key, entry in self._entries.items())

    def _is_taken(self, key: Hashable) -> bool:
        return self._is_open and self._takes(key)

    def add(self, key: Hashable, within: float = 0.0) -> None:
        """Enqueue a key, to begin a pass within so many seconds, or earlier if another event needs it.

        `timing.AT_ONCE` also skips the delay after the last pass.
        """
        if not self._is_taken(key):
            return
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(rested_at=self._rested.pop(key, -_NEVER))
        if entry.is_running:
            entry.dirty_by = min(entry.dirty_by, _AT_ONCE if within < 0 else _now() + within)
        elif entry.failures == 0:
            self._schedule(key, entry, 0.0 if within < 0 else max(within, entry.rested_at - _now()))
        # Events do not shorten the backoff of a failing key.

    def _schedule(self, key: Hashable, entry: _Entry, delay: float) -> None:
        due_at = _now() + delay
        if entry.timer is not None:
            if entry.due_at <= due_at:
                return
            entry.timer.cancel()
        entry.due_at = due_at
        loop = asyncio.get_running_loop()
        # Timers of the same instant fire in any order; call_soon keeps the order of keys that are due now.
        entry.timer = loop.call_later(delay, self._start, key) if delay else loop.call_soon(self._start, key)

    def _start(self, key: Hashable) -> None:
        entry = self._entries[key]
        entry.timer = None
        entry.is_running = True
        self._meter.due(key)
        task = asyncio.get_running_loop().create_task(self._pass(key, entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, key: Hashable, entry: _Entry) -> None:
        again = Again()
        async with self._slots:
            await self._start_turns.turn()
            if self._is_taken(key):
                entry.last_start = _now()
                entry.dirty_by = _NEVER
                again = await self._run_pass(key)
            else:
                self._meter.dropped(key)
        entry.is_running = False
        self._requeue(key, entry, again)

    async def _run_pass(self, key: Hashable) -> Again:
        self._meter.begun(key)
        try:
            return await self._work(key)
        except Exception:
            log.exception("a pass over %s failed; this is a bug", key)
            return Again(failed=True)
        finally:
            self._meter.ended(key)

    def _requeue(self, key: Hashable, entry: _Entry, again: Again) -> None:
        if not self._is_taken(key):
            del self._entries[key]
            return
        entry.failures = entry.failures + 1 if again.failed else 0
        entry.rested_at = entry.last_start + (self._window if again.rest is None else again.rest)
        if again.failed:
            self._meter.retried(key)
            backoff = timing.PASS_BACKOFF.after(entry.failures) * random.uniform(0.8, 1.2)
            self._schedule(key, entry, max(again.after or 0.0, backoff))
        elif entry.dirty_by < _NEVER or again.after is not None:
            is_urgent = entry.dirty_by == _AT_ONCE
            by_event = 0.0 if is_urgent else max(0.0, entry.dirty_by - _now(), entry.rested_at - _now())
            self._schedule(key, entry, min(by_event, _NEVER if again.after is None else again.after))
        else:
            del self._entries[key]
            self._rested[key] = entry.rested_at
            rest_seconds = max(0.0, entry.rested_at - _now())
            asyncio.get_running_loop().call_later(rest_seconds, self._end_rest, key, entry.rested_at)

    def _end_rest(self, key: Hashable, rested_at: float) -> None:
        # After an urgent pass, the key may rest for longer.
        if self._rested.get(key) == rested_at:
            del self._rested[key]


class OnePerIteration:
    """Lets one waiter continue per iteration of the event loop.

    A burst of changes makes a hundred passes due at once. In a single iteration they would take a tenth of a
    second, without any answer to reviews of pods, which the API server needs for every pod.
    """

    def __init__(self) -> None:
        # While there are waiters, the next call is scheduled.
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._call)
        self._waiting.append(turn)
        await turn

    def _call(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            # A cancelled waiter must not cost the others an iteration.
            if not turn.done():
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._call)


def _now() -> float:
    return asyncio.get_running_loop().time()
