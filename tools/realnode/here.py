"""Answers: what is there to play with, without a command? Run inside, as `python -m tools.realnode.here`."""

from __future__ import annotations

import signal
import sys
import threading

from tools.localcluster import ApiError, BuildError, CommandError, ComponentError
from tools.realnode.cluster import RealCluster
from tools.realnode.entry import invitation
from tools.realnode.errors import NodeError
from tools.realnode.kit import read_kit

_EXPECTED = (ApiError, BuildError, CommandError, ComponentError, NodeError, OSError)


def main() -> int:
    """Start, say how it is used, and wait for a signal."""
    asked_to_end = threading.Event()
    try:
        with RealCluster(read_kit()) as cluster:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: asked_to_end.set())
            print(
                *invitation(cluster), "# Ctrl-C ends the cluster and removes its files", sep="\n", flush=True
            )
            asked_to_end.wait()
    except _EXPECTED as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
