"""test.bench.memory: the parts of a manager's memory, with shared objects counted once."""

from __future__ import annotations

import os
import socket
import sys

from test.bench.memory.inside import size_of
from test.bench.processes import heap, pss, sockets


def test_a_size_includes_nested_objects() -> None:
    name, value = "a name of its own", ["x" * 1000]
    inside = sum(map(sys.getsizeof, (name, value, value[0])))
    assert size_of({name: value}, set()) == sys.getsizeof({name: value}) + inside


def test_shared_objects_are_counted_once() -> None:
    shared, seen = {"image": "y" * 1000}, set[int]()
    first, second = [shared], [shared]
    assert size_of(first, seen) > 1000
    assert size_of(second, seen) == sys.getsizeof(second)


def test_cyclic_references_are_supported() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert size_of(circle, set()) == sys.getsizeof(circle)


def test_the_heap_is_a_part_of_the_process() -> None:
    own = [os.getpid()]
    assert 0 < heap(own) <= pss(own)


def test_an_open_socket_is_counted() -> None:
    own = [os.getpid()]
    before = sockets(own)
    with socket.socket():
        assert sockets(own) == before + 1
    assert sockets(own) == before


def test_an_ended_process_counts_as_zero() -> None:
    assert heap([2**22 + 1]) == 0
    assert sockets([2**22 + 1]) == 0
