"""Answers: which TCP ports of the loopback address a cluster may use.

In: how many. Out: that many different ports, free at this moment.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterable

LOOPBACK = "127.0.0.1"

# Below the ephemeral range, of which any outgoing connection could take a port while its component restarts.
CANDIDATES = range(20000, 32000)


def pick_ports(
    count: int, candidates: Iterable[int] | None = None, is_free: Callable[[int], bool] | None = None
) -> tuple[int, ...]:
    """Return `count` different free ports; OSError when there are not enough of them.

    By default candidates are tried in random order, so that clusters starting side by side hardly ever meet.
    """
    order = random.sample(CANDIDATES, len(CANDIDATES)) if candidates is None else candidates
    free = is_free or can_listen
    found: list[int] = []
    for port in order:
        if len(found) == count:
            break
        if port not in found and free(port):
            found.append(port)
    if len(found) < count:
        raise OSError(f"only {len(found)} of {count} free ports found on {LOOPBACK}; stop what listens there")
    return tuple(found)


def can_listen(port: int) -> bool:
    """Tell whether nothing listens on `port` of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
