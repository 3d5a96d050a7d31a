"""tools.localcluster.ports: free ports of the loopback address."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

import pytest

from tools.localcluster.ports import CANDIDATES, LOOPBACK, can_listen, claimed, pick_ports


def test_different_free_ports_in_order() -> None:
    assert pick_ports(2, [1, 2, 2, 3, 4], lambda port: port != 1) == (2, 3)


def test_too_few_is_an_error() -> None:
    with pytest.raises(OSError, match="only 1 of 2 free ports"):
        pick_ports(2, [5, 6], lambda port: port == 5)


def test_outgoing_connections_cannot_take_them() -> None:
    assert max(CANDIDATES) < 32768
    assert all(port in CANDIDATES for port in pick_ports(6, is_free=lambda port: True))


def test_port_in_use_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        assert not can_listen(listener.getsockname()[1])


def test_concurrent_processes_get_different_ports(tmp_path: Path) -> None:
    held: list[int] = []
    try:
        ours, theirs = claimed(tmp_path, held), claimed(tmp_path, held)
        both = [*itertools.islice(ours, 500), *itertools.islice(theirs, 500)]
        assert len(set(both)) == 1000
        # When all ports are claimed, the next caller gets none.
        assert sorted([*both, *ours, *theirs]) == list(CANDIDATES)
        assert list(claimed(tmp_path, held)) == []
    finally:
        for file in held:
            os.close(file)


def test_no_port_is_allocated_twice() -> None:
    assert not set(pick_ports(3)) & set(pick_ports(3))
