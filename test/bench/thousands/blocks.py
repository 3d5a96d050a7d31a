"""Divide a manager's CPU time into blocks of work, from its folded stacks.

A sample counts to the first block in the order below that has a function of its stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

DECODING = "decoding"
OTHER = "sockets, HTTP, event loop"
_APART = ("imports at the start", "measuring")

# For each block, the beginnings of frames (module.function).
_BLOCKS: Mapping[str, tuple[str, ...]] = {
    _APART[0]: ("<frozen importlib",),
    _APART[1]: ("loop_lag.",),
    DECODING: ("responses.",),
    "streams: trim, store, route": ("informer.",),
    "reviews": ("server._serve", "server._answer", "web_protocol.", "web_app."),
    "writes": ("apply.",),
    "passes over groups": ("observer.observe_group", "plan._plan_group"),
    "passes over sets: reading": ("observer.",),
    "passes over sets: deciding": ("plan.",),
    "TLS": ("ssl.",),
    "passes: queue, metrics": ("loop.", "queue.", "engine._"),
}


def shares(stacks: Mapping[str, int]) -> dict[str, float]:
    """Return each block's share of the samples, the largest first.

    Samples of imports and of the profiler itself do not count.
    """
    counts: Counter[str] = Counter()
    for stack, samples in stacks.items():
        counts[block_of(stack.split(";"))] += samples
    for name in _APART:
        del counts[name]
    total = sum(counts.values())
    return {name: samples / total for name, samples in counts.most_common()}


def block_of(frames: list[str]) -> str:
    """The block that a stack belongs to."""
    for name, beginnings in _BLOCKS.items():
        if any(frame.startswith(beginnings) for frame in frames):
            return name
    return OTHER
