"""Resolve the revision that a user names, and find problems in the history of a set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.cli.refusal import Refusal
from lws.history.revision import CHANGE_CAUSE_ANNOTATION
from lws.kube.metadata import annotations_of, controller_of
from lws.leaderworkerset.assessment.assessment import assess
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.rollout.reasons import named
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Object


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
        matches = [revision for revision in self.recorded if revision.number == number]
        orphan = next((orphan for orphan in self.strangers if orphan.get("revision") == number), None)
        if not matches and orphan is not None:
            raise Refusal(_about_stranger(orphan))
        if not matches:
            numbers = ", ".join(str(revision.number) for revision in self.recorded) or "none yet"
            raise Refusal(f"set {self.name} has no revision {number}: there is {numbers}")
        if len(matches) > 1:
            raise Refusal(_about_number(number, matches))
        return self._usable(matches[0])

    def before(self, revision: Recorded | None) -> Recorded:
        """The newest usable revision that is older than this one and unlike it; of None the newest of all."""
        usable = [other for other in self.recorded if not other.broken]
        if revision is not None:
            usable = [
                other for other in usable if other.number < revision.number and not is_same(other, revision)
            ]
        if not usable:
            raise Refusal(f"set {self.name} has no earlier revision: nothing was changed since it was made")
        return self.numbered(usable[-1].number)

    def complaints(self) -> Iterator[str]:
        """What is wrong, a sentence each."""
        yield from (revision.broken for revision in self.recorded if revision.broken)
        yield from map(_about_stranger, self.strangers)
        for number, revisions in _grouped((revision.number, revision) for revision in self.recorded).items():
            if len(revisions) > 1:
                yield _about_number(number, revisions)
        for key, revisions in _grouped((revision.key, revision) for revision in self._usable_ones()).items():
            if len({revision.form for revision in revisions}) > 1:
                yield _about_key(key, revisions)
        keys = {revision.key for revision in self.recorded}
        for key, indices in sorted(self.groups.items()):
            if key not in keys:
                yield f"{named(indices)} run under key {key or '(none)'}, of which no revision is left"

    def _usable(self, revision: Recorded) -> Recorded:
        if revision.broken:
            raise Refusal(f"revision {revision.number} cannot be used: {revision.broken}")
        if revision.is_leaving:
            raise Refusal(f"revision {revision.number} is being deleted ({revision.name})")
        others = [other for other in self._usable_ones() if other.key == revision.key]
        if len({other.form for other in others}) > 1:
            raise Refusal(_about_key(revision.key, others))
        return revision

    def _usable_ones(self) -> Iterator[Recorded]:
        return (revision for revision in self.recorded if not revision.broken)


def past_of(snapshot: SetSnapshot, revisions: Iterable[Object]) -> Past:
    """revisions: ControllerRevisions with the label of the set, regardless of owner."""
    listed, target = tuple(revisions), assess(snapshot).target
    ours = {revision.uid for revision in snapshot.revisions}
    keys = _grouped((group.leader_key or "", group.index) for group in snapshot.groups)
    return Past(
        name=snapshot.lws["metadata"]["name"],
        recorded=tuple(
            sorted(
                snapshot.revisions, key=lambda revision: (revision.number, revision.created, revision.name)
            )
        ),
        wanted=next((revision for revision in snapshot.revisions if revision.name == target.name), None),
        groups={key: tuple(indices) for key, indices in keys.items()},
        causes={
            revision["metadata"]["uid"]: annotations_of(revision)[CHANGE_CAUSE_ANNOTATION]
            for revision in listed
            if annotations_of(revision).get(CHANGE_CAUSE_ANNOTATION)
        },
        strangers=tuple(
            revision
            for revision in listed
            if revision["metadata"]["uid"] not in ours and _is_nobodys_template(revision)
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
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _about_stranger(revision: Object) -> str:
    return (
        f"ControllerRevision {revision['metadata']['name']} (revision {revision.get('revision')}) has no "
        f"owner, and its data is not what its name says, so it is no revision of the set: delete it if "
        f"nobody needs it"
    )


def _about_number(number: int, revisions: Iterable[Recorded]) -> str:
    names = " and ".join(revision.name for revision in revisions)
    return (
        f"more than one revision has the number {number} ({names}), so nothing says which is meant: delete "
        f"the ControllerRevision that is wrong"
    )


def _about_key(key: str, revisions: Iterable[Recorded]) -> str:
    names = " and ".join(revision.name for revision in revisions)
    return (
        f"different templates share the key {key} ({names}), so nothing says which one its groups run: "
        f"delete the ControllerRevision that is wrong"
    )
