"""Format field errors as the API server and upstream do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


class Refused(Exception):
    """A rejected request. The message names the field, the problem and the remedy."""


class Complaint(StrEnum):
    """Kinds of field errors, in the words of the API server."""

    FORBIDDEN = "Forbidden"
    INVALID = "Invalid value"
    NOT_SUPPORTED = "Unsupported value"
    REQUIRED = "Required value"
    TOO_MANY = "Too many"


_LONGEST = 8 * 1024
_WITHOUT_VALUE = (Complaint.FORBIDDEN, Complaint.REQUIRED)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem in one field; `str()` returns the message for the user."""

    complaint: Complaint
    path: str
    detail: str
    value: Any = None

    def __str__(self) -> str:
        if self.complaint in _WITHOUT_VALUE:
            return f"{self.path}: {self.complaint}: {self.detail}"
        return f"{self.path}: {self.complaint}: {rendered(self.value)}: {self.detail}"


def invalid(path: object, value: Any, detail: str) -> FieldError:
    """Return the error for a field whose value is not allowed. `str(path)` must be the path of the field."""
    return FieldError(Complaint.INVALID, str(path), detail, value)


def forbidden(path: object, value: Any, detail: str) -> FieldError:
    """Return the error for a field that must not be set here."""
    return FieldError(Complaint.FORBIDDEN, str(path), detail, value)


def not_supported(path: object, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a field whose value is not one of `supported`."""
    detail = f"supported values: {', '.join(rendered(name) for name in supported)}"
    return FieldError(Complaint.NOT_SUPPORTED, str(path), detail, value)


def required(path: str, detail: str) -> FieldError:
    """Return the error for a missing field."""
    return FieldError(Complaint.REQUIRED, path, detail)


def too_many(path: str, count: int, most: int) -> FieldError:
    """Return the error for a list with more items than its definition allows."""
    return FieldError(Complaint.TOO_MANY, path, f"must have at most {most} items", count)


def aggregate(errors: Sequence[FieldError]) -> str:
    """Combine one or more errors into one message: the only error, or `[e1, e2]` without duplicates."""
    messages = list(dict.fromkeys(str(error) for error in errors))
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"


def rendered(value: Any) -> str:
    """Format a value as errors show it: strings quoted and escaped as in Go, other values as compact JSON.

    Strings are shortened that no API server would store where errors show them.
    """
    if isinstance(value, str):
        value = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
        if value.isprintable() and _ESCAPES.keys().isdisjoint(value):
            return f'"{value}"'
        return '"' + "".join(_escaped(character) for character in value) + '"'
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False, default=str)


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
