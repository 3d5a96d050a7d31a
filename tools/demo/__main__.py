"""Start and end the demo. Exit codes: 1 if a check failed, 2 for an unknown example, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Never

from tools.linux import NotLinuxError, require_linux

# Windows has only the first two signals.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_UNUSABLE = 2
_INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """Parse the command line, and start the presentation."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.demo", description="Show a LeaderWorkerSet live on a control plane of its own."
    )
    parser.add_argument("--once", action="store_true", help="end after the tour instead of staying up")
    parser.add_argument(
        "--example", metavar="NAME", help="show this manifest of examples/ instead of the tour"
    )
    arguments = parser.parse_args()
    try:
        require_linux()
        with _ended_by_signals():
            # This import takes a while, in which Ctrl-C must not end in a traceback, so it comes late.
            from tools.demo.exhibit import UnknownExampleError, find_example
            from tools.demo.presentation import present

            try:
                example = find_example(arguments.example) if arguments.example else None
            except UnknownExampleError as error:
                print(error, file=sys.stderr)
                return _UNUSABLE
            return present(arguments.once, example)
    except NotLinuxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the block at the first signal. Further signals must not disturb the cleanup."""

    def end(number: int, _: FrameType | None) -> Never:
        for sig in _SIGNALS:
            signal.signal(sig, lambda *_: None)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    former = {sig: signal.signal(sig, end) for sig in _SIGNALS}
    try:
        yield
    finally:
        for sig, handler in former.items():
            signal.signal(sig, handler)


if __name__ == "__main__":
    sys.exit(main())
