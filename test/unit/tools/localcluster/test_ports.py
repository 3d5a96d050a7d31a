"""tools.localcluster.ports: free ports of the loopback address."""

from __future__ import annotations

import socket

import pytest

from tools.localcluster.ports import CANDIDATES, LOOPBACK, can_listen, pick_ports


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
