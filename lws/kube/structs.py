"""Encode a value as a typed client sends it: which fields, in which order.

In: JSON data of the shapes of a table of types as in `lws.kube.typed`. Out: the data in the order of
the structs, without unknown fields. `typed` does the same if the order does not matter and unknown fields are
to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lws.kube.quantities import canonical
from lws.kube.typed import Table

_NO_TIME = "0001-01-01T00:00:00Z"


class Structs:
    """Values of the types of `table`, as structs write them."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def write(self, code: str, value: Any) -> Any:
        """Encode a value of this type (a code of the table); null stands for its zero value."""
        if code[0] == "[":
            return None if value is None else [self.write(code[1:-1], item) for item in value]
        if code[0] == "{":
            entries = () if value is None else sorted(value.items())
            return None if value is None else {key: self.write(code[1:-1], item) for key, item in entries}
        if code in _SCALARS:
            zero, writer = _SCALARS[code]
            return zero if value is None else writer(value)
        return self._struct(code, {} if value is None else value)

    def _struct(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        written = {}
        for key, code in self._table[name].items():
            item = value.get(key)
            prefix = code[0] if code[0] in "*=?" else ""
            # Everything that is false in Python is the zero value of some JSON type.
            if prefix == "=" or (prefix == "" and item) or (prefix in ("*", "?") and item is not None):
                written[key] = self.write(code.removeprefix(prefix), item)
            elif prefix == "?":
                written[key] = None
        return written


def _as_it_is(value: Any) -> Any:
    return value


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


def _time(value: str) -> str | None:
    """In UTC and whole seconds; the zero time is null."""
    if value == _NO_TIME:
        return None
    try:
        time = datetime.fromisoformat(value)
        return (
            f"{time.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
            if time.tzinfo
            else value
        )
    except (ValueError, OverflowError):
        return value


_SCALARS: Mapping[str, tuple[Any, Any]] = {
    "s": ("", _as_it_is),
    "b": (False, _as_it_is),
    "i": (0, _integer),
    "l": (0, _integer),
    "q": ("0", canonical),
    "x": (0, _as_it_is),
    "t": (None, _time),
    "j": (None, _as_it_is),
}
