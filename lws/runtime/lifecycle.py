"""Run tasks until a signal arrives or one of them fails."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine, Iterable
from typing import Any

from lws import timing
from lws.runtime.errors import ClusterError

log = logging.getLogger(__name__)


class Lifecycle:
    """The signals and tasks of the process, which has one instance."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()

    def listen(self) -> None:
        """End the process on SIGTERM and SIGINT. Call it again after kopf has installed its own handlers."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    async def supervise(self, tasks: list[asyncio.Task[Any]]) -> int:
        """Wait until a signal arrives (return 0) or a task ends (return 1). Tasks are not meant to end."""
        stopped = start("stop", self._stop.wait())
        done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if stopped in done:
            log.info("stopping: finishing running passes")
            return 0
        _log_ends(done, "the process stops")
        stopped.cancel()
        return 1


async def first_end(tasks: list[asyncio.Task[Any]], consequence: str) -> None:
    """Wait until a task has ended, and log its end with the consequence. Tasks are not meant to end."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    _log_ends(done, consequence)


def start(name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task under a name for the log."""
    return asyncio.get_running_loop().create_task(work, name=name)


async def cancel(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        # kopf swallows a cancellation that arrives while a stream starts.
        _, pending = await asyncio.wait(pending, timeout=timing.SHUTDOWN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_ends(ended: Iterable[asyncio.Task[Any]], consequence: str) -> None:
    for task in ended:
        error = task.exception() if not task.cancelled() else None
        why, is_bug = error or "without a reason", not isinstance(error, ClusterError)
        log.error(
            "%s has ended: %s; %s", task.get_name(), why, consequence, exc_info=error if is_bug else None
        )
