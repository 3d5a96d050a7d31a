"""Upstream's restart budget (KEP-820): how often each group was recreated on its revision, in an annotation
of the set, and the marks of groups that may not be recreated any more.

In: the set and pods as stored. Out: the counts, the patches that change them, and what the marks say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lws import timing
from lws.kube.metadata import annotations_of, labels_of, metadata_of
from lws.kube.quantities import INT32, is_integer, whole_number
from lws.runtime.actions import Merge, Object, Plan, Reference
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_RESTART_COUNTS_ANNOTATION,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
)

_HASH_KEY = re.compile(r"[0-9a-f]{40}")
_NO_OBJECT = "invalid group restart counts: expected a JSON object"


class InvalidCounts(Exception):
    """The counts of a set cannot be read: nothing is recreated or recovered until somebody mends them."""

    @property
    def wait(self) -> Plan:
        """For a group that would be."""
        return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=f"the annotation to be mended: {self}")


def counts_in(lws: Object) -> dict[str, int]:
    """`<revision key>/<group index>` → restarts. Raises InvalidCounts."""
    text = annotations_of(lws).get(GROUP_RESTART_COUNTS_ANNOTATION)
    if not text:
        return {}
    try:
        counts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidCounts(_NO_OBJECT) from error
    if not isinstance(counts, dict):
        raise InvalidCounts(_NO_OBJECT)
    for key, count in counts.items():
        if not is_integer(count) or count > INT32:
            raise InvalidCounts(_NO_OBJECT)
        if count < 0:
            raise InvalidCounts(f'invalid group restart count for group "{key}": must be non-negative')
    return counts


def count_key(leader: Object) -> str:
    """Under which key the restarts of this leader's group are counted."""
    labels = labels_of(leader)
    return f"{labels.get(REVISION_LABEL, '')}/{labels.get(GROUP_INDEX_LABEL, '')}"


def with_one_more(lws: Object, leader: Object) -> Merge:
    """One restart more of this leader's group. Raises InvalidCounts."""
    counts, key = counts_in(lws), count_key(leader)
    counts[key] = counts.get(key, 0) + 1
    return _merge(lws, counts, f"restart {counts[key]} of group {key}")


def without(lws: Object, leader: Object) -> Merge | None:
    """No restarts of this leader's group; None if none are counted. Raises InvalidCounts."""
    counts, key = counts_in(lws), count_key(leader)
    if counts.pop(key, None) is None:
        return None
    return _merge(lws, counts, f"group {key} is recovered: it may be recreated as often as a new one")


def pruned(lws: Object, replicas: int, key: str) -> Merge | None:
    """The counts of groups below `replicas`, on the revision with this key alone unless that is empty; None
    if there are no others. Raises InvalidCounts.
    """
    counts = counts_in(lws)
    kept = {}
    for each, count in counts.items():
        revision, _, index = each.rpartition("/")
        number = whole_number(index)
        if number is None or not revision:
            raise InvalidCounts(f'invalid group restart count key "{each}"')
        if number < replicas and key in ("", revision):
            kept[each] = count
    return _merge(lws, kept, "counts of groups or revisions that are gone") if kept != counts else None


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of Hash groups, which have other keys than the groups that they replace.

    stored: all of them. free: keys of those that no group has, the highest count first.
    """

    stored: Mapping[str, int]
    free: tuple[str, ...]

    @classmethod
    def of(cls, lws: Object, owners: Collection[tuple[str, int]]) -> Counts:
        """owners: revision key and number of the groups that live or are kept. Where nothing can be read,
        nothing is counted: that is reported, and no leader waits for it to be mended.
        """
        try:
            counts = counts_in(lws)
        except InvalidCounts:
            return cls({}, ())
        free = (key for key in counts if _owner(key) not in owners)
        return cls(counts, tuple(sorted(free, key=lambda key: (-counts[key], key))))

    def claims(self, keys: Iterable[str]) -> dict[str, str]:
        """Which count each of these new groups takes over, if there is one of its revision."""
        free, claims = list(self.free), {}
        for key in keys:
            former = next((each for each in free if _revision(each) == _revision(key)), None)
            if former is not None and key not in self.stored:
                free.remove(former)
                claims[key] = former
        return claims

    def handed_on(
        self, lws: Object, claims: Mapping[str, str], released: Collection[str], spare: int, only: str
    ) -> Merge | None:
        """Have new groups take over counts, and remove those that nobody will claim; None if nothing changes.

        claims: as from `claims`, of the groups that start now. released: keys of kept groups that are let go.
        spare: how many more groups of a revision may come. only: the one revision that is left, empty if
        there may be others.
        """
        counts = dict(self.stored)
        counts |= {key: counts.pop(former) for key, former in claims.items()}
        left = [key for key in self.free if key in counts]
        gone = {*released, *(key for key in counts if only not in ("", _revision(key)))}
        for revision in {_revision(key) for key in left}:
            gone.update([key for key in left if _revision(key) == revision][spare:])
        counts = {key: count for key, count in counts.items() if key not in gone}
        why = "groups take over what was counted for those that they replace; nobody has the rest"
        return _merge(lws, counts, why) if counts != self.stored else None


def _revision(key: str) -> str:
    return key.rpartition("/")[0]


def _owner(key: str) -> tuple[str, int | None]:
    """Revision and number of the Hash group that has this count, however its labels are edited."""
    revision, _, digits = key.rpartition("/")
    return revision, int(digits[:8], 16) if _HASH_KEY.fullmatch(digits) else None


def _merge(lws: Object, counts: Mapping[str, int], why: str) -> Merge:
    """To this version of the set: groups fail at the same time, and no count gets lost."""
    text = json.dumps(counts, sort_keys=True, separators=(",", ":")) if counts else None
    metadata: dict[str, Any] = {"annotations": {GROUP_RESTART_COUNTS_ANNOTATION: text}}
    metadata |= {"resourceVersion": metadata_of(lws).get("resourceVersion", "")}
    return Merge(Reference.to(lws), {"metadata": metadata}, why=why)


def is_exhausted(leader: Object) -> bool:
    """The group has used up its restarts, and is not recreated before somebody asks for it.

    Mark and finalizer are written at once: the mark alone was edited, and ends no group.
    """
    is_marked = annotations_of(leader).get(RESTART_BUDGET_EXHAUSTED_ANNOTATION) == "true"
    return is_marked and is_kept(leader)


def is_kept(pod: Object) -> bool:
    """The pod stays until its finalizer is removed."""
    return RESTART_BUDGET_FINALIZER in (metadata_of(pod).get("finalizers") or ())


def is_to_recover(leader: Object) -> bool:
    """Somebody asks for a new group. Nothing but `true` counts."""
    return annotations_of(leader).get(RECOVER_ANNOTATION) == "true"
