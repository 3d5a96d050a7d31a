"""Pick free ports of the loopback address, which no other process that uses this module gets meanwhile."""

from __future__ import annotations

import os
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

LOOPBACK = "127.0.0.1"

# The candidates are below the ephemeral range. Any outgoing connection could take a port of that range while
# the component of the port restarts.
CANDIDATES = range(20000, 32000)
# A block has more ports than a run of tests takes, so that most processes claim a single block.
_BLOCK = 300


def pick_ports(
    count: int, candidates: Iterable[int] | None = None, is_free: Callable[[int], bool] | None = None
) -> tuple[int, ...]:
    """Return `count` different free ports; raises OSError if there are not enough.

    By default the candidates are ports that this process has claimed, and each of them is returned only once:
    another process must not take it before its component listens.
    """
    order = _given() if candidates is None else candidates
    free = is_free or can_listen
    ports: list[int] = []
    for port in order:
        if port not in ports and free(port):
            ports.append(port)
        if len(ports) == count:
            return tuple(ports)
    raise OSError(f"only {len(ports)} of {count} free ports found on {LOOPBACK}; stop what listens there")


def can_listen(port: int) -> bool:
    """Report whether nothing listens on this port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def claimed(directory: Path, held: list[int]) -> Iterator[int]:
    """Yield ports that no other process gets while the files in `held` are open; none if all are claimed."""
    # The module does not exist on Windows, where this function is never called.
    import fcntl

    directory.mkdir(parents=True, exist_ok=True)
    blocks = [CANDIDATES[start : start + _BLOCK] for start in range(0, len(CANDIDATES), _BLOCK)]
    for block in random.sample(blocks, len(blocks)):
        file = os.open(directory / str(block.start), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        held.append(file)
        yield from random.sample(block, len(block))


_HELD: list[int] = []
_LOCK = threading.Lock()


@cache
def _left() -> Iterator[int]:
    return claimed(Path(tempfile.gettempdir()) / f"localcluster-ports-{os.getuid()}", _HELD)


def _given() -> Iterator[int]:
    while True:
        with _LOCK:
            port = next(_left(), None)
        if port is None:
            break
        yield port
    # If all blocks are claimed, choose ports at random.
    yield from random.sample(CANDIDATES, len(CANDIDATES))
