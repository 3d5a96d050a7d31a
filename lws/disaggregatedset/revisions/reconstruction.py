"""What did a revision hold that nothing records? Read off the LeaderWorkerSets that were made from it.

In: the set, and the children that carry the key. Out: a record of what runs, whether that is what the set
asks for anyway, and what of it is guessed; or None where nothing shows it. The key proves it: it is a hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Protocol

from lws.actions import Object
from lws.disaggregatedset.key import key_of
from lws.disaggregatedset.revisions.record import Record, record
from lws.disaggregatedset.revisions.stripping import comparable_form, part_shown, placement_shown
from lws.leaderworkerset.revisions.shape import spec_fault

_ORDERS_TRIED = 24
"""Orders of roles: all of four, and of more the likeliest."""


class RunningChild(Protocol):
    """A LeaderWorkerSet of a set; its name says of which role and key."""

    @property
    def obj(self) -> Object: ...
    @property
    def role(self) -> str: ...
    @property
    def slice_index(self) -> int: ...
    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """record: what runs under the key; where that is what the set asks for, its roles as the set spells them.

    is_wanted: it is what the set asks for. guessed: what nothing shows, in words; empty if nothing was.
    """

    key: str
    record: Record
    is_wanted: bool
    guessed: str = ""


def reconstruct(
    obj: Object, key: str, running: Iterable[RunningChild], is_alone: bool = True
) -> Reconstruction | None:
    """running: the children of the key. is_alone: nothing of the set runs under another key: then a role
    without a child was lost, and not added since.
    """
    readable = (each for each in running if not spec_fault(each.obj))
    first = {each.role: each for each in sorted(readable, key=_age, reverse=True)}
    if not first:
        return None
    wanted = record(obj)
    placement = placement_shown(min(first.values(), key=_age).obj["spec"])
    if key_of(wanted.roles) == key:
        return Reconstruction(key, Record(wanted.parts, placement), True)
    shown = _in_order(wanted, first)
    live = {each["name"]: each for each in wanted.parts}
    equal = {name for name in shown.keys() & live.keys() if _is_equal(shown[name], live[name])}
    spelled = {name: live[name] if name in equal else part for name, part in shown.items()}
    lost = sorted(live.keys() - shown.keys())
    for parts in (spelled, shown):
        if (proven := _proven(key, parts)) is not None:
            return Reconstruction(key, Record(proven, placement), not lost and equal == shown.keys())
    if equal == shown.keys() and (not lost or is_alone):
        guessed = f"the templates of {', '.join(lost)}" if lost else ""
        return Reconstruction(key, Record(wanted.parts, placement), True, guessed)
    guessed = "the order of its roles, and labels of its pods in whose place there are labels of the set"
    return Reconstruction(key, Record(tuple(spelled.values()), placement), False, guessed)


def _in_order(wanted: Record, first: Mapping[str, RunningChild]) -> dict[str, Object]:
    """Roles of the set in its order, then others by their creation."""
    known = [name for name in wanted.roles if name in first]
    others = sorted(first.keys() - set(known), key=lambda name: (_created(first[name]), name))
    return {name: part_shown(name, first[name].obj) for name in (*known, *others)}


def _is_equal(shown: Object, live: Object) -> bool:
    return comparable_form(shown["spec"]) == comparable_form(live["spec"])


def _proven(key: str, parts: Mapping[str, Object]) -> tuple[Object, ...] | None:
    """The roles in the order in which they hash to the key."""
    for order in islice(permutations(parts.values()), _ORDERS_TRIED):
        if key_of({each["name"]: each["spec"] for each in order}) == key:
            return order
    return None


def _age(each: RunningChild) -> tuple[str, int]:
    """The oldest shows best what was recorded: later ones may have been made from it by hand."""
    return _created(each), each.slice_index


def _created(each: RunningChild) -> str:
    return str(each.obj["metadata"].get("creationTimestamp") or "")
