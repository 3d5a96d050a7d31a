"""Determine the key of revisions whose label is not the hash in their name.

Two kinds have another label: revisions that record what ran before there was a history, whose pods carry an
older key, and revisions whose label was edited. A seal tells which, or else what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from lws.history import age
from lws.leaderworkerset.revisions.history import Recorded
from lws_api.leaderworkerset.v1 import REVISION_LABEL


def identified(revisions: Iterable[Recorded], carried: Callable[[], Collection[str]]) -> tuple[Recorded, ...]:
    """carried: says the keys that anything of the set carries or comes back with; where all is certain nobody
    asks for them.
    """
    parsed = tuple(revisions)
    if all(map(_is_certain, parsed)):
        return parsed
    keys = carried()
    return tuple(each if _is_certain(each) else _identified(each, parsed, keys) for each in parsed)


def _is_certain(each: Recorded) -> bool:
    return bool(each.broken) or each.is_sealed or each.key == each.fingerprint


def _identified(each: Recorded, parsed: Collection[Recorded], carried: Collection[str]) -> Recorded:
    others = [other for other in parsed if other is not each and not other.broken]
    certain = [other for other in others if _is_certain(other)]
    # The data hash to the key that runs, and no other revision certainly has that key.
    is_running = each.fingerprint in carried and all(other.key != each.fingerprint for other in certain)
    has_it = any(_has_that_key(other, each) for other in others) or _gives_way(each, others, carried)
    if is_running or has_it:
        edits = {"labels": {REVISION_LABEL: each.fingerprint}}
        return replace(each, key=each.fingerprint, edits=edits)
    if each.key:
        return each
    why = f"has no label {REVISION_LABEL}: nothing says which pods were made from it"
    return replace(each, broken=f"ControllerRevision {each.name} {why}")


def _has_that_key(other: Recorded, each: Recorded) -> bool:
    """The key by the label of `each` is that of another template: by its hash, where its own label says
    something else.
    """
    key = other.key if _is_certain(other) else other.fingerprint
    return key == each.key and _is_unlike(other, each)


def _gives_way(each: Recorded, others: Iterable[Recorded], carried: Collection[str]) -> bool:
    """Another template has the same label, which at most one was recorded with: the newest that nothing runs
    by its hash, if anything runs by the label.
    """
    rivals = [other for other in others if other.key == each.key and each.key and _is_unlike(other, each)]
    if rivals and each.key not in carried:
        return True
    return any(other.fingerprint not in carried and age(other) > age(each) for other in rivals)


def _is_unlike(other: Recorded, each: Recorded) -> bool:
    return (other.form, other.topology) != (each.form, each.topology)
