"""Sample how long due work waits until the event loop of a process runs it.

Each sample has the elapsed time of the wait and the CPU time that the loop's thread used meanwhile. The
second is the part of the wait that the process itself caused, whatever else used the cores.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PERIOD_SECONDS = 0.05


@dataclass(frozen=True)
class Lag:
    """One sample.

    at: time.monotonic() when it was due. waited: seconds. own: CPU seconds of the thread meanwhile.
    """

    at: float
    waited: float
    own: float


class LoopLag:
    """Samples of a loop in the calling thread, twenty times a second, until `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._over = threading.Event()
        self.samples: list[Lag] = []

    def start(self) -> None:
        """Sample from now on."""
        threading.Thread(target=self._ask, name="loop lag", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def write(self, path: Path) -> None:
        """Write one sample per line."""
        path.write_text("".join(f"{sample.at} {sample.waited} {sample.own}\n" for sample in self.samples))

    def _ask(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            try:
                self._loop.call_soon_threadsafe(self._answer, due, time.clock_gettime(self._clock))
            except RuntimeError:
                # The loop has ended.
                return
            due = max(due, time.monotonic()) + _PERIOD_SECONDS

    def _answer(self, due: float, spent: float) -> None:
        self.samples.append(Lag(due, time.monotonic() - due, time.thread_time() - spent))


def read(path: Path) -> list[Lag]:
    """Return the samples that `write` has written."""
    return [Lag(*map(float, line.split())) for line in path.read_text().splitlines()]


def quantiles(samples: Iterable[Lag], began: float, ended: float) -> dict[str, float]:
    """Return quantiles in seconds of the samples that were due between two moments; empty without samples."""
    within = [sample for sample in samples if began <= sample.at <= ended]
    if not within:
        return {}
    result = {"samples": float(len(within))}
    for name, values in (
        ("waited", [sample.waited for sample in within]),
        ("own", [sample.own for sample in within]),
    ):
        result |= {f"{name}_p50": _quantile(values, 0.5), f"{name}_p99": _quantile(values, 0.99)}
    return result


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
