"""Describe the state of each group, and why it is not ready on the target revision.

Status and commands give the same reasons. `status.groups` contains counts and the worst groups. Its states
are coarse, so that a change of a single pod does not cause a write.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.rollout.state import RolloutState
from lws_api.leaderworkerset.v1 import RECOVER_ANNOTATION

MOST_NAMED = 10
"""Maximum number of groups in `status.groups.unsettled`."""

READY, OUTDATED = "Ready", "Outdated"
_BROKEN, _NOT_READY, _MISSING, _TERMINATING = "Broken", "NotReady", "Missing", "Terminating"
_PAUSED, _PREWARMING = "the rollout is paused", "waiting for nodes to get the new images: status.prewarm"
_WORST_FIRST = (_BROKEN, _NOT_READY, _MISSING, _TERMINATING, OUTDATED)
STATES = (READY, *_WORST_FIRST)
"""All states of a group."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """State of one group. state: one of `STATES`. reason: why the group is not ready on the target revision;
    empty if it is. pod: name of the leader pod of a Hash group; empty for a group that has an index.
    """

    index: int
    state: str
    reason: str
    pod: str = ""

    @property
    def lacks_pods(self) -> bool:
        """Whether the group is not ready because of its pods."""
        return self.state in (_BROKEN, _NOT_READY)

    def __str__(self) -> str:
        return f"group {self.pod or self.index}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Summary:
    """States of all groups, in short. counts: number of groups by state, without zeros. unsettled: groups
    that are not ready on the target revision, worst first, at most MOST_NAMED.
    """

    counts: dict[str, int]
    unsettled: tuple[GroupStanding, ...]

    def stored(self, name: str) -> dict[str, Any]:
        """Return the value of `status.groups`. name: name of the set."""
        unsettled = [
            {"name": group.pod or f"{name}-{group.index}", "state": group.state, "reason": group.reason}
            for group in self.unsettled
        ]
        fields: dict[str, Any] = {"counts": self.counts, "unsettled": unsettled}
        return {field: value for field, value in fields.items() if value}


def blocking_problem(name: str, problems: str) -> str:
    """Return the rejected write that blocks the rollout, without the API server's message; empty for none.
    name: name of the set. problems: messages of all problems of the set.
    """
    leaders = rf"Pod {re.escape(name)}-\d+|(StatefulSet|Deployment) {re.escape(name)}"
    match = re.search(rf"cannot (create|update|delete) ({leaders}|ControllerRevision \S+)(?=: )", problems)
    return match.group() if match is not None else ""


def summarise(rollout: RolloutState, blocked_by: str = "") -> Summary:
    """Summarise the groups for the status. blocked_by: see `blocking_problem`."""
    standings = _standings(rollout, blocked_by)
    counts = Counter([state for _, state, _, _ in standings])
    unsettled = [
        (_WORST_FIRST.index(state), index, state, reason, pod)
        for index, state, reason, pod in standings
        if state != READY and not (state == OUTDATED and index < rollout.floor) and index >= 0
    ]
    worst = (standing[1:] for standing in nsmallest(MOST_NAMED, unsettled))
    return Summary(dict(sorted(counts.items())), tuple(GroupStanding(*standing) for standing in worst))


def group_standings(rollout: RolloutState, blocked_by: str = "") -> tuple[GroupStanding, ...]:
    """Return the state of every desired or existing group, by index. blocked_by: see `blocking_problem`."""
    return tuple(GroupStanding(*standing) for standing in _standings(rollout, blocked_by))


# Tuples, because only a few of a thousand groups become objects.
def _standings(rollout: RolloutState, blocked_by: str) -> list[tuple[int, str, str, str]]:
    standings = []
    replicas, floor, has_indices = rollout.replicas, rollout.floor, rollout.deployment is None
    stopped = _PAUSED if rollout.paused else _PREWARMING if rollout.prewarming else ""
    by_index = {group.index: group for group in rollout.groups}
    # Hash groups have no name while they are missing.
    missing = range(replicas) if has_indices else range(len(by_index) - replicas, 0)
    for index in sorted({*missing, *by_index}):
        group = by_index.get(index)
        if group is not None and group.settled:
            standings.append((index, READY, "", group.pod))
            continue
        state, reason = _standing(group)
        if state == OUTDATED and index < min(floor, replicas):
            reason = f"keeps its revision: below partition {floor}"
        elif state == OUTDATED and stopped:
            reason = stopped
        elif state == OUTDATED and index >= replicas and has_indices:
            reason = "surge group: deleted when the rollout completes"
        elif state == OUTDATED and blocked_by:
            reason = f"the rollout is blocked, the API server rejects the next step: {blocked_by}"
        standings.append((index, state, reason, group.pod if group is not None else ""))
    return standings


def _standing(group: GroupState | None) -> tuple[str, str]:
    if group is None:
        return _MISSING, "no leader pod"
    if group.kept:
        return _TERMINATING, f"restarts are used up: annotate the leader pod with {RECOVER_ANNOTATION}=true"
    if group.terminating:
        return _TERMINATING, "leader pod is terminating"
    if group.serves_outdated:
        return OUTDATED, "waiting for its turn in the rollout"
    return _BROKEN if group.broken else _NOT_READY, _why_unready(group)


def _why_unready(group: GroupState) -> str:
    if group.gate:
        return f"waiting for scheduling gate {group.gate}"
    if group.barred:
        return group.barred
    if not group.leader_ready:
        return "leader pod is not ready"
    return "workers are not ready" if group.formed else "no worker StatefulSet"
