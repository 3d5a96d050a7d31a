"""Read and write the records of groups in the status of a set: `members`, the UIDs of a complete group, and
`restarts`, how often the group was recreated.

Stored records may contain anything. A record that is missing or unreadable neither delays nor causes a
restart. Members are recorded because only a new UID shows that a pod was replaced while no manager ran.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from lws import timing
from lws.kube.conditions import Condition, find
from lws.kube.metadata import is_terminating, labels_of, uid_of
from lws.kube.quantities import whole_number
from lws.leaderworkerset.pod_identity import MOST_GROUP_NUMBER, hash_of_uid
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REVISION_LABEL, RestartPolicy

# Number of cached records: each pass over a set compares all of its leaders.
_CACHED = 32768
_MEMBERS = re.compile(r"([0-9a-f]{8})-([0-9a-f]{8})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Members:
    """Leader and workers of a group; stored as `leader-workers`, each 8 hexadecimal digits, or
    `leader-workers-restarts`.
    workers: a hash of the UIDs of the workers, or a mark. leader: a hash of the UID of the leader and of the
    other parts, so that the record no longer belongs to the leader if any part was edited. restarts: how
    often containers had been restarted when the group was complete; None unless its policy spares them.
    """

    leader: str
    workers: str
    restarts: int | None = None

    @classmethod
    def of(cls, leader_uid: str, worker_uids: Iterable[str], restarts: int | None = None) -> Members:
        """Return the members with these UIDs. worker_uids: in any order; empty in a group of size 1."""
        return cls.sealed(leader_uid, hash_of_uid(",".join(sorted(worker_uids))), restarts)

    @classmethod
    def sealed(cls, leader_uid: str, workers: str, restarts: int | None = None) -> Members:
        """Return the record of a leader. workers: the hash of its workers, or a mark."""
        return cls(hash_of_uid(f"{leader_uid}-{_joined(workers, restarts)}"), workers, restarts)

    def __str__(self) -> str:
        return f"{self.leader}-{_joined(self.workers, self.restarts)}"

    def belongs_to(self, leader_uid: str) -> bool:
        """Return whether the record was written for this leader and not edited. Earlier releases hashed only
        the UID of the leader; their records are kept, so that an upgrade writes no status.
        """
        if self == Members.sealed(leader_uid, self.workers, self.restarts):
            return True
        return self.restarts is None and self.leader == hash_of_uid(leader_uid)


def _joined(workers: str, restarts: int | None) -> str:
    return workers if restarts is None else f"{workers}-{restarts}"


def recorded_members(lws: Object, index: int) -> Members | None:
    """Return the recorded members of the group with this index; None if there is no readable record."""
    return _members(_records(lws, "members").get(str(index)))


def _records(lws: Object, field: str) -> Mapping[str, Any]:
    """Return the stored records of groups, by index; empty if they are unreadable."""
    stored = (lws.get("status") or {}).get(field)
    return stored if isinstance(stored, Mapping) else {}


def _members(text: object) -> Members | None:
    return _parsed(text) if isinstance(text, str) else None


@lru_cache(_CACHED)
def _parsed(text: str) -> Members | None:
    match = _MEMBERS.fullmatch(text)
    if match is None:
        return None
    return Members(match[1], match[2], int(match[3]) if match[3] is not None else None)


def current_members(snapshot: SetSnapshot, ready: Collection[int]) -> dict[int, Members]:
    """Return the members to record, by index.

    ready: indices of ready groups; only these are certainly complete. Members are recorded when the group is
    first complete under its leader, and kept while the leader exists: the restart policy compares later
    workers with them. With restartPolicy None nothing is recorded, so that pods that were replaced before a
    change of the policy do not restart their group. With RecreateGroupAfterStart, restarts of containers are
    recorded, too: those before the group was complete belong to its start.
    """
    if snapshot.spec.restart_policy == RestartPolicy.NONE:
        return {}
    stored = _records(snapshot.lws, "members")
    current: dict[int, Members] = {}
    for group in snapshot.groups:
        uid, before = group.uid, _members(stored.get(str(group.index)))
        is_complete, restarts = group.index in ready and group.is_complete, None
        if snapshot.spec.waits_for_start:
            restarts = sum(end.restarts for end in group.restarted if snapshot.spec.counts(end))
        if before is not None and before.belongs_to(uid):
            is_known = restarts is None or before.restarts is not None or before.workers in (DELETING, KEPT)
            is_kept = is_known or not is_complete
            current[group.index] = before if is_kept else Members.sealed(uid, before.workers, restarts)
        elif is_complete:
            current[group.index] = Members.of(uid, group.worker_uids, restarts)
    return current


FAILED = "Failed"

DELETING, KEPT = "00000000", "ffffffff"
"""Marks in place of the workers' hash in `status.members`.

