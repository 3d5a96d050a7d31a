"""Upstream's restart budget (KEP-820): the restarts of each group on its revision, counted in an annotation
of the set, and the mark and finalizer of groups that have exhausted the budget.

The same write records in another annotation which leader pod a restart is counted for. So a failure counts
once, even if the manager ends, or the next write fails, before the group is deleted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from lws import timing
from lws.kube.metadata import annotations_of, labels_of, metadata_of, uid_of
from lws.kube.quantities import INT32, is_integer, whole_number
from lws.leaderworkerset.pod_identity import hash_of_uid, is_hash_key
from lws.runtime.actions import Merge, Object, Plan, Reference
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_RESTART_COUNTS_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
)

_NO_OBJECT = "invalid group restart counts: expected a JSON object"


class InvalidCounts(Exception):
    """The counts of a set cannot be read: no group is recreated or recovered until a user fixes them."""

    @property
    def wait(self) -> Plan:
        """The plan of a group that waits for the fix."""
        return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=f"a fix of the annotation: {self}")


class InvalidKey(InvalidCounts):
    """The counts can be read, but a key names no group: counts that are no longer needed are not removed."""


def counts_in(lws: Object) -> dict[str, int]:
    """Return the restarts by `<revision key>/<group index>`. Raises InvalidCounts."""
    text = annotations_of(lws).get(GROUP_RESTART_COUNTS_ANNOTATION)
    if not text:
        return {}
    try:
        # Unlike json, it accepts no text that cannot be written into a status or an Event.
        counts = orjson.loads(text)
    except orjson.JSONDecodeError as error:
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
    """Return the key under which the restarts of this leader's group are counted."""
    labels = labels_of(leader)
    return f"{labels.get(REVISION_LABEL, '')}/{labels.get(GROUP_INDEX_LABEL, '')}"


def is_counted(lws: Object, leader: Object) -> bool:
    """Return whether the counts contain a restart for which exactly this leader pod is deleted."""
    return hash_of_uid(uid_of(leader)) in _counted_for(lws)


def _counted_for(lws: Object) -> set[str]:
    return set(annotations_of(lws).get(GROUP_RESTARTS_COUNTED_FOR_ANNOTATION, "").split(","))


def increment(lws: Object, leader: Object, leaders: Iterable[str]) -> Merge:
    """Count one more restart of this leader's group. leaders: UIDs of all leader pods of the set; the others
    have been deleted, and need no record any more. Raises InvalidCounts.
    """
    counts, key = counts_in(lws), count_key(leader)
    counts[key] = counts.get(key, 0) + 1
    counted = {hash_of_uid(uid_of(leader)), *(_counted_for(lws) & set(map(hash_of_uid, leaders)))}
    merge = _merge(lws, counts, f"restart {counts[key]} of group {key}")
    merge.patch["metadata"]["annotations"][GROUP_RESTARTS_COUNTED_FOR_ANNOTATION] = ",".join(sorted(counted))
    return merge


def reset(lws: Object, leader: Object) -> Merge | None:
    """Remove the count of this leader's group; return None if there is none. Raises InvalidCounts."""
    counts, key = counts_in(lws), count_key(leader)
    if counts.pop(key, None) is None:
        return None
    return _merge(lws, counts, f"group {key} is recovered: its restarts count from 0 again")


