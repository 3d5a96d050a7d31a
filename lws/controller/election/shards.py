"""Which shard does a namespace belong to, when several managers share the work?

In: its name, the number of shards. Out: a number that every process and every release computes alike: two
that disagreed would act on the same sets.
"""

from __future__ import annotations

from functools import lru_cache

_OFFSET, _PRIME, _BITS = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


@lru_cache(maxsize=16384)
def shard_of(namespace: str, shards: int) -> int:
    """0 to shards - 1: FNV-1a of 64 bits over the name in UTF-8, modulo `shards`.

    The low bits count: in the high ones, names that differ in their last characters hardly differ.
    """
    digest = _OFFSET
    for byte in namespace.encode():
        digest = ((digest ^ byte) * _PRIME) & _BITS
    return digest % shards