DELETING: the restart of the group is counted and its leader is to be deleted. KEPT: the group is kept because
it is out of restarts.
"""

# Maximum number of groups that the condition names.
_LISTED = 10
_RECORD = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,12})\.(.*)")


@dataclass(frozen=True, slots=True)
class Restarts:
    """Restarts of one group; stored as `count.consecutive.last.key`.
    count: restarts on this revision. consecutive: restarts in a row, without a stable time in between. last:
    time of the last restart in Unix seconds; 0 if there was none. key: revision key.
    """

    count: int = 0
    consecutive: int = 0
    last: int = 0
    key: str = ""

    def __str__(self) -> str:
        return f"{self.count}.{self.consecutive}.{self.last}.{self.key}"

    @property
    def due(self) -> datetime:
        """The earliest time of the next restart."""
        return datetime.fromtimestamp(self.last + timing.RESTART_DELAY.after(self.consecutive), UTC)

    def incremented(self, now: datetime) -> Restarts:
        """Return the record after one more restart."""
        return Restarts(self.count + 1, self.consecutive + 1, int(now.timestamp()), self.key)


def restarts_of(lws: Object, index: int, leader: Object, now: datetime) -> Restarts:
    """Return the restarts of the group with this index that count on the revision of its leader."""
    key = labels_of(leader).get(REVISION_LABEL, "")
    text = _records(lws, "restarts").get(str(index))
    match = _RECORD.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[4] != key:
        # A new revision may fix the failure, so it starts with no restarts.
        return Restarts(key=key)
    count, consecutive, last = (int(match[part]) for part in (1, 2, 3))
    since = int(now.timestamp()) - last
    if since >= timing.STABLE_SECONDS or since < -timing.SKEW_SECONDS:
        consecutive, last = 0, 0
    return Restarts(count, consecutive, last, key)


def inherited_restarts(
    lws: Object, live: Collection[int], admitted: Iterable[tuple[int, str]]
) -> dict[str, str | None]:
    """Return the patch of `status.restarts` that moves records from replaced to new Hash groups. The replaced
    groups had other numbers. The records with the most restarts are moved first.
    live: numbers of groups that keep their records. admitted: number and revision key of each new group.
    """
    records = _records(lws, "restarts")
    free: dict[str, list[tuple[int, str]]] = {}
    for former, text in records.items():
        match = _RECORD.fullmatch(text) if isinstance(text, str) else None
        if match is not None and whole_number(former, most=MOST_GROUP_NUMBER) not in live:
            free.setdefault(match[4], []).append((-int(match[1]), former))
    for candidates in free.values():
        candidates.sort(reverse=True)
    patch: dict[str, str | None] = {}
    for number, key in admitted:
        if str(number) not in records and free.get(key):
            _, former = free[key].pop()
            patch |= {former: None, str(number): records[former]}
    return patch


def is_used_up(limit: int | None, restarts: Restarts) -> bool:
    """Return whether a group has no restarts left on its revision. limit: None if there is no limit."""
    return limit is not None and restarts.count >= limit


def mark_of(lws: Object, index: int, leader: Object) -> str:
    """Return DELETING or KEPT if the group's record has this mark for exactly this leader pod, else ""."""
    members = recorded_members(lws, index)
    if members is None or not members.belongs_to(uid_of(leader)):
        return ""
    return members.workers if members.workers in (DELETING, KEPT) else ""


def record_patch(index: int, leader: Object, restarts: Restarts | None, mark: str) -> dict[str, Any]:
    """Return the status patch that marks a leader's group. restarts: the new record; None if not counted."""
    # Without the hash of the mark, so that earlier releases can read it after a downgrade.
    marked = Members(hash_of_uid(uid_of(leader)), mark)
    record = {"restarts": {str(index): str(restarts)}} if restarts is not None else {}
    return {**record, "members": {str(index): str(marked)}}


def failed(stored: Iterable[Mapping[str, Any]], out_of_restarts: Sequence[str]) -> Iterator[Condition]:
    """Yield the condition Failed; nothing before it was first true. out_of_restarts: `group_id` of groups."""
    if out_of_restarts:
        listed = ", ".join(out_of_restarts[:_LISTED]) + (", …" if len(out_of_restarts) > _LISTED else "")
        named = f"Group {listed} has" if len(out_of_restarts) == 1 else f"Groups {listed} have"
        message = f"{named} exceeded maxGroupRestarts; kept for diagnosis"
        yield Condition(FAILED, True, "GroupRestartsExhausted", message)
    elif find(stored, FAILED) is not None:
        yield Condition(FAILED, False, "GroupRestartsLeft", "No group has used up its restarts")


def out_of_restarts(snapshot: SetSnapshot) -> tuple[int, ...]:
    """Return the indices of groups that failed with no restarts left and are kept for diagnosis."""
    lws, limit, now = snapshot.lws, snapshot.spec.max_group_restarts, snapshot.now
    if limit is None or snapshot.spec.restart_policy == RestartPolicy.NONE:
        return ()
    return tuple(
        group.index
        for group in snapshot.groups
        if not is_terminating(group.leader)
        and mark_of(lws, group.index, group.leader) == KEPT
        and is_used_up(limit, restarts_of(lws, group.index, group.leader, now))
    )
