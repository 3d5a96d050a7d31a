"""Run as `python -m test.bench.profiled OUTPUT manager …`: run `lws` with a sampling profiler.

The profiler samples the stack 200 times per CPU second, the delays of the event loop, and the delays from
events to requests. At the end it writes files named after OUTPUT and the process id: folded stacks
(frame;frame;frame count), loop delays (`loop_lag`) in `.lag`, and event delays (`own_time`) in `.own`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop

from test.bench import own_time
from test.bench.loop_lag import LoopLag

_INTERVAL_SECONDS = 0.005
_DEEPEST = 80


def main() -> None:
    """Sample by CPU time (setitimer(2)), so that waiting costs nothing and produces no samples."""
    output = Path(f"{sys.argv[1]}.{os.getpid()}")
    stacks: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None and len(names) < _DEEPEST:
            code = frame.f_code
            names.append(f"{Path(code.co_filename).stem}.{code.co_name}")
            frame = frame.f_back
        stacks[";".join(reversed(names))] += 1

    lags: list[LoopLag] = []

    async def watched(command: Coroutine[Any, Any, int]) -> int:
        lags.append(LoopLag(asyncio.get_running_loop()))
        lags[0].start()
        return await command

    def write() -> None:
        output.write_text("".join(f"{stack} {count}\n" for stack, count in stacks.most_common()))
        for lag in lags:
            lag.write(output.with_name(f"{output.name}.lag"))
        recorder.write(output.with_name(f"{output.name}.own"))

    recorder = own_time.record()
    atexit.register(write)
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_SECONDS, _INTERVAL_SECONDS)
    sys.argv = ["lws", *sys.argv[2:]]
    from lws.cli import main as run

    start = uvloop.run
    uvloop.run = lambda command, **options: start(watched(command), **options)  # type: ignore[assignment]
    run()


if __name__ == "__main__":
    main()
