"""What do several Events of one kind say together?

In: `Announce`s that differ only in the object that they name. Out: one of them, word for word where it is
alone, else one that names all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from lws.actions import Announce
from lws.kube.names import parent_and_ordinal

_RUNS = 10


def fold_key(announce: Announce) -> Hashable | None:
    """Equal for Events that can be told as one; None for one that is always told alone."""
    if announce.fold is None:
        return None
    about = announce.regarding.uid or str(announce.regarding)
    return about, announce.type, announce.reason, announce.action, announce.fold.template


def folded(announces: Sequence[Announce]) -> Announce:
    """One Event for Events of one key, in any order, at least one of them."""
    last = announces[-1]
    names = {each.fold.member for each in announces if each.fold is not None}
    if last.fold is None or len(names) == 1:
        return last
    # No single object is meant any more.
    return replace(last, note=last.fold.template.format(listed(names)), related=None)


def listed(names: Iterable[str]) -> str:
    """Names by their ordinals: "demo-0 to demo-8, demo-11"; of many runs the first ten."""
    runs: list[list[tuple[str, int]]] = []
    for parent, ordinal in sorted(map(parent_and_ordinal, names)):
        if runs and runs[-1][-1] == (parent, ordinal - 1):
            runs[-1].append((parent, ordinal))
        else:
            runs.append([(parent, ordinal)])
    texts = [_span(run) for run in runs[:_RUNS]]
    more = sum(map(len, runs[_RUNS:]))
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _span(run: list[tuple[str, int]]) -> str:
    first, last = (f"{parent}-{ordinal}" for parent, ordinal in (run[0], run[-1]))
    return first if len(run) == 1 else f"{first} to {last}"
