"""Which shards a manager tries to acquire, given the current holders."""

from __future__ import annotations

import random

import pytest

from lws.runtime.leadership.shard_election import Share, share_of


def managers(**holds: str) -> dict[str, frozenset[int]]:
    """Return the shards of each manager; a="01" means that manager a holds shards 0 and 1."""
    return {who: frozenset(map(int, shards)) for who, shards in holds.items()}


def stands(*shards: int) -> Share:
    return Share(acquires=frozenset(shards))


def yields(*shards: int) -> Share:
    return Share(yields=frozenset(shards))


@pytest.mark.parametrize(
    ("shards", "members", "expected"),
    [
        pytest.param(4, managers(a=""), {"a": stands(0, 1, 2, 3)}, id="alone"),
        pytest.param(4, managers(a="0123"), {"a": Share()}, id="alone-with-all"),
        pytest.param(4, managers(a="", b=""), {"a": stands(0, 1), "b": stands(2, 3)}, id="two-begin"),
        pytest.param(
            4, managers(a="0123", b=""), {"a": yields(2, 3), "b": Share()}, id="second-manager-joins"
        ),
        pytest.param(4, managers(a="01", b=""), {"a": Share(), "b": stands(2, 3)}, id="given-up"),
        pytest.param(4, managers(b="23"), {"b": stands(0, 1)}, id="other-manager-died"),
        pytest.param(5, managers(a="01", b="234"), {"a": Share(), "b": Share()}, id="remainder-is-kept"),
        pytest.param(
            4,
            managers(a="01", b="23", c=""),
            {"a": Share(), "b": yields(3), "c": Share()},
            id="third-manager-joins",
        ),
        pytest.param(
            2, managers(a="0", b="1", c=""), {"a": Share(), "b": Share(), "c": Share()}, id="spare-manager"
        ),
        pytest.param(1, managers(a="", b="0"), {"a": Share(), "b": Share()}, id="one-shard"),
        # Both believe that they hold 1. A moment later one of them notices its loss, and 2 is acquired.
        pytest.param(3, managers(a="01", b="1"), {"a": Share(), "b": Share()}, id="disputed"),
    ],
)
def test_shares_of_managers(
    shards: int, members: dict[str, frozenset[int]], expected: dict[str, Share]
) -> None:
    assert {who: share_of(shards, members, who) for who in members} == expected


def test_shards_are_balanced_with_minimal_moves() -> None:
    for seed in range(60):
        dice = random.Random(seed)
        shards = dice.randint(1, 16)
        members: dict[str, frozenset[int]] = {}
        for _ in range(12):
            if members and dice.random() < 0.4:
                del members[dice.choice(sorted(members))]
            if not members or dice.random() < 0.6:
                members[f"m{dice.randrange(1000)}"] = frozenset()
            newcomers = [who for who, holds in members.items() if not holds]
            moved = settle(shards, members)
            counts = [len(held) for held in members.values()]
            assert sum(counts) == shards and max(counts) - min(counts) <= 1
            assert frozenset().union(*members.values()) == frozenset(range(shards))
            # Only as many shards are released as the newcomers get.
            assert moved <= sum(len(members[who]) for who in newcomers)


def settle(shards: int, members: dict[str, frozenset[int]]) -> int:
    """Let every manager adjust its share until nothing changes; return the number of released shards."""
    given_up = 0
    for _ in range(4):
        shares = {who: share_of(shards, members, who) for who in members}
        if all(share == Share() for share in shares.values()):
            return given_up
        given_up += sum(len(share.yields) for share in shares.values())
        for who, share in shares.items():
            members[who] = (members[who] - share.yields) | share.acquires
    raise AssertionError(f"no end: {members}")
