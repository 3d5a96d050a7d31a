"""What the histories of all kinds have in common: names, order, and what becomes of revisions that exist.

In: decoded revisions, and the owner that may adopt them. Out: names, an order, actions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Protocol, TypeVar

from lws.runtime.actions import Action, Merge, Object, Reference, SetOwner


def plan_reuse(known: Entry, newest: int, owner: Object | None) -> tuple[Action, ...]:
    """Adopt it if it is an orphan, make it the newest if it is not (Controller History); its key stays.

    newest: the highest number there is. owner: the reference that an orphan gets; None while none may be
    adopted.
    """
    patch: dict[str, object] = {}
    why = "an orphan of the set is adopted"
    if known.number < min(newest, HIGHEST_NUMBER):
        patch["revision"] = storable(newest + 1)
        why = f"the set asks again for what revision {known.number} holds"
    if known.is_orphan:
        # Nothing is written to what nobody controls but its owner.
        return (SetOwner(known.reference, owner, why, patch=patch),) if owner is not None else ()
    return (Merge(known.reference, patch, why=why),) if patch else ()


def plan_adoption(orphans: Iterable[Entry], owner: Object) -> tuple[Action, ...]:
    """An orphaned history comes along as a whole (ControllerRef rules)."""
    return tuple(
        SetOwner(each.reference, owner, why=f"revision {each.number} has no owner") for each in orphans
    )


class Entry(Protocol):
    """One ControllerRevision, as far as its kind does not matter.

    reference: with UID and resource version. number: its place in the history, the highest is the newest.
    key: what is made from it carries it as a label. created: creation time, RFC 3339. broken: why it can be
    used for nothing, in words; empty when it can.
    """

    @property
    def reference(self) -> Reference: ...
    @property
    def number(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def created(self) -> str: ...
    @property
    def is_orphan(self) -> bool: ...
    @property
    def is_leaving(self) -> bool: ...
    @property
    def broken(self) -> str: ...


_Entry = TypeVar("_Entry", bound=Entry)


def age(each: Entry) -> tuple[int, str, str]:
    """Sorts revisions from the oldest to the newest: by number, never by time alone."""
    return each.number, each.created, each.reference.name


def newest(recorded: Iterable[_Entry]) -> _Entry | None:
    """The newest of them, None where there is none."""
    return max(recorded, key=age, default=None)


def find(recorded: Iterable[_Entry], key: str) -> _Entry | None:
    """The newest usable revision of that key; none has the empty key."""
    return newest(each for each in recorded if each.key == key and not each.broken)


def next_number(recorded: Iterable[Entry]) -> int:
    """The number that makes a revision the newest; it may be more than can be stored."""
    return max((each.number for each in recorded), default=0) + 1


def prunable(
    recorded: Iterable[_Entry], live_keys: Collection[str], limit: int, named: Collection[str] = ()
) -> list[_Entry]:
    """Revisions that are neither running nor wanted, beyond the newest `limit` of them; oldest first, broken
    ones last, because somebody may want to look at them.

    live_keys: of what runs, may come back, or is wanted. named: revisions that something remembers by name.
    Both stay, and so do the newest one and orphans.
    """
    owned = sorted((each for each in recorded if not each.is_orphan and not each.is_leaving), key=age)
    spare = [each for each in owned[:-1] if each.reference.name not in named]
    spare = [each for each in spare if each.broken or each.key not in live_keys]
    spare.sort(key=lambda each: bool(each.broken))
    return spare[: max(0, len(spare) - limit)]


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

    The number gives way, not the key: pods carry the key, and upstream would have computed the same.
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
