"""Collect what keeps a set from getting its groups, worst first.

The result goes into the condition ReplicaFailure and into Events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lws.kube.conditions import Condition, moment_of, timestamp
from lws.kube.metadata import name_of
from lws.kube.names import byte_length, tightest_derived_name
from lws.kube.nodes import OUT_OF_SERVICE_TAINT, NodeLossPolicy, StuckPod, look_again_after, stuck_pods
from lws.kube.ownership import clash_note
from lws.kube.pods import NodeWait
from lws.leaderworkerset.rollout.state import budget_of
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Problem

_DROPS_START_ORDINAL = Problem(
    "StartOrdinalUnsupported",
    "the API server drops spec.ordinals.start of StatefulSets, so workers would be taken for leaders and no "
    "more of them are created: requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature",
)


def problems_of(snapshot: SetSnapshot, encountered: Iterable[Problem]) -> tuple[Problem, ...]:
    """encountered: what the pass itself ran into."""
    found = list(encountered)
    drops_start = snapshot.drops_start_ordinal or any(group.lacks_start_ordinal for group in snapshot.groups)
    if drops_start and snapshot.spec.size > 1:
        found.append(_DROPS_START_ORDINAL)
    owner = name_of(snapshot.lws)
    obstacles = [group.obstacle for group in snapshot.groups if group.obstacle is not None]
    found += [Problem("NameClash", clash_note(each, "LeaderWorkerSet", owner)) for each in obstacles]
    too_long = _name_too_long(snapshot)
    if too_long is not None:
        found.append(too_long)
    # Refusals come last: whatever else is wrong may be the reason for them.
    refused = (
        Problem(obstruction.reason, obstruction.message, obstruction.is_reported, obstruction.action)
        for obstruction in snapshot.obstructions
    )
    return (*found, *refused)


def _name_too_long(snapshot: SetSnapshot) -> Problem | None:
    """Admission refuses such names; the scale subresource passes it by."""
    spec, replicas = snapshot.spec, snapshot.spec.replicas
    if replicas == 0:
        return None
    highest = replicas + budget_of(spec).surge - 1
    derived = tightest_derived_name(highest, spec.size)
    length = byte_length(name_of(snapshot.lws))
    if length <= derived.room:
        return None
    return Problem(
        "NameTooLong",
        f"the name has {length} bytes, at {replicas} replicas it may have {derived.room}: {derived.purpose} "
        f"({derived.pattern}) would be too long; scale down or use a shorter name",
    )


_MOST_NAMED = 10


def lost_nodes(snapshot: SetSnapshot) -> tuple[Problem, ...]:
    """One for each lost node that holds pods of the set."""
    by_node: dict[str, list[StuckPod]] = {}
    for pod in stuck_pods(snapshot.leaving, snapshot.nodes, snapshot.now, snapshot.node_loss):
        by_node.setdefault(pod.loss.node, []).append(pod)
    return tuple(_node_lost(stuck, snapshot.node_loss) for _node, stuck in sorted(by_node.items()))


def look_again(snapshot: SetSnapshot) -> float | None:
    """Seconds until there may be another problem; None where no pod is on its way out."""
    return look_again_after(snapshot.leaving, snapshot.nodes, snapshot.now, snapshot.node_loss)


def _node_lost(stuck: list[StuckPod], policy: NodeLossPolicy) -> Problem:
    loss = stuck[0].loss
    names = [str(stuck_pod.pod["metadata"]["name"]) for stuck_pod in stuck]
    more = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Problem(
        "NodeLost",
        f"node {loss.node} {loss.why} and cannot end {shown}: their groups wait; {_advice(stuck[0], policy)}",
    )


def _advice(stuck: StuckPod, policy: NodeLossPolicy) -> str:
    if stuck.loss.is_collected:
        return "Kubernetes deletes such pods itself (pod garbage collector)"
    if policy.force_delete:
        return "such pods are deleted by force"
    return (
        f"repair the node, delete it, or, once it is shut down, taint it with {OUT_OF_SERVICE_TAINT}; the "
        f"manager does it by itself with nodeLoss.forceDelete"
    )


# --- Remember when a set last made progress, and decide whether it is stalled. Losing that memory delays
# the verdict, nothing else; nothing follows from the verdict.


STALLED = "Stalled"

LAST_PROGRESS = "lastProgressTime"
"""The field of the status that remembers."""

# Longer than this part of the deadline.
_LONG_WAIT = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """What a set is measured by.

    deadline: how long it may go without progress, None for as long as it takes. is_progressing: groups are
    being created or replaced. was_progressing: so it was at the last write of the status. is_paused: the user
    has stopped the rollout. has_moved: something new is asked for, or the rollout goes a step further.
    settled: groups that are ready on the target revision. waits: for a node, of pods that it waits for.
    """

    deadline: timedelta | None
    now: datetime
    is_progressing: bool
    was_progressing: bool
    is_paused: bool
    has_moved: bool
    settled: int
    waits: tuple[NodeWait, ...] = ()

    def last_progress(self, stored: Mapping[str, Any]) -> str | None:
        """The moment to remember (RFC 3339); None where nothing has happened yet.

        More settled groups than last time are progress, and so is whatever starts the clock anew: a step, a
        new wish, the first trouble after a time of rest.
        """
        known: str | None = stored.get(LAST_PROGRESS)
        # Other controllers do not count them; where nothing was written yet, there were none.
        groups = stored.get("groups") if stored else {}
        has_begun = self.is_progressing and (not self.was_progressing or self.has_moved or not known)
        is_better = groups is not None and self.settled > int((groups.get("counts") or {}).get("Ready") or 0)
        return timestamp(self.now) if has_begun or is_better else known

    @property
    def lacks_nodes(self) -> bool:
        """A pod that the set waits for has had no node for long: the clock stands still."""
        return any(wait.until is None for wait in self._long_waits())

    def due_in(self, last: str | None) -> float | None:
        """Seconds until the set counts as stalled, 0 if it does; None where it is at rest, paused, or never
        does.

        The clock starts anew when the last of the pods that had to wait for a node gets it. What they waited
        is read off the pods: nothing has to be remembered, and nothing to be written.
        """
        moment = moment_of(last)
        if self.deadline is None or not self.is_progressing or self.is_paused or moment is None:
            return None
        if self.lacks_nodes:
            return self.deadline.total_seconds()
        placed = (wait.until for wait in self._long_waits() if wait.until is not None)
        return max(0.0, (max((moment, *placed)) + self.deadline - self.now).total_seconds())

    def _long_waits(self) -> Iterator[NodeWait]:
        """A group that is recreated again and again waits a moment each time: that is not what it lacks."""
        for wait in self.waits:
            if self.deadline and (wait.until or self.now) - wait.since > self.deadline / _LONG_WAIT:
                yield wait


def stalled(pace: Pace, deadline: timedelta, due_in: float | None, why: str) -> Condition:
    """The condition; why: which groups it waits for, and what they lack."""
    if due_in == 0:
        said = f"No progress for {deadline.total_seconds():.0f} s; {why}"
        return Condition(STALLED, True, "ProgressDeadlineExceeded", said)
    if not pace.is_progressing:
        return Condition(STALLED, False, "AtRest", "No group is being created or replaced")
    if pace.is_paused:
        return Condition(STALLED, False, "RolloutPaused", "The rollout is paused")
    if pace.lacks_nodes:
        said = "Pods wait for their nodes; the deadline counts from when they have them"
        return Condition(STALLED, False, "PodsUnscheduled", said)
    return Condition(STALLED, False, "Progressing", "Groups are being created or replaced, and it goes on")
