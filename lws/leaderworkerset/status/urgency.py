"""Decide whether a change of the status can be batched with later ones.

How long it waits is decided elsewhere. Conditions, generations, names of revisions and groups above
`spec.replicas` are never delayed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lws.kube.quantities import is_integer
from lws.leaderworkerset.status.progress import LAST_PROGRESS
from lws.leaderworkerset.status.status import PROGRESSING

# Changes with every group that gets ready, moves or goes. The last of these changes comes with a condition,
# or `has_shrunk` says so.
_PROGRESS = frozenset(
    {"replicas", "readyReplicas", "updatedReplicas", "members", "groups", LAST_PROGRESS, "conditions"}
)


def can_wait(
    stored: Mapping[str, Any], patch: Mapping[str, Any], progress: Collection[str] = _PROGRESS
) -> bool:
    """It says only how far the set has come. progress: the fields that say that."""
    if not patch.keys() <= set(progress):
        return False
    return "conditions" not in patch or _significant(patch["conditions"]) == _significant(
        stored.get("conditions")
    )


def has_shrunk(stored: Mapping[str, Any], patch: Mapping[str, Any], wanted: int) -> bool:
    """The last group too many is gone, which no condition says: a set that is scaled down stays available.

    Of fifty sets that were scaled down at once the last said so after 13 s, which autoscalers read. wanted:
    groups that are to be there, a surge included.
    """
    before, after = stored.get("replicas"), patch.get("replicas", wanted + 1) or 0
    return is_integer(before) and before > wanted == after


def has_surged(stored: Mapping[str, Any], patch: Mapping[str, Any], replicas: int) -> bool:
    """More groups are on top of `replicas` than the status has said. Kueue makes room for these by what the
    status says, as long as fewer than `replicas` are updated: until then their pods are gated.
    """
    after = {**stored, **patch}
    existing, updated = _count(after, "replicas"), _count(after, "updatedReplicas")
    is_needed_again = updated < replicas <= _count(stored, "updatedReplicas")
    return existing > replicas and (existing > _count(stored, "replicas") or is_needed_again)


def is_first_word(stored: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Nothing was ever said, and all there is to say is that groups are being created."""
    return not stored and [type_ for type_, status, _ in _significant(patch.get("conditions"))] == [
        PROGRESSING
    ]


def _count(status: Mapping[str, Any], field: str) -> int:
    count = status.get(field)
    return count if is_integer(count) else 0


def _significant(conditions: Any) -> list[tuple[str, ...]]:
    """What holds and why, and what does not: without the numbers in messages, and why not."""
    found = [(each["type"], each["status"], each.get("reason", "")) for each in conditions or ()]
    return [(type_, status, reason if status == "True" else "") for type_, status, reason in found]
