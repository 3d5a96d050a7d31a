"""Check that a value has the shape of a type (`lws.kube.typed`) and can be sent as JSON.

Fields outside the table of types may have any shape, except in closed types. null counts as absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from lws.kube.metadata import is_mapping
from lws.kube.quantities import is_integer, parse
from lws.kube.typed import Table

_LARGEST = 2**63 - 1
_DEEPEST = 64
"""Maximum nesting, far above that of any field of Kubernetes."""

_LONGEST_VALUE = 40


class _Fault(Exception):
    """The fault of a value, worded with its path."""


class Shapes:
    """Reports the first fault of a value against the types of `table` and their required fields.

    A field outside the table is a fault in a closed type.
    """

    def __init__(
        self, table: Table, required: Mapping[str, tuple[str, ...]], closed: Collection[str] = ()
    ) -> None:
        self._table = table
        self._required = required
        self._closed = frozenset(closed)

    def fault(self, code: str, value: Any, path: str) -> str:
        """Return the first fault of a value of the type `code`, with its path; empty if it has none."""
        try:
            self._check(code, value, path)
        except _Fault as fault:
            return str(fault)
        return ""

    def readable(self, fields: Mapping[str, str], values: Any) -> dict[str, Any]:
        """Return an object with null for each of `fields` that has a fault; empty for any other value."""
        return {
            name: None if name in fields and self.fault(fields[name], value, name) else value
            for name, value in (values if is_mapping(values) else {}).items()
        }

    def _check(self, code: str, value: Any, path: str) -> None:
        code = code.lstrip("*=?")
        if value is None:
            return
        if code[0] == "[":
            _demand(isinstance(value, list), path, value, "a list")
            for index, item in enumerate(value):
                self._check_item(code[1:-1], item, f"{path}[{index}]")
        elif code[0] == "{":
            _demand(is_mapping(value), path, value, "an object")
            # Fast path, because the status of a large set has a thousand strings.
            if code == "{s}" and all(type(item) is str for item in value.values()):
                return
            for key, item in value.items():
                self._check_item(code[1:-1], item, f"{path}.{key}")
        elif code in _SCALARS:
            is_one, words = _SCALARS[code]
            _demand(is_one(value), path, value, words)
        else:
            self._check_struct(code, value, path)

    def _check_item(self, code: str, item: Any, path: str) -> None:
        _demand(item is not None, path, item, "there")
        self._check(code, item, path)

    def _check_struct(self, name: str, value: Any, path: str) -> None:
        _demand(is_mapping(value), path, value, "an object")
        fields = self._table[name]
        for key in self._required.get(name, ()):
            _demand(value.get(key) is not None, f"{path}.{key}", None, "there")
        for key, item in value.items():
            if key in fields:
                self._check(fields[key], item, f"{path}.{key}")
            elif name in self._closed and item is not None:
                raise _Fault(f"{path}.{key} is unknown to this release")


class Numbers:
    """Finds numbers and quantities that keep a typed client from creating and even listing objects.

    Values that do not have the shape of their type are ignored.
    """

    def __init__(self, table: Table) -> None:
        self._with_numbers = _leading_to(table, lambda name, key: _bare(table[name][key]) in _NUMBERS)

    def faults(self, code: str, value: Any, path: str) -> Iterator[tuple[str, Any, str]]:
        """Yield path, value and error, worded as in a typed client, of each number that cannot be decoded."""
        code = code.lstrip("*=?")
        if code in _NUMBERS:
            if fault := _NUMBERS[code](value):
                yield path, value, fault
        elif code[0] == "[":
            for index, item in enumerate(value if isinstance(value, list) else ()):
                yield from self.faults(code[1:-1], item, f"{path}[{index}]")
        elif is_mapping(value):
            if code[0] == "{":
                for key, item in value.items():
                    yield from self.faults(code[1:-1], item, f"{path}[{key}]")
                return
            for key, inner in self._with_numbers[code].items():
                if (item := value.get(key)) is not None:
                    yield from self.faults(inner, item, f"{path}.{key}")


class ListLimits:
    """Finds lists with more items than their definition allows, as in `lws.kube.typed.most_items_of`."""

    def __init__(self, table: Table, most: Mapping[str, Mapping[str, int]]) -> None:
        self._most = most
        self._limited = _leading_to(table, lambda name, key: key in most[name])

    def faults(self, name: str, value: Any, path: str) -> Iterator[tuple[str, int, int]]:
        """Yield path, count and maximum of each such list in a struct of the type `name`."""
        for key, code in self._limited[name].items() if is_mapping(value) else ():
            item, inner = value.get(key), f"{path}.{key}"
            is_list = isinstance(item, list)
            if is_list and len(item) > self._most[name].get(key, len(item)):
                yield inner, len(item), self._most[name][key]
            elif _bare(code) in self._limited:
                parts = (
                    ((f"{inner}[{index}]", part) for index, part in enumerate(item))
                    if is_list
                    else [(inner, item)]
                )
                for where, part in parts:
                    yield from self.faults(_bare(code), part, where)


def _leading_to(table: Table, is_wanted: Callable[[str, str], bool]) -> dict[str, dict[str, str]]:
    """Return the fields of each type that are wanted, or whose own type has such fields, with their codes."""
    found: dict[str, dict[str, str]] = {name: {} for name in table}
    is_more = True
    while is_more:
        found, former = (
            {
                name: {
                    key: code
                    for key, code in fields.items()
                    if is_wanted(name, key) or found.get(_bare(code))
                }
                for name, fields in table.items()
            },
            found,
        )
        is_more = found != former
    return found


def _bare(code: str) -> str:
    return code.strip("*=?[]{}")


def is_deep(value: Any, levels: int = _DEEPEST) -> bool:
    """Return whether a value is nested more deeply than any field of Kubernetes."""
    is_list = isinstance(value, list)
    if not (is_list or is_mapping(value)):
        return False
    if levels == 0:
        return True
    # Most values are strings, and there may be a hundred thousand of them.
    return any(
        type(part) is not str and is_deep(part, levels - 1) for part in (value if is_list else value.values())
    )


def has_more_values(value: Any, most: int) -> bool:
    """Return whether a value contains more than `most` values. Counting stops there."""
    waiting, count = [value], 0
    while waiting and count <= most:
        part = waiting.pop()
        if is_mapping(part):
            count += len(part)
            waiting += [item for item in part.values() if type(item) is not str]
        elif isinstance(part, list):
            count += len(part)
            waiting += [item for item in part if type(item) is not str]
    return count > most


def json_fault(value: Any, path: str) -> str:
    """Return why a value cannot be sent as JSON: excessive numbers, invalid Unicode or nesting; else empty.

    The API server stores raw data, such as the data of ControllerRevisions, unchecked.
    """
    if is_deep(value):
        return f"{path} has more than {_DEEPEST} levels"
    try:
        _check_json(value, path)
    except _Fault as fault:
        return str(fault)
    return ""


def _check_json(value: Any, path: str) -> None:
    if isinstance(value, str):
        _demand(_is_unicode(value), path, value, "Unicode text")
    elif isinstance(value, float):
        _demand(math.isfinite(value), path, value, "a finite number")
    elif isinstance(value, int):
        _demand(abs(value) <= _LARGEST, path, value, "a number of 64 bits")
    elif is_mapping(value) or isinstance(value, list):
        for key, item in value.items() if is_mapping(value) else enumerate(value):
            _demand(not isinstance(key, str) or _is_unicode(key), path, key, "Unicode text")
            if type(item) is str and item.isascii():
                continue
            _check_json(item, f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]")


def _demand(is_so: bool, path: str, value: Any, words: str) -> None:
    if not is_so:
        raise _Fault(f"{path} is {_shown(value)}, not {words}" if value is not None else f"{path} is missing")


def _shown(value: Any) -> str:
    if is_mapping(value):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number of more than 64 bits"
    text = ascii(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _is_quantity(value: Any) -> bool:
    try:
        return isinstance(value, str | int | float) and not isinstance(value, bool) and bool(parse(value))
    except ValueError:
        return False


def _integer_fault(value: Any, bits: int) -> str:
    if not is_integer(value) or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return ""
    # Worded as in Go. Python refuses to print numbers of thousands of digits.
    number = f"number {value}" if abs(value) < 2**64 else "number"
    return f"json: cannot unmarshal {number} into Go value of type int{bits}"


def _quantity_fault(value: Any) -> str:
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return _NO_QUANTITY if is_text and not _is_quantity(value) else ""


_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', with a "
    "suffix that there is"
)
_NUMBERS: Mapping[str, Callable[[Any], str]] = {
    "i": lambda value: _integer_fault(value, 32),
    "l": lambda value: _integer_fault(value, 64),
    "x": lambda value: _integer_fault(value, 32),
    "q": _quantity_fault,
}
"""Scalar type with bounds → function that returns the fault of a value, which is empty if there is none."""
_SCALARS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "s": (lambda value: isinstance(value, str), "text"),
    "b": (lambda value: isinstance(value, bool), "true or false"),
    "i": (is_integer, "a whole number"),
    "l": (is_integer, "a whole number"),
    "q": (_is_quantity, "a quantity"),
    "x": (lambda value: isinstance(value, str) or is_integer(value), "a whole number or text"),
    "t": (lambda value: isinstance(value, str), "a time"),
    "j": (lambda value: True, "anything"),
}
