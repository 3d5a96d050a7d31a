"""Resolve the revision that a user names, and find problems in the history of a set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.actions import Object
from lws.cli.refusal import Refusal
from lws.kube.metadata import annotations_of, controller_of
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.revisions.history import CHANGE_CAUSE_ANNOTATION, Recorded
from lws.leaderworkerset.rollout.reasons import named
from lws.leaderworkerset.snapshot import SetSnapshot


@dataclass(frozen=True)
class Past:
    """The history of a set.

    recorded: in order, the oldest first. wanted: what the set asks for, None as long as that is not recorded.
    groups: indices of groups by the key of their leader. causes: what was said of a change, by UID.
    strangers: revisions that carry the label of the set and belong to nobody.
    """

    name: str
    recorded: tuple[Recorded, ...]
    wanted: Recorded | None
    groups: Mapping[str, tuple[int, ...]]
    causes: Mapping[str, str]
    strangers: tuple[Object, ...] = ()

    def numbered(self, number: int) -> Recorded:
        """The revision of this number; Refusal if there is none, more than one, or if it cannot be used."""
        found = [each for each in self.recorded if each.number == number]
        stranger = next((each for each in self.strangers if each.get("revision") == number), None)
        if not found and stranger is not None:
            raise Refusal(_about_stranger(stranger))
        if not found:
            there = ", ".join(str(each.number) for each in self.recorded) or "none yet"
            raise Refusal(f"set {self.name} has no revision {number}: there is {there}")
        if len(found) > 1:
            raise Refusal(_about_number(number, found))
        return self._usable(found[0])

    def before(self, revision: Recorded | None) -> Recorded:
        """The newest usable revision that is older than this one and unlike it; of None the newest of all."""
        usable = [each for each in self.recorded if not each.broken]
        if revision is not None:
            usable = [
                each for each in usable if each.number < revision.number and not is_same(each, revision)
            ]
        if not usable:
            raise Refusal(f"set {self.name} has no earlier revision: nothing was changed since it was made")
        return self.numbered(usable[-1].number)

    def complaints(self) -> Iterator[str]:
        """What is wrong, a sentence each."""
        yield from (each.broken for each in self.recorded if each.broken)
        yield from map(_about_stranger, self.strangers)
        for number, found in _grouped((each.number, each) for each in self.recorded).items():
            if len(found) > 1:
                yield _about_number(number, found)
        for key, found in _grouped((each.key, each) for each in self._usable_ones()).items():
            if len({each.form for each in found}) > 1:
                yield _about_key(key, found)
        known = {each.key for each in self.recorded}
        for key, indices in sorted(self.groups.items()):
            if key not in known:
                yield f"{named(indices)} run under key {key or '(none)'}, of which no revision is left"

    def _usable(self, revision: Recorded) -> Recorded:
        if revision.broken:
            raise Refusal(f"revision {revision.number} cannot be used: {revision.broken}")
        if revision.is_leaving:
            raise Refusal(f"revision {revision.number} is being deleted ({revision.name})")
        others = [each for each in self._usable_ones() if each.key == revision.key]
        if len({each.form for each in others}) > 1:
            raise Refusal(_about_key(revision.key, others))
        return revision

    def _usable_ones(self) -> Iterator[Recorded]:
        return (each for each in self.recorded if not each.broken)


def past_of(snapshot: SetSnapshot, revisions: Iterable[Object]) -> Past:
    """revisions: ControllerRevisions with the label of the set, regardless of owner."""
    listed, target = tuple(revisions), assess(snapshot).target
    ours = {each.uid for each in snapshot.revisions}
    keys = _grouped((group.leader_key or "", group.index) for group in snapshot.groups)
    return Past(
        name=snapshot.lws["metadata"]["name"],
        recorded=tuple(sorted(snapshot.revisions, key=lambda each: (each.number, each.created, each.name))),
        wanted=next((each for each in snapshot.revisions if each.name == target.name), None),
        groups={key: tuple(indices) for key, indices in keys.items()},
        causes={
            each["metadata"]["uid"]: annotations_of(each)[CHANGE_CAUSE_ANNOTATION]
            for each in listed
            if annotations_of(each).get(CHANGE_CAUSE_ANNOTATION)
        },
        strangers=tuple(
            each for each in listed if each["metadata"]["uid"] not in ours and _is_nobodys_template(each)
        ),
    )


def _is_nobodys_template(revision: Object) -> bool:
    """Not those of StatefulSets: they carry the label too, and hold a pod template."""
    if controller_of(revision) is not None:
        return False
    data = revision.get("data")
    spec = data.get("spec") if isinstance(data, Mapping) else None
    return not (isinstance(spec, Mapping) and "template" in spec)


def is_same(one: Recorded, other: Recorded) -> bool:
    """Both mean the same to pods."""
    return one.form == other.form and (one.topology or {}) == (other.topology or {})


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def _about_stranger(revision: Object) -> str:
    return (
        f"ControllerRevision {revision['metadata']['name']} (revision {revision.get('revision')}) has no "
        f"owner, and its data is not what its name says, so it is no revision of the set: delete it if "
        f"nobody needs it"
    )


def _about_number(number: int, revisions: Iterable[Recorded]) -> str:
    names = " and ".join(each.name for each in revisions)
    return (
        f"more than one revision has the number {number} ({names}), so nothing says which is meant: delete "
        f"the ControllerRevision that is wrong"
    )


def _about_key(key: str, revisions: Iterable[Recorded]) -> str:
    names = " and ".join(each.name for each in revisions)
    return (
        f"different templates share the key {key} ({names}), so nothing says which one its groups run: "
        f"delete the ControllerRevision that is wrong"
    )
