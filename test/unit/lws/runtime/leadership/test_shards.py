"""The mapping of namespaces to shards never changes.

A release with another mapping would be active in the same namespaces as a manager of the previous release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from lws.runtime.leadership.shard_election import shard_of

# Recorded once, never to be changed; for 2, 4, 7 and 64 shards.
VECTORS = {
    "default": (0, 2, 6, 62),
    "kube-system": (0, 2, 1, 30),
    "lws-system": (1, 1, 5, 25),
    "team-a": (0, 2, 0, 22),
    "team-b": (1, 3, 4, 35),
    "team-01": (0, 0, 1, 56),
    "team-10": (0, 2, 1, 34),
    "prod": (0, 0, 4, 20),
    "llm-serving": (1, 1, 0, 9),
    "a": (0, 0, 5, 12),
    "x" * 63: (1, 3, 1, 63),
    "inference-7b": (0, 2, 2, 18),
}


def spread(names: Iterable[str], shards: int) -> list[int]:
    counted = Counter(shard_of(name, shards) for name in names)
    return [counted[shard] for shard in range(shards)]


def test_the_mapping_never_changes() -> None:
    shards_by_name = {name: tuple(shard_of(name, shards) for shards in (2, 4, 7, 64)) for name in VECTORS}
    assert shards_by_name == VECTORS


def test_the_hash_is_fnv_1a_of_64_bits() -> None:
    # Test vectors published by the authors of the hash.
    assert shard_of("", 1 << 64) == 0xCBF29CE484222325
    assert shard_of("a", 1 << 64) == 0xAF63DC4C8601EC8C
    assert shard_of("foobar", 1 << 64) == 0x85944171F73967E8


def test_a_single_shard_has_all_namespaces() -> None:
    assert {shard_of(name, 1) for name in VECTORS} == {0}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([f"team-{number:02}" for number in range(100)], id="numbered"),
        pytest.param([f"ns-{number}" for number in range(1000)], id="counted"),
        pytest.param([f"team-{letter}-prod" for letter in "abcdefghijklmnopqrstuvwxyz"], id="lettered"),
    ],
)
def test_common_names_are_balanced(names: list[str]) -> None:
    for shards in (2, 4, 8):
        counted = spread(names, shards)
        assert max(counted) - min(counted) <= 0.05 * len(names)
