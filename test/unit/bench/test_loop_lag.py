"""test.bench.loop_lag: delays of an event loop, and their quantiles."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from test.bench.loop_lag import Lag, LoopLag, quantiles, read

_BUSY_SECONDS = 0.2


def test_callbacks_wait_while_the_loop_is_busy() -> None:
    async def work() -> list[Lag]:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        until = time.thread_time() + _BUSY_SECONDS
        while time.thread_time() < until:
            pass
        while not lag.samples:
            await asyncio.sleep(0.001)
        lag.stop()
        return lag.samples

    first = asyncio.run(work())[0]
    assert first.waited > _BUSY_SECONDS / 2
    assert 0 < first.own <= first.waited + 0.001


def test_only_samples_of_the_phase_count(tmp_path: Path) -> None:
    lag = LoopLag.__new__(LoopLag)
    lag.samples = [Lag(float(at), at / 100, at / 1000) for at in range(200)]
    lag.write(tmp_path / "lag")
    result = quantiles(read(tmp_path / "lag"), 0.0, 99.0)
    assert result == {
        "samples": 100,
        "waited_p50": 0.5,
        "waited_p99": 0.99,
        "own_p50": 0.05,
        "own_p99": 0.099,
    }
    assert quantiles(lag.samples, 300.0, 400.0) == {}
