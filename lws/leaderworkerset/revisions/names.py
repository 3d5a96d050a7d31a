"""Which name and which number does a revision get that is about to be recorded?

In: the set, the fingerprint of the revision, the number that would make it the newest, names that are taken.
Out: names and numbers. The key depends on none of them: whoever has the name of a revision changes no key.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from lws.actions import Object

HIGHEST_NUMBER = 2**63 - 1
"""The largest `revision` that a ControllerRevision can have (int64)."""

_NAME_PART = 220
"""Bytes of the set's name in the name of a revision; leaves room for hash and number within 253."""

_IN_A_ROW = 3
"""Places that are tried one by one. Each that is taken costs a write that fails, and failures wait."""


def stem_of(lws: Object) -> str:
    """What the names of all revisions of a set begin with."""
    name: str = lws["metadata"]["name"]
    return name[:_NAME_PART]


def revision_name(lws: Object, fingerprint: str, number: int) -> str:
    """`<set>-<hash>-<number>`."""
    return f"{stem_of(lws)}-{fingerprint}-{number}"


@dataclass(frozen=True, slots=True)
class Place:
    """The number of a new revision, by which its name is free. passed: names before it that are taken."""

    number: int
    passed: tuple[str, ...] = ()


def free_place(lws: Object, fingerprint: str, number: int, taken: Container[str]) -> Place:
    """The first place that nobody has, from `number` on; past a few it goes on in leaps.

    The number gives way, not the key: pods carry the key, and the original would have computed the same.
    """
    found = next(each for each in _places(number) if revision_name(lws, fingerprint, each) not in taken)
    passed = takewhile(lambda each: each != found, _places(number))
    return Place(found, tuple(revision_name(lws, fingerprint, each) for each in passed))


def _places(number: int) -> Iterator[int]:
    return (number + (each if each < _IN_A_ROW else 1 << (each - 1)) for each in count())


def storable(number: int) -> int:
    """The number as it can be stored: somebody may have raised a revision as far as that goes.

    Revisions that share the highest number are ordered by their creation.
    """
    return min(number, HIGHEST_NUMBER)
