"""Which revision of a history is the newest, which has a key, and which does nothing need any more?

In: the decoded revisions of one owner, of whatever kind. Out: one of them, numbers, those to be pruned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from lws.actions import Reference


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
