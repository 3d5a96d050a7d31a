"""How a refusal reads: the path, the value and the reason of one error, and several errors as one message.

In: paths, values, details. Out: text in the form that the API server and the original controller use.
"""

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
    """A request that is not admitted; its text says what, where, and what to do."""


class Complaint(StrEnum):
    """The kinds of field errors that we make, in the words of the API server."""

    FORBIDDEN = "Forbidden"
    INVALID = "Invalid value"
    NOT_SUPPORTED = "Unsupported value"
    REQUIRED = "Required value"


_WITHOUT_VALUE = (Complaint.FORBIDDEN, Complaint.REQUIRED)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field; `str()` of it is what the user reads."""

    complaint: Complaint
    path: str
    detail: str
    value: Any = None

    def __str__(self) -> str:
        if self.complaint in _WITHOUT_VALUE:
            return f"{self.path}: {self.complaint}: {self.detail}"
        return f"{self.path}: {self.complaint}: {rendered(self.value)}: {self.detail}"


def invalid(path: object, value: Any, detail: str) -> FieldError:
    """The field at a path (as text it is one) is there and `value` will not do."""
    return FieldError(Complaint.INVALID, str(path), detail, value)


def forbidden(path: object, value: Any, detail: str) -> FieldError:
    """The field must not be set here, to whatever it is."""
    return FieldError(Complaint.FORBIDDEN, str(path), detail, value)


def not_supported(path: object, value: Any, supported: Iterable[str]) -> FieldError:
    """The field has another value than one of those that there are."""
    detail = f"supported values: {', '.join(rendered(each) for each in supported)}"
    return FieldError(Complaint.NOT_SUPPORTED, str(path), detail, value)


def required(path: str, detail: str) -> FieldError:
    """The field must be set and is not."""
    return FieldError(Complaint.REQUIRED, path, detail)


def aggregate(errors: Sequence[FieldError]) -> str:
    """One message for all errors (one at least): itself, or `[e1, e2]` without repeating equal ones."""
    messages = list(dict.fromkeys(str(error) for error in errors))
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"


def rendered(value: Any) -> str:
    """A value as errors show it: strings quoted and escaped as Go does, all else as compact JSON."""
    if isinstance(value, str):
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
