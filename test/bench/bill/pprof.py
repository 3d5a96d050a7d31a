"""Read the stacks and their CPU seconds from a CPU profile of a Go program.

The format is profile.proto of github.com/google/pprof, gzipped. Only the fields needed here are read.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator

Stack = tuple[str, ...]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Field numbers in Profile, Sample, Location, Line and Function.
_SAMPLE, _LOCATION, _FUNCTION, _STRING = 2, 4, 5, 6
_SAMPLE_LOCATIONS, _SAMPLE_VALUES = 1, 2
_ID, _LOCATION_LINES, _LINE_FUNCTION, _FUNCTION_NAME = 1, 4, 1, 2
_NANO = 1e-9


def stacks(data: bytes) -> Counter[Stack]:
    """Return the CPU seconds of each stack, outermost function first.

    Raise ValueError if the data is no valid profile.
    """
    names: list[str] = []
    named: dict[int, int] = {}
    placed: dict[int, list[int]] = {}
    samples: list[tuple[list[int], int]] = []
    for number, value in _fields(gzip.decompress(data)):
        if number == _STRING:
            names.append(_bytes(value).decode())
        elif number == _FUNCTION:
            fields = dict(_fields(_bytes(value)))
            named[_number(fields[_ID])] = _number(fields.get(_FUNCTION_NAME, 0))
        elif number == _LOCATION:
            fields_of_place = list(_fields(_bytes(value)))
            lines = [dict(_fields(_bytes(line))) for its, line in fields_of_place if its == _LOCATION_LINES]
            location = next(_number(number) for its, number in fields_of_place if its == _ID)
            placed[location] = [_number(line[_LINE_FUNCTION]) for line in lines]
        elif number == _SAMPLE:
            sample = list(_fields(_bytes(value)))
            # In CPU profiles, the last value is in nanoseconds.
            samples.append((_numbers(sample, _SAMPLE_LOCATIONS), _numbers(sample, _SAMPLE_VALUES)[-1]))
    result: Counter[Stack] = Counter()
    for places, nanoseconds in samples:
        # Innermost first: locations, each with its inlined functions.
        functions = [names[named[function]] for location in places for function in placed[location]]
        result[tuple(reversed(functions))] += nanoseconds * _NANO  # type: ignore[assignment]
    return result


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and values, decoded from the wire format of protocol buffers."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"no field begins with {key}")
        yield key >> 3, data[at : at + length]
        at += length


def _numbers(fields: list[tuple[int, int | bytes]], number: int) -> list[int]:
    """Return the values of a repeated field, packed or not."""
    numbers: list[int] = []
    for its, value in fields:
        if its == number and isinstance(value, bytes):
            at = 0
            while at < len(value):
                decoded, at = _varint(value, at)
                numbers.append(decoded)
        elif its == number:
            numbers.append(_number(value))
    return numbers


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number, and the offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where a message is expected")
    return value


def _number(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a message where a number is expected")
    return value
