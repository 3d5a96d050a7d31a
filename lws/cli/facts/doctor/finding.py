"""What does a check say?

In: what it saw. Out: findings, and what it could not look at.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is wrong. check: who says so. where: the object, as `Kind namespace/name`. what: is wrong, a
    sentence. do: what helps, a sentence in the imperative.
    """

    check: str
    where: str
    what: str
    do: str


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Something could not be looked at. what: that is. needs: the permission or fact that is lacking."""

    check: str
    what: str
    needs: str


Result = Finding | Unchecked
