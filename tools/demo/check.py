"""Represent a verified claim: its text, what is expected and what was found."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Check:
    """One verified claim. `expected` and `actual` are shown if it did not hold."""

    claim: str
    held: bool
    expected: str
    actual: str


def equal(claim: str, expected: object, actual: object) -> Check:
    """Check that both values are the same."""
    return Check(claim, expected == actual, str(expected), str(actual))


def same_members(claim: str, expected: Collection[str], actual: Collection[str]) -> Check:
    """Check that both collections have the same members, and describe missing and surplus members."""
    missing, surplus = set(expected) - set(actual), set(actual) - set(expected)
    parts = [f"without {listed(missing)}"] if missing else []
    parts += [f"with {listed(surplus)}"] if surplus else []
    held = not missing and not surplus and len(expected) == len(actual)
    return Check(claim, held, f"{len(expected)}", f"{len(actual)}" + "".join(f", {part}" for part in parts))


def none_of(claim: str, offenders: Collection[str], of: int) -> Check:
    """Check that there are no offenders among at least one examined object."""
    actual = f"not so: {listed(offenders)}" if offenders else f"{of} were there to look at"
    return Check(claim, not offenders and of > 0, "so for each of at least one", actual)


def listed(names: Collection[str]) -> str:
    """List the first few names in order, for example "a, b, c and 4 more"; "none" if there are no names."""
    ordered = sorted(names)
    text = ", ".join(ordered[:_SHOWN]) or "none"
    return f"{text} and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else text
