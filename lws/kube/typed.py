"""Encode pod templates and claim templates as a typed Kubernetes client writes them, by a table of types.

In: plain JSON data and a table of types. Out: the data as such a client writes it: without what it leaves
out, with what it always writes. Nothing is refused: what the table does not know, or knows otherwise, stays.

The table maps the name of a type to its fields and a code for each:
  s string, b bool, i integer, l integer of 64 bits, q quantity, x int-or-string, t time, j any JSON,
  a type name a struct, [c] list, {c} map; without a prefix left out when zero or empty, `*` pointer (left
  out only when absent), `=` always written, `?` pointer that is written as null when absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from lws.kube.quantities import canonical

Table = Mapping[str, Mapping[str, str]]
Fields = dict[str, Any]
Finish = Callable[[Fields], None]
"""Changes the freshly made fields of one struct in place, once those of the structs below it are done."""

_TABLE = files("lws.kube").joinpath("pod_types.json")

POD_TYPES: Table = MappingProxyType(json.loads(_TABLE.read_bytes())["types"])
"""The types of pod templates and claim templates, as Kubernetes 1.37 has them."""

_Shape = Callable[[Any], Any]

_ABSENT: Any = object()
_EXACT = 2**53


class Normaliser:
    """Writes values of the types of `table`; `finish` adds rules per type, such as defaults."""

    def __init__(self, table: Table, finish: Mapping[str, Finish] = MappingProxyType({})) -> None:
        self._structs = {name: _Struct(finish.get(name)) for name in table}
        for name, fields in table.items():
            for key, code in fields.items():
                self._structs[name].add(key, code, self._shape)

    def write(self, type_name: str, value: Mapping[str, Any]) -> Fields:
        """A new mapping; it may share parts with `value`, so neither may be changed later."""
        written: Fields = self._structs[type_name](value)
        return written

    def _shape(self, code: str) -> _Shape:
        if code[0] == "[":
            return _list_of(self._shape(code[1:-1]))
        if code == "{q}":
            return _quantities
        if code[0] == "{":
            return _as_it_is
        return _SCALARS[code] if code in _SCALARS else self._structs[code]


class _Struct:
    """Writes one type: every field by its rule, then the fields that are always there, then `finish`."""

    def __init__(self, finish: Finish | None) -> None:
        self._rules: dict[str, _Shape] = {}
        self._always: dict[str, Any] = {}
        self._always_structs: list[tuple[str, _Shape]] = []
        self._finish = finish

    def add(self, key: str, code: str, shape_of: Callable[[str], _Shape]) -> None:
        prefix = code[0] if code[0] in "*=?" else ""
        code = code.removeprefix(prefix)
        shape = shape_of(code)
        if prefix == "*":
            self._rules[key] = _unless_null(shape)
        elif prefix == "":
            self._rules[key] = _unless_empty(shape)
        elif prefix == "=" and isinstance(shape, _Struct):
            self._rules[key] = _or({}, shape)
            self._always_structs.append((key, shape))
        else:
            zero = _ZEROS.get(code) if prefix == "=" else None
            self._rules[key] = _or(zero, shape)
            self._always[key] = zero

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            return value
        written: Fields = {}
        rules = self._rules
        for key, item in value.items():
            rule = rules.get(key)
            if rule is not None:
                item = rule(item)
                if item is not _ABSENT:
                    written[key] = item
            elif item is not None:
                written[key] = item
        for key, zero in self._always.items():
            written.setdefault(key, zero)
        for key, shape in self._always_structs:
            if key not in written:
                written[key] = shape({})
        if self._finish is not None:
            self._finish(written)
        return written


def _as_it_is(value: Any) -> Any:
    return value


def _integer(value: Any) -> Any:
    """Integers pass through a double on their way to the original's text, and so lose digits beyond 2^53."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or -_EXACT <= value <= _EXACT:
        return value
    digits, _, exponent = repr(float(value)).partition("e+")
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    return int(whole + fraction.ljust(int(exponent or 0), "0"))


def _quantity(value: Any) -> Any:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return canonical(value)
        except ValueError:
            return value
    return value


def _quantities(value: Any) -> Any:
    return {key: _quantity(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _list_of(shape: _Shape) -> _Shape:
    if shape is _as_it_is:
        return _as_it_is
    return lambda value: [shape(item) for item in value] if isinstance(value, list) else value


def _unless_null(shape: _Shape) -> _Shape:
    return lambda value: _ABSENT if value is None else shape(value)


def _unless_empty(shape: _Shape) -> _Shape:
    # Everything that is false in Python is the zero value of some JSON type: "", 0, false, null, [], {}.
    return lambda value: shape(value) if value else _ABSENT


def _or(zero: Any, shape: _Shape) -> _Shape:
    return lambda value: shape(zero) if value is None else shape(value)


_SCALARS: Mapping[str, _Shape] = {
    "s": _as_it_is,
    "b": _as_it_is,
    "i": _integer,
    "l": _integer,
    "q": _quantity,
    "x": _as_it_is,
    "t": _as_it_is,
    "j": _as_it_is,
}
_ZEROS: Mapping[str, Any] = {"s": "", "b": False, "i": 0, "l": 0, "q": "0", "x": 0}
