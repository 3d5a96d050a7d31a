"""Which Events of one kind are told together, and what do they say then?

In: `Announce`s that differ only in the object that they name, as they come. Out: those that are told at once,
word for word; of the others one that names all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lws import timing
from lws.actions import Announce
from lws.kube.names import parent_and_ordinal

FEW = 9
"""Groups that have an Event each in a window, in the words of the original."""

_RUNS = 10


@dataclass(slots=True)
class Window:
    """Events of one key that come close together. since: seconds on a clock that does not go back.

    It ends when nothing was gathered for its length: many groups that take long are one matter.
    """

    since: float
    _alone: set[str] = field(default_factory=set)
    _gathered: list[Announce] = field(default_factory=list)
    _wait: float = timing.EVENT_FOLD.first

    def is_over(self, now: float) -> bool:
        """The next Event of this key begins a new one."""
        return not self._gathered and now - self.since >= timing.EVENT_WINDOW_SECONDS

    def goes_alone(self, announce: Announce) -> bool:
        """True for the Events of a few groups; from the tenth group on they are gathered."""
        if announce.fold is not None and len(self._alone | {announce.fold.member}) <= FEW:
            self._alone.add(announce.fold.member)
            return True
        self._gathered.append(announce)
        return False

    @property
    def due_in(self) -> float | None:
        """Seconds until the gathered ones are due, right after the first of them; else None."""
        return self._wait if len(self._gathered) == 1 else None

    def take(self, now: float) -> Announce | None:
        """What the gathered ones say together; None where there are none."""
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return None
        self.since, self._wait = now, timing.EVENT_FOLD.following(self._wait)
        return folded(gathered)


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
    return replace(last, note=last.fold.template.format(listed(names)), related=last.fold.related)


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