def pruned(lws: Object, replicas: int, live: Collection[str] | None) -> Merge | None:
    """Remove the counts of groups from index `replicas` on, and of revisions whose keys are not in `live`;
    return None if there are none. live: None if unknown. Raises InvalidCounts, InvalidKey.
    """
    counts = counts_in(lws)
    remaining = {}
    for count_key, count in counts.items():
        revision, _, index = count_key.rpartition("/")
        number = whole_number(index)
        if number is None or not revision:
            raise InvalidKey(f'invalid group restart count key "{count_key}"')
        if number < replicas and (live is None or revision in live):
            remaining[count_key] = count
    return _merge(lws, remaining, "counts of deleted groups or revisions") if remaining != counts else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of Hash groups, whose keys differ from the keys of the groups that they replace.
    stored: count by key. free: keys whose group no longer exists, the highest count first.
    """

    stored: Mapping[str, int]
    free: tuple[str, ...]

    @classmethod
    def of(cls, lws: Object, owners: Collection[tuple[str, int]]) -> Counts:
        """Read the counts of a set. owners: revision key and number of the groups that exist or are kept.
        Unreadable counts are treated as empty: a condition reports them, and no leader waits for the fix.
        """
        try:
            counts = counts_in(lws)
        except InvalidCounts:
            return cls({}, ())
        free = (key for key in counts if _owner(key) not in owners)
        return cls(counts, tuple(sorted(free, key=lambda key: (-counts[key], key))))

    def inherited(self, keys: Iterable[str]) -> dict[str, str]:
        """Return, by key of each new group, the key of the free count of its revision that it inherits."""
        free = {revision: iter(counted) for revision, counted in _by_revision(self.free).items()}
        new = (key for key in keys if key not in self.stored)
        formers = ((key, next(free.get(_revision(key), iter(())), None)) for key in new)
        return {key: former for key, former in formers if former is not None}

    def hand_on(
        self,
        lws: Object,
        inherited: Mapping[str, str],
        released: Collection[str],
        spare: int,
        live: Collection[str] | None,
    ) -> Merge | None:
        """Move counts to the groups that inherit them, and remove counts that no group will inherit.

        Return None if nothing changes. inherited: as from `inherited`, for groups that start now. released:
        keys of kept groups that will be deleted. spare: number of groups of each revision that may still be
        created. live: keys of the revisions that groups have or may get; None if unknown.
        """
        counts = dict(self.stored)
        counts |= {key: counts.pop(former) for key, former in inherited.items()}
        dropped = {*released, *(key for key in counts if live is not None and _revision(key) not in live)}
        for free in _by_revision(key for key in self.free if key in counts).values():
            dropped.update(free[spare:])
        counts = {key: count for key, count in counts.items() if key not in dropped}
        why = "new groups inherit the counts of the groups that they replace; unused counts are removed"
        return _merge(lws, counts, why) if counts != self.stored else None


def _by_revision(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the keys of each revision, in the given order. Users can write any number of revisions."""
    grouped: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        grouped[_revision(key)].append(key)
    return grouped


def _revision(key: str) -> str:
    return key.rpartition("/")[0]


def _owner(key: str) -> tuple[str, int | None]:
    """Return a count's revision key and Hash group number, from its own key: label edits do not matter."""
    revision, _, digits = key.rpartition("/")
    return revision, int(digits[:8], 16) if is_hash_key(digits) else None


def _merge(lws: Object, counts: Mapping[str, int], why: str) -> Merge:
    """Replace all counts. The write names the resourceVersion of the set, because groups may fail at the same
    time and no count may be lost.
    """
    text = json.dumps(counts, sort_keys=True, separators=(",", ":")) if counts else None
    annotations = {GROUP_RESTART_COUNTS_ANNOTATION: text}
    if not counts and GROUP_RESTARTS_COUNTED_FOR_ANNOTATION in annotations_of(lws):
        annotations[GROUP_RESTARTS_COUNTED_FOR_ANNOTATION] = None
    metadata: dict[str, Any] = {"annotations": annotations}
    metadata |= {"resourceVersion": metadata_of(lws).get("resourceVersion", "")}
    return Merge(Reference.to(lws), {"metadata": metadata}, why=why)


def is_exhausted(leader: Object) -> bool:
    """Return whether the group has exhausted its restart budget: it is recreated only on request of a user.
    Mark and finalizer are written together, so a mark without the finalizer was edited and is ignored.
    """
    is_marked = annotations_of(leader).get(RESTART_BUDGET_EXHAUSTED_ANNOTATION) == "true"
    return is_marked and is_kept(leader)


def is_kept(pod: Object) -> bool:
    """Return whether the finalizer of the restart budget keeps the pod."""
    return RESTART_BUDGET_FINALIZER in (metadata_of(pod).get("finalizers") or ())


def should_recover(leader: Object) -> bool:
    """Return whether a user requests that the exhausted group is recreated; only the value `true` counts."""
    return annotations_of(leader).get(RECOVER_ANNOTATION) == "true"
