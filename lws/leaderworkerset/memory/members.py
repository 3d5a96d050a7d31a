"""Who were the members of each group when it was last complete?

In: the facts about the groups, and `status.members` as stored, whatever is in it. Out: that memory, decoded
and brought up to date. A pod that was replaced while nobody looked leaves no other trace than its new UID.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lws.actions import Object
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import RestartPolicy

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
    """What is to be remembered now, by index.

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
        uid, before = group.uid, _read(stored.get(str(group.index)))
        if before is not None and before.leader == _hash(uid):
            current[group.index] = before
        elif group.index in ready and group.is_complete:
            current[group.index] = Members.of(uid, group.worker_uids)
    return current


@lru_cache(_REMEMBERED)
def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
