"""Locks for owners that the manager deletes: which operations wait, and how many owners are recorded."""

from __future__ import annotations

import asyncio

import pytest

from lws.runtime.apply import OwnerLocks


class Diary:
    def __init__(self) -> None:
        self.turns = OwnerLocks()
        self.lines: list[str] = []

    async def make(self, name: str, uid: str = "a") -> None:
        async with self.turns.creating(uid) as may_create:
            self.lines.append(f"{name} begins" if may_create else f"{name} is not made")
            await asyncio.sleep(0)
            self.lines.append(f"{name} ends")

    async def delete(self, uid: str = "a", failure: Exception | None = None) -> None:
        async with self.turns.deleting(uid):
            self.lines.append("deletion begins")
            await asyncio.sleep(0)
            self.lines.append("deletion ends")
            if failure is not None:
                raise failure


async def test_a_deletion_waits_for_concurrent_creates() -> None:
    diary = Diary()
    await asyncio.gather(diary.make("x"), diary.make("y"), diary.delete())
    assert diary.lines == ["x begins", "y begins", "x ends", "y ends", "deletion begins", "deletion ends"]


async def test_creates_are_blocked_during_and_after_a_deletion_of_the_same_owner_only() -> None:
    diary = Diary()
    await asyncio.gather(diary.delete(), diary.make("x"), diary.make("z", "b"))
    assert diary.lines.index("z begins") < diary.lines.index("deletion ends")
    assert diary.lines.index("x is not made") > diary.lines.index("deletion ends")


async def test_a_deletion_that_failed_changes_nothing() -> None:
    diary = Diary()
    with pytest.raises(OSError):
        await diary.delete(failure=OSError("no answer"))
    await diary.make("x")
    assert diary.lines[-2:] == ["x begins", "x ends"]


async def test_two_deletions_of_one_owner_are_serialized() -> None:
    diary = Diary()
    await asyncio.gather(diary.delete(), diary.delete())
    assert diary.lines == ["deletion begins", "deletion ends"] * 2


async def test_only_the_newest_deletions_are_remembered() -> None:
    diary = Diary()
    for number in range(10_001):
        async with diary.turns.deleting(str(number)):
            pass
    await asyncio.gather(diary.make("first", "0"), diary.make("second", "1"), diary.make("last", "10000"))
    assert diary.lines[:3] == ["first begins", "second is not made", "last is not made"]
