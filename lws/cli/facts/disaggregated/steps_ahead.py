"""Which steps does a DisaggregatedSet take from here to its end, if every new group gets ready?

In: what a pass over the set would see. Out: the steps of the product's own passes, in order, played against a
model of everybody else. Passes do what they can, and then everybody else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lws.cli.facts.disaggregated.model import Model
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot

# Each group costs a handful of passes; a set that needs more than this many never comes to rest.
_PASSES_PER_GROUP = 20
_PASSES_AT_LEAST = 200

Counts = Mapping[str, Mapping[str, int]]
"""Key → role → groups."""


@dataclass(frozen=True, slots=True)
class Change:
    """One LeaderWorkerSet is told another number of groups; 0 before it is made, and once it is deleted."""

    role: str
    key: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one pass changes in one slice. counts: what its LeaderWorkerSets want from then on."""

    slice_index: int
    changes: tuple[Change, ...]
    counts: Counts


@dataclass(frozen=True, slots=True)
class StepsAhead:
    """steps: in order. waiting_for: what the last word is, empty if all is done. end: how the set is then."""

    steps: tuple[Step, ...]
    waiting_for: str
    end: DisaggregatedSnapshot


def steps_ahead(snapshot: DisaggregatedSnapshot) -> StepsAhead:
    """Play on until nothing happens any more."""
    model = Model(snapshot)
    steps: list[Step] = []
    for _ in range(_PASSES_AT_LEAST + _PASSES_PER_GROUP * _groups(snapshot)):
        now = model.snapshot
        planned = plan(now)
        model.carry_out(planned)
        if any(planned.sequences):
            steps += _between(now, model.snapshot)
        # A pass that writes nothing but a status is followed by what everybody else does: a third fewer.
        elif not model.move() and not planned.statuses:
            break
    return StepsAhead(tuple(steps), planned.waiting_for, model.snapshot)


def _groups(snapshot: DisaggregatedSnapshot) -> int:
    """How many there are and will be, roughly."""
    spec = snapshot.obj.get("spec") or {}
    asked = sum((role.get("spec") or {}).get("replicas") or 1 for role in spec.get("roles") or ())
    scaled = sum((each.get("spec") or {}).get("replicas") or 0 for each in snapshot.scalers)
    running = sum(each.wanted for each in snapshot.children)
    return int(asked * (spec.get("slices") or 1) + scaled + running)


def _between(before: DisaggregatedSnapshot, after: DisaggregatedSnapshot) -> Iterator[Step]:
    known, now = _counts(before), _counts(after)
    for index in sorted({slice_index for slice_index, _, _ in (*known, *now)}):
        places = [each for each in dict.fromkeys((*known, *now)) if each[0] == index]
        pairs = ((place, known.get(place, 0), now.get(place, 0)) for place in places)
        changes = tuple(Change(role, key, old, new) for (_, key, role), old, new in pairs if old != new)
        if changes:
            counts: dict[str, dict[str, int]] = {}
            for _, key, role in places:
                if groups := now.get((index, key, role), 0):
                    counts.setdefault(key, {})[role] = groups
            yield Step(index, changes, counts)


def _counts(snapshot: DisaggregatedSnapshot) -> dict[tuple[int, str, str], int]:
    """What LeaderWorkerSets want, by slice, key and role."""
    counts: dict[tuple[int, str, str], int] = {}
    for each in snapshot.children:
        place = (each.slice_index, each.key, each.role)
        counts[place] = counts.get(place, 0) + each.wanted
    return counts
