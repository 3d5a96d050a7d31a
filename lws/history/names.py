"""Which name, number and key does a revision get that is about to be recorded?

In: the owner of the history, the key of the revision at each probe, the number that would make it the newest,
what is taken. Out: names, numbers, probes. The key does not depend on the name: an object with the name of a
revision changes no key.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from lws.actions import Object

HIGHEST_NUMBER = 2**63 - 1
"""The largest `revision` that a ControllerRevision can have (int64)."""

_NAME_PART = 220
"""Bytes of the owner's name in the name of a revision; leaves room for hash and number within 253."""

_IN_A_ROW = 3
"""Places that are tried one by one. Each that is taken costs a write that fails, and failures wait."""


def stem_of(owner: Object) -> str:
    """What the names of all revisions of an owner begin with."""
    name: str = owner["metadata"]["name"]
    return name[:_NAME_PART]


def revision_name(owner: Object, fingerprint: str, number: int) -> str:
    """`<owner>-<hash>-<number>`."""
    return f"{stem_of(owner)}-{fingerprint}-{number}"


@dataclass(frozen=True, slots=True)
class Place:
    """The number of a new revision, by which its name is free. passed: names before it that are taken."""

    number: int
    passed: tuple[str, ...] = ()


def free_place(owner: Object, fingerprint: str, number: int, taken: Container[str]) -> Place:
    """The first place that nobody has, from `number` on; past a few it goes on in leaps.

    The number gives way, not the key: pods carry the key, and the original would have computed the same.
    """
    found = next(each for each in _places(number) if revision_name(owner, fingerprint, each) not in taken)
    passed = takewhile(lambda each: each != found, _places(number))
    return Place(found, tuple(revision_name(owner, fingerprint, each) for each in passed))


def _places(number: int) -> Iterator[int]:
    return (number + (each if each < _IN_A_ROW else 1 << (each - 1)) for each in count())


def free_probe(key_at: Callable[[int], str], taken: Container[str]) -> int:
    """The lowest number at which the key is not that of another template: two must never share one."""
    return next(probe for probe in count() if key_at(probe) not in taken)


def collisions_below(key_at: Callable[[int], str], probe: int, taken: Container[str]) -> int:
    """How many keys below `probe` were given up because other data has them."""
    return sum(key_at(each) in taken for each in range(probe))


def storable(number: int) -> int:
    """The number as it can be stored: somebody may have raised a revision as far as that goes.

    Revisions that share the highest number are ordered by their creation.
    """
    return min(number, HIGHEST_NUMBER)
