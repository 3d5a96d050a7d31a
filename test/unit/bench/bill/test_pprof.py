"""test.bench.bill.pprof: decoding of pprof profiles of Go programs."""

from __future__ import annotations

import gzip

import pytest

from test.bench.bill.pprof import stacks


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _function(number: int, name: int) -> bytes:
    return _message(5, _number(1, number), _number(2, name))


def _location(number: int, *functions: int) -> bytes:
    lines = (_message(4, _number(1, function), _number(2, 17)) for function in functions)
    return _message(4, _number(1, number), *lines)


def test_stacks_list_outer_functions_first_with_cpu_seconds() -> None:
    names = ("", "main", "serve", "inlined", "write")
    profile = b"".join(
        (
            # Both packed and unpacked fields are allowed. Each sample has two values: count and nanoseconds.
            _message(2, _message(1, _varint(300), _varint(1)), _message(2, _varint(2), _varint(20_000_000))),
            _message(2, _number(1, 1), _number(2, 1), _number(2, 10_000_000)),
            _location(300, 13, 12),
            _location(1, 11),
            _function(11, 1),
            _function(12, 2),
            _function(13, 3),
            *(_message(6, name.encode()) for name in names),
            # A fixed-size field, which is skipped.
            _varint(9 << 3 | 1) + bytes(8),
        )
    )
    assert stacks(gzip.compress(profile)) == pytest.approx(
        {("main", "serve", "inlined"): 0.02, ("main",): 0.01}
    )


def test_an_invalid_profile_is_rejected() -> None:
    with pytest.raises(ValueError, match="no field begins"):
        stacks(gzip.compress(b"\x0b"))
