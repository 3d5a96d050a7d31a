"""Which StatefulSets are made to try again, because pods of theirs were refused?

In: a SetSnapshot. Out: a part of the plan. Their controller waits twice as long after each failure in a row,
and counts every look that some event starts: many fail within a second, and the pods would come minutes after
whatever refused them is over. Any change of a StatefulSet makes its controller look at once; that of an
annotation on it changes nothing else.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lws import timing
from lws.actions import Merge, Object, Plan, Reference, soonest
from lws.kube.conditions import moment_of, timestamp
from lws.kube.metadata import (
    annotations_of,
    is_controlled_by,
    is_terminating,
    uid_of,
    without_tools_own,
)
from lws.leaderworkerset.snapshot import SetSnapshot
from lws_api.leaderworkerset.v1 import PODS_RETRIED_AT_ANNOTATION

_NEVER = datetime.min.replace(tzinfo=UTC)
_MOST_AT_ONCE = timing.RETRY_NEXT_PODS_AFTER // timing.RETRY_PODS_EACH


def plan_retries(snapshot: SetSnapshot) -> Plan:
    """Those that have waited longest come first."""
    refused = _refused(snapshot)
    pause = max(timing.RETRY_PODS_AFTER, len(refused) * timing.RETRY_PODS_EACH)
    waits = [(_last_try(each, snapshot) + pause - snapshot.now, each) for each in refused]
    due = sorted((each for each in waits if each[0] <= timedelta()), key=lambda each: each[0])
    again_after = [wait for wait, _ in waits if wait > timedelta()]
    if due:
        again_after.append(timing.RETRY_NEXT_PODS_AFTER if len(due) > _MOST_AT_ONCE else pause)
    return Plan(
        sequences=tuple((_retry(each, snapshot.now),) for _, each in due[:_MOST_AT_ONCE]),
        again_after=soonest(each.total_seconds() for each in again_after),
    )


def _refused(snapshot: SetSnapshot) -> list[Object]:
    """StatefulSets of the set that are short of pods for that, the leaders' first."""
    if not snapshot.refused_at:
        return []
    leader, uid = snapshot.leader, uid_of(snapshot.lws)
    # Any write that succeeds would count as the end of a refusal of what the leaders' is to be told.
    may_change = leader is not None and is_controlled_by(leader, uid) and not snapshot.leaders_refused
    workers = (group.workers for group in snapshot.groups if not group.leader_terminating)
    return [
        each
        for each in (leader if may_change else None, *workers)
        if each is not None and each["metadata"]["uid"] in snapshot.refused_at and not is_terminating(each)
    ]


def _last_try(statefulset: Object, snapshot: SetSnapshot) -> datetime:
    """When its controller last tried, as far as that is known."""
    retried_at = moment_of(annotations_of(statefulset).get(PODS_RETRIED_AT_ANNOTATION))
    moments = (retried_at, snapshot.refused_at[statefulset["metadata"]["uid"]])
    # A clock that is so far ahead is not believed.
    latest = snapshot.now + timedelta(seconds=timing.SKEW_SECONDS)
    return max((each for each in moments if each is not None and each <= latest), default=_NEVER)


def _retry(statefulset: Object, now: datetime) -> Merge:
    patch = {"metadata": {"annotations": {PODS_RETRIED_AT_ANNOTATION: timestamp(now)}}}
    why = "pods of it were refused, and its controller waits ever longer before it tries again"
    return Merge(Reference.to(statefulset), without_tools_own(statefulset, patch), why=why)
