"""Which Events of one kind are told together, and what do they say then?

In: `Announce`s that differ only in the object that they name, as they come. Out: those that are told at once,
word for word; of the others one that names all, or says from which count to which each has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from lws import timing
from lws.actions import Announce, Reference
from lws.kube.names import parent_and_ordinal

FoldKey = tuple[str, ...]
"""What Events are about, then what is the same of all that are told together."""

FEW = 9
"""Groups that have an Event each in a window, in the words of the original."""

_RUNS = 10
_NO_PARENT = ""


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
        """True for the Events of a few groups; from the tenth group on they are gathered, or all."""
        fold = announce.fold
        if fold is not None and not fold.waits and len(self._alone | {fold.member}) <= FEW:
            self._alone.add(fold.member)
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


def about(regarding: Reference) -> str:
    """Equal for all versions of an object."""
    return regarding.uid or str(regarding)


def fold_key(announce: Announce) -> FoldKey | None:
    """Equal for Events that can be told as one; None for one that is always told alone."""
    if announce.fold is None:
        return None
    what = announce.type, announce.reason, announce.action, announce.fold.template
    return about(announce.regarding), *what


def folded(announces: Sequence[Announce]) -> Announce:
    """One Event for Events of one key, in any order, at least one of them."""
    last = announces[-1]
    folds = [each.fold for each in announces if each.fold is not None]
    names = {each.member for each in folds}
    changes = [(each.member, *each.change) for each in folds if each.change is not None]
    if last.fold is None or (len(names) == 1 and len(changes) < 2):
        return last
    said = changed(changes) if changes else listed(names)
    # Of several no single object is meant any more.
    related = last.related if len(names) == 1 else last.fold.related
    return replace(last, note=last.fold.template.format(said), related=related)


def listed(names: Iterable[str]) -> str:
    """Names by their ordinals: "demo-0 to demo-8, demo-11"; of many runs the first ten."""
    runs: list[list[str]] = []
    former = (_NO_PARENT, -1)
    for name in sorted(names, key=lambda each: (*parent_and_ordinal(each), each)):
        parent, ordinal = parent_and_ordinal(name)
        if parent != _NO_PARENT and former == (parent, ordinal - 1):
            runs[-1].append(name)
        else:
            runs.append([name])
        former = parent, ordinal
    return _first_of([_span(run) for run in runs], [len(run) for run in runs])


def changed(changes: Iterable[tuple[str, int, int]]) -> str:
    """Members as they came, each with its first count and its last; of many the first ten."""
    ends: dict[str, tuple[int, int]] = {}
    for member, before, after in changes:
        ends[member] = (ends.get(member, (before, after))[0], after)
    texts = [f"{member} from {before} to {after} replicas" for member, (before, after) in ends.items()]
    return _first_of(texts, [1] * len(texts))


def _first_of(texts: Sequence[str], members: Sequence[int]) -> str:
    """members: for how many of them each text stands."""
    more = sum(members[_RUNS:])
    return ", ".join(texts[:_RUNS]) + (f" and {more} more" if more else "")


def _span(run: Sequence[str]) -> str:
    return run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"
