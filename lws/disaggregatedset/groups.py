"""Count the serving, starting and failed groups of a child.

A group that does not serve counts as starting until it has failed repeatedly, used up its restarts or
exceeded its start time.
Deleting a starting group costs nothing now, but the group may serve soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from lws import timing
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import ChildFacts
from lws.kube import pods
from lws.kube.conditions import elapsed, find, is_true, moment_of
from lws.kube.metadata import is_terminating
from lws.kube.pods import NodeWait
from lws.leaderworkerset import fields
from lws.leaderworkerset.group_records import DELETING, KEPT, mark_of, restarts_of
from lws.leaderworkerset.restart_counts import is_exhausted
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.spec import has_hash_groups
from lws.leaderworkerset.status.status import AVAILABLE, REPLICA_FAILURE
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE


def child_facts(
    child: Object, identity: Identity, groups: Iterable[GroupFacts] | None, now: datetime, remaining: int = 0
) -> ChildFacts:
    """Collect the facts of a child.

    groups: found by their leader pods; None if these are not watched: then the child's status counts. Groups
      without an index (groupIdentity Hash) only show what the status lacks: terminating groups, which count
      in the surge alone, and waits.
    remaining: the number of existing groups, groups of a former child of the same name included.
    """
    desired, status = fields.REPLICAS.effective_in(child), child.get("status") or {}
    has_acted = status.get("observedGeneration") == child["metadata"].get("generation", 0)
    size, waits, with_pods, failed = fields.SIZE.effective_in(child), tuple[NodeWait, ...](), 0, 0
    is_hash = has_hash_groups(child)
    if groups is None or is_hash:
        is_settled = has_acted and is_true(status.get("conditions"), AVAILABLE)
        # Counters in the status may be stale; conditions are written as soon as they change.
        ready = desired if is_settled else min(int(status.get("readyReplicas") or 0), desired)
        existing, on_top, failed_on_top = int(status.get("replicas") or 0), 0, 0
        if is_hash:
            found = tuple(groups or ())
            with_pods = max(remaining, sum(runs_hash_group(group.leader) for group in found))
            unserving = [group for group in found if not _serves(group, size)]
            waits = tuple(wait for group in unserving for wait in group.waits)
            stay = (group for group in unserving if group.is_exhausted or not group.is_leader_terminating)
            failed = sum(_has_failed(child, group, now) for group in stay)
        else:
            existing = max(remaining, existing)
        starting = _starting(child, {}, range(ready + failed, desired), now)
    else:
        by_index = {group.index: group for group in groups}
        serving = {index for index, group in by_index.items() if _serves(group, size)}
        is_settled = has_acted and serving.issuperset(range(desired))
        ready, existing = len(serving), max(remaining, len(by_index))
        starting = _starting(child, by_index, set(range(desired)) - serving, now)
        on_top = _on_top(desired, serving)
        failed_on_top = min(on_top, _on_top(desired, starting))
        unready = (
            group for index, group in sorted(by_index.items()) if index < desired and index not in serving
        )
        waits = tuple(wait for group in unready for wait in group.waits)
    return ChildFacts(
        obj=child,
        role=identity.role,
        slice_index=identity.slice_index,
        key=identity.key,
        is_legacy=identity.is_legacy,
        existing=existing,
        with_pods=with_pods,
        ready=ready,
        is_settled=is_settled and not is_terminating(child),
        broken_on_top=on_top,
        starting=len(starting),
        failed_on_top=failed_on_top,
        waits=waits,
        judged_in=(min(starting.values()) - now).total_seconds() if starting else None,
    )


def _starting(
    child: Object, groups: Mapping[int, GroupFacts], unready: Iterable[int], now: datetime
) -> dict[int, datetime]:
    """Return index → deadline of each starting group."""
    since, deadline = _unready_since(child, now), fields.PROGRESS_DEADLINE_SECONDS.stored_in(child)
    time = timedelta(seconds=deadline) if deadline is not None else timing.GROUP_STARTS_WITHIN
    are_refused = is_true((child.get("status") or {}).get("conditions"), REPLICA_FAILURE)
    until = {}
    for index in unready if since is not None else ():
        group = groups.get(index)
        if are_refused if group is None else _has_failed(child, group, now):
            continue
        created = moment_of(group.leader["metadata"].get("creationTimestamp")) if group is not None else None
        began = max(filter(None, (since, created)))
        if elapsed(began, now) < time:
            until[index] = began + time
    return until


def _unready_since(child: Object, now: datetime) -> datetime | None:
    """Return since when a group of the child is unready, by the child's status; None if unknown."""
    available = find((child.get("status") or {}).get("conditions"), AVAILABLE)
    if available is None:
        return moment_of(child["metadata"].get("creationTimestamp"))
    # A status that still says True is older than the state of the groups.
    return now if available.get("status") == "True" else moment_of(available.get("lastTransitionTime"))


def _has_failed(child: Object, group: GroupFacts, now: datetime) -> bool:
    """Return whether a group has used up its restarts, or failed twice lately, by its present state and its
    recorded restarts.

    A single crash does not predict the next start. When one crash sufficed, rollouts without any other step
    deleted a healthy group instead.
    """
    leader = group.leader
    mark = mark_of(child, group.index, leader)
    if mark == KEPT or group.is_exhausted:
        return True
    restarted, ended = pods.restarted_containers(leader), pods.ended_containers(leader)
    # A failure whose restart has been recorded is counted already.
    is_failing = mark != DELETING and bool(restarted or ended or pods.is_failed(leader))
    again = bool(restarted) and (bool(ended) or not all(container.restarts == 1 for container in restarted))
    return restarts_of(child, group.index, leader, now).consecutive + is_failing + again > 1


def _serves(group: GroupFacts, size: int) -> bool:
    """Return whether the leader is up and, in a group of several pods, all workers are settled."""
    if group.is_leader_terminating or group.is_being_deleted or not group.is_leader_up:
        return False
    return size == 1 or group.are_workers_settled


def runs_hash_group(leader: Object) -> bool:
    """Return whether a leader's Hash group runs or terminates. A gated leader waits for the group that it
    replaces. A group whose leader has ended, or that has used up its restarts, has ended, although its pods
    are kept.
    """
    has_ended = is_exhausted(leader) or pods.has_ended(leader)
    return not has_ended and not pods.has_gate(leader, GROUP_REPLACEMENT_GATE)


def _on_top(desired: int, indices: Iterable[int]) -> int:
    """Return the number of desired groups above the highest of these indices."""
    return desired - 1 - max((index for index in indices if index < desired), default=-1)
