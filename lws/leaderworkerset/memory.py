"""What the status remembers of groups: the members each had when it was last complete, and its restarts.

In: `status.members` and `status.restarts` as stored, whatever is in them, the facts about the groups, and the
time. Out: that memory, decoded; what to store next; which groups are left as they are. Memory that is lost or
garbled delays nothing and forbids nothing, and restarts nothing. A pod that was replaced while nobody looked
leaves no other trace than its new UID.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

from lws import timing
from lws.kube.conditions import Condition, find
from lws.kube.metadata import is_terminating, labels_of
from lws.kube.quantities import whole_number
from lws.leaderworkerset.labels import MOST_GROUP_NUMBER
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import REVISION_LABEL, RestartPolicy

# Of leaders, which every pass over their set compares.
_REMEMBERED = 16384
_MEMBERS = re.compile(r"([0-9a-f]{8})-([0-9a-f]{8})")


# No slots: its text is kept with it.
@dataclass(frozen=True)
class Members:
    """A leader and its workers, each as 8 hexadecimal digits of a hash over UIDs; as text `leader-workers`.

    Equal members have the same UIDs; that others have equal hashes is a matter of 2^-32.
    """

    leader: str
    workers: str

    @classmethod
    def of(cls, leader_uid: str, worker_uids: Iterable[str]) -> Members:
        """The members with these UIDs; workers in any order, none in a group of one."""
        return cls(_hash(leader_uid), _hash(",".join(sorted(worker_uids))))

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """As it is stored."""
        return f"{self.leader}-{self.workers}"


def remembered_of(lws: Object, index: int) -> Members | None:
    """The members of a group when it was last complete; None where nothing that can be read says."""
    return _read(_stored(lws).get(str(index)))


def _stored(lws: Object) -> Mapping[str, object]:
    stored = (lws.get("status") or {}).get("members")
    return stored if isinstance(stored, Mapping) else {}


def _read(text: object) -> Members | None:
    return _parsed(text) if isinstance(text, str) else None


@lru_cache(_REMEMBERED)
def _parsed(text: str) -> Members | None:
    match = _MEMBERS.fullmatch(text)
    return Members(match[1], match[2]) if match is not None else None


def current_members(snapshot: SetSnapshot, ready: Collection[int]) -> dict[int, Members]:
    """The members to record, by index.

    ready: indices of groups that are ready; only those are complete for certain. A group is remembered as it
    was first complete under its leader: other workers under the same leader are for the restart policy to
    judge, and no pass over the set may forget for it whom it had. Where the policy asks for nothing, nothing
    is remembered: what was lost then is not held against the group when the policy changes.
    """
    if snapshot.spec.restart_policy == RestartPolicy.NONE:
        return {}
    stored = _stored(snapshot.lws)
    current: dict[int, Members] = {}
    for group in snapshot.groups:
        uid, text = group.uid, stored.get(str(group.index))
        before = _parsed(text) if isinstance(text, str) else None
        if before is not None and before.leader == _hash(uid):
            current[group.index] = before
        elif group.index in ready and group.is_complete:
            current[group.index] = Members.of(uid, group.worker_uids)
    return current


@lru_cache(_REMEMBERED)
def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


FAILED = "Failed"


GOING, KEPT = "00000000", "ffffffff"
"""What stands for the workers in `status.members` of a leader whose end is decided and counted, and of one
that is left as it is because its group has used up its restarts.
"""

# Of a set of thousands, nobody reads more.
_LISTED = 10
_RECORD = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,12})\.(.*)")


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restarts of one group; as text `count.consecutive.last.key`.

    count: on the revision with this key. consecutive: one after the other, without a stable time between.
    last: Unix seconds, 0 for never.
    """

    count: int = 0
    consecutive: int = 0
    last: int = 0
    key: str = ""

    def __str__(self) -> str:
        return f"{self.count}.{self.consecutive}.{self.last}.{self.key}"

    @property
    def due(self) -> datetime:
        """The moment from which the next restart may be."""
        return datetime.fromtimestamp(self.last + timing.RESTART_DELAY.after(self.consecutive), UTC)

    def and_one(self, now: datetime) -> Restarts:
        """After one more."""
        return Restarts(self.count + 1, self.consecutive + 1, int(now.timestamp()), self.key)


