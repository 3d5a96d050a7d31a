"""Run as `python -m test.bench.profiled OUTPUT manager …`: `lws` with a look at its stack 200 times per CPU
second.

In: the command line of `lws`. Out: at the end, a file of folded stacks (frame;frame;frame count) whose name
is OUTPUT and the process id.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_INTERVAL_SECONDS = 0.005
_DEEPEST = 80


def main() -> None:
    """Sample on CPU time (setitimer(2)), so that waiting costs nothing and shows nowhere."""
    output = Path(f"{sys.argv[1]}.{os.getpid()}")
    stacks: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None and len(names) < _DEEPEST:
            code = frame.f_code
            names.append(f"{Path(code.co_filename).stem}.{code.co_name}")
            frame = frame.f_back
        stacks[";".join(reversed(names))] += 1

    def write() -> None:
        output.write_text("".join(f"{stack} {count}\n" for stack, count in stacks.most_common()))

    atexit.register(write)
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_SECONDS, _INTERVAL_SECONDS)
    sys.argv = ["lws", *sys.argv[2:]]
    from lws.cli import main as run

    run()


if __name__ == "__main__":
    main()
