"""Run as `python -m test.bench.memory.inside OUTPUT manager …`: run `lws`, and report what its store holds.

At each SIGUSR1 it writes JSON: {kind: [objects, bytes]}.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

LOOK_UPS = "look-ups"


def size_of(value: Any, seen: set[int]) -> int:
    """Return the bytes of a value with everything in its dicts, lists, tuples and sets.

    Objects in `seen` are skipped, and all others are added to it, so that shared objects count once.
    """
    total, pending = 0, [value]
    while pending:
        obj = pending.pop()
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        total += sys.getsizeof(obj)
        if isinstance(obj, dict):
            pending += obj.keys()
            pending += obj.values()
        elif isinstance(obj, (list, tuple, set, frozenset)):
            pending += obj
    return total


def main() -> None:
    """Run `lws` with a signal handler that measures sizes; nothing else runs meanwhile."""
    output = Path(sys.argv[1])
    sys.argv = ["lws", *sys.argv[2:]]
    from lws.cli import main as run
    from lws.runtime.store import Store

    def write(*_: object) -> None:
        store = next(obj for obj in gc.get_objects() if type(obj) is Store)
        seen: set[int] = set()
        sizes = {
            kind: [number, sum(size_of(obj, seen) for obj in store.of_kind(kind))]
            for kind, number in store.sizes().items()
        }
        sizes[LOOK_UPS] = [0, sum(size_of(vars(index), seen) for index in vars(store)["_indices"])]
        # A reader that waits for the file finds it complete.
        half = output.with_suffix(".half")
        half.write_text(json.dumps(sizes))
        os.replace(half, output)

    signal.signal(signal.SIGUSR1, write)
    run()


if __name__ == "__main__":
    main()