def restarts_of(lws: Object, index: int, key: str, now: datetime) -> Restarts:
    """The restarts that count for the group of this index on the revision with this key."""
    stored = (lws.get("status") or {}).get("restarts")
    text = stored.get(str(index)) if isinstance(stored, Mapping) else None
    match = _RECORD.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[4] != key:
        # A new revision is what a failing one is mended with: it starts without a past.
        return Restarts(key=key)
    count, consecutive, last = (int(match[part]) for part in (1, 2, 3))
    since = int(now.timestamp()) - last
    if since >= timing.STABLE_SECONDS or since < -timing.SKEW_SECONDS:
        consecutive, last = 0, 0
    return Restarts(count, consecutive, last, key)


def claimed_restarts(
    lws: Object, live: Collection[int], admitted: Iterable[tuple[int, str]]
) -> dict[str, str | None]:
    """Patch of `status.restarts` that gives Hash groups the records of groups that are terminating or
    gone, those with the most restarts first: a group that replaces another has a new number.

    live: numbers of the other groups. admitted: number and revision key of the groups that may start.
    """
    stored = (lws.get("status") or {}).get("restarts")
    records = stored if isinstance(stored, Mapping) else {}
    free: dict[str, list[tuple[int, str]]] = {}
    for number, text in records.items():
        match = _RECORD.fullmatch(text) if isinstance(text, str) else None
        if match is not None and whole_number(number, most=MOST_GROUP_NUMBER) not in live:
            free.setdefault(match[4], []).append((-int(match[1]), number))
    patch: dict[str, str | None] = {}
    for number, key in admitted:
        if str(number) not in records and (left := sorted(free.get(key, ()))):
            _, former = left[0]
            free[key].remove(left[0])
            patch |= {former: None, str(number): records[former]}
    return patch


def is_used_up(limit: int | None, restarts: Restarts) -> bool:
    """The group has had as many restarts on its revision as it may have; limit: None for none."""
    return limit is not None and restarts.count >= limit


def mark_on(lws: Object, index: int, leader: Object) -> str:
    """GOING or KEPT if that was decided about this very leader, else ""."""
    known = remembered_of(lws, index)
    if known is None or known.leader != Members.of(leader["metadata"]["uid"], ()).leader:
        return ""
    return known.workers if known.workers in (GOING, KEPT) else ""


def memory_of(index: int, leader: Object, restarts: Restarts | None, mark: str) -> dict[str, Any]:
    """The patch of the status that remembers what was decided about the group of this leader; restarts: None
    where nothing is counted.
    """
    marked = Members(Members.of(leader["metadata"]["uid"], ()).leader, mark)
    counted = {"restarts": {str(index): str(restarts)}} if restarts is not None else {}
    return {**counted, "members": {str(index): str(marked)}}


def failed(stored: Iterable[Mapping[str, Any]], given_up: Sequence[int]) -> Iterator[Condition]:
    """The condition Failed, absent until it was true once. given_up: indices of groups."""
    if given_up:
        listed = ", ".join(map(str, given_up[:_LISTED])) + (", …" if len(given_up) > _LISTED else "")
        named = f"Group {listed} has" if len(given_up) == 1 else f"Groups {listed} have"
        said = f"{named} failed once more than maxGroupRestarts allows, left as found for diagnosis"
        yield Condition(FAILED, True, "GroupRestartsExhausted", said)
    elif find(stored, FAILED) is not None:
        yield Condition(FAILED, False, "GroupRestartsLeft", "No group has used up its restarts")


def given_up(snapshot: SetSnapshot) -> tuple[int, ...]:
    """Indices of groups that failed once more than they may be restarted, and are left as they are since."""
    lws, limit, now = snapshot.lws, snapshot.spec.max_group_restarts, snapshot.now
    if limit is None or snapshot.spec.restart_policy == RestartPolicy.NONE:
        return ()
    return tuple(
        group.index
        for group in snapshot.groups
        if not is_terminating(group.leader)
        and mark_on(lws, group.index, group.leader) == KEPT
        and is_used_up(limit, restarts_of(lws, group.index, key_of(group.leader), now))
    )


def key_of(leader: Object) -> str:
    """The revision key that restarts of this leader's group are counted by."""
    return labels_of(leader).get(REVISION_LABEL, "")
