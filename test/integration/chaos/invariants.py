"""Check that every guarantee about a set held at every moment.

The checks know the guarantees, not the implementation. A manager sees changes of other clients a moment
later. So an action counts as wrong only if it was wrong in every state that the manager may have seen: the
states of the last `_UNSEEN` seconds. A manager knows its own actions at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, SIZE_ANNOTATION
from test.harness.audit import MANAGER
from test.integration.chaos.record import LEASES, PODS, Change, Entry, Object
from test.integration.chaos.replay import Frame, Pod, Step, pod_of

STATEFULSET_CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
_UNSEEN = timedelta(seconds=3)
# On a busy machine, a permitted write of a manager may take this long to reach the API server.
_ON_ITS_WAY = timedelta(seconds=3)
# The same for the time between an answer and its entry in the log.
_UNLOGGED = timedelta(seconds=1)


@dataclass(frozen=True)
class Violation:
    """A violated guarantee. position: of the step that violated it."""

    position: int
    what: str


def violations(name: str, steps: Sequence[Step]) -> list[Violation]:
    """Return the violations for the set of that name."""
    return [
        *_too_many_groups(name, steps),
        *_mixed_groups(steps),
        *_overlaps(steps),
        *_steps_over_the_floor(name, steps),
        *_restarts_without_reason(name, steps),
    ]


def fewest_ready(steps: Iterable[Step], began: datetime, deaths: Collection[datetime] = ()) -> int | None:
    """Return the smallest number of groups that served at any moment since `began`, or None without steps.

    deaths: times at which the API server died. It logs a request after it answers it. So changes right before
    a death are known only from the snapshot that follows.
    """
    blind = [(died - _UNLOGGED, died) for died in deaths]
    judged = (
        step
        for step in steps
        if step.entry.at >= began and not any(first <= step.entry.at <= last for first, last in blind)
    )
    return min((len(step.after.ready) for step in judged), default=None)


def _too_many_groups(name: str, steps: Sequence[Step]) -> Iterator[Violation]:
    """Find moments with more groups than `replicas` plus the surge."""
    for position, step in enumerate(steps):
        desired, leaders = step.after.desired, step.after.statefulsets.get(name)
        if desired is None:
            continue
        if len(step.after.leaders) > desired.ceiling:
            yield Violation(position, f"{len(step.after.leaders)} groups, at most {desired.ceiling} may be")
        if leaders is not None and leaders.replicas > desired.ceiling:
            yield Violation(
                position, f"{leaders.replicas} groups requested, at most {desired.ceiling} may be"
            )


def _mixed_groups(steps: Sequence[Step]) -> Iterator[Violation]:
    """Find groups whose leader and workers have different revisions."""
    for position, step in enumerate(steps):
        if _pods_of(step.before) == _pods_of(step.after):
            continue
        for leader in step.after.leaders.values():
            keys = {pod.key for pod in (leader, *step.after.workers_of(leader))}
            if len(keys) > 1:
                yield Violation(position, f"group {leader.group} has pods of revisions {sorted(keys)}")


def _overlaps(steps: Sequence[Step]) -> Iterator[Violation]:
    """Find new leaders that may be scheduled before the last old worker is gone.

    It does not matter which client deleted the old leader. A worker may be late if its StatefulSet recreates
    it while the garbage collector deletes the StatefulSet: neither waits for the other. This does not excuse
    a StatefulSet that a manager creates for a terminating leader.
    """
    made_for: dict[str, str] = {}
    first_seen: dict[str, int] = {}
    deleted: dict[str, int] = {}
    reported: set[str] = set()
    for position, step in enumerate(steps):
        made_for |= {statefulset.uid: statefulset.owner for statefulset in step.after.statefulsets.values()}
        for obj in (*step.after.statefulsets.values(), *step.after.pods.values()):
            first_seen.setdefault(obj.uid, position)
        for pod in _newly_terminating(step):
            deleted.setdefault(pod.uid, position)
        for pod in step.after.pods.values():
            leader, former = step.after.leaders.get(pod.group), made_for.get(pod.owner)
            if pod.is_leader or leader is None or former in (None, leader.uid) or pod.uid in reported:
                continue
            end = deleted.get(str(former))
            if end is None or leader.is_gated:
                continue
            if first_seen[pod.owner] < end <= first_seen[pod.uid]:
                continue
            reported.add(pod.uid)
            message = f"worker {pod.name} of the former leader meets leader {leader.name}"
            yield Violation(position, message)


def _steps_over_the_floor(name: str, steps: Sequence[Step]) -> Iterator[Violation]:
    """Find actions of managers that leave fewer groups ready than the budget allows."""
    ours: set[str] = set()
    for position, step in enumerate(steps):
        removed = _removed_groups(name, step) if step.entry.user == MANAGER else {}
        desired = step.before.desired
        if (
            removed
            and desired is not None
            and not all(_incident(steps, position, pod) for pod in removed.values())
        ):
            recent = _recent(steps, position)
            terminating = ours | {pod.uid for pod in _covered(name, step.before).values()}
            stay = {
                group
                for frame in recent
                for group in frame.reported | frame.ready
                if frame.leaders[group].uid not in terminating
            } - removed.keys()
            cost = {group for group in removed if all(group in frame.reported for frame in recent)}
            floor = desired.floor
            if any(_has_broken_old_groups(name, frame) for frame in recent):
                floor = min(floor, len(stay | cost) - 1)
            if cost and len(stay) < floor:
                yield Violation(
                    position, f"groups {sorted(cost)} taken down, {len(stay)} stay, {floor} have to"
                )
        ours |= {pod.uid for pod in _newly_terminating(step) if step.entry.user == MANAGER}


def _restarts_without_reason(name: str, steps: Sequence[Step]) -> Iterator[Violation]:
    """Find deletions of pods without a reason.

    A leader is deleted because its revision is old, its group is surplus, or one of its pods was lost. Any
    pod is deleted because it waits for the only node that may take it.
    """
    for position, step in enumerate(steps):
        if step.entry.user not in (MANAGER, STATEFULSET_CONTROLLER) or step.entry.resource != PODS:
            continue
        for pod in _newly_terminating(step):
            if step.entry.user == MANAGER:
                has_reason = pod.waits_to_return or (
                    pod.is_leader
                    and (_is_called_off(name, [step.before], pod) or _incident(steps, position, pod))
                )
            elif pod.is_leader:
                has_reason = pod.has_failed or _is_called_off(name, _recent(steps, position), pod)
            else:
                # Neither the template nor the number of workers ever changes.
                has_reason = pod.has_failed or _is_leader_going(step.before, pod)
            if not has_reason:
                yield Violation(
                    position, f"{step.entry.user.rpartition(':')[2]} deleted {pod.name} without reason"
                )


def _removed_groups(name: str, step: Step) -> dict[int, Pod]:
    """Return groups that a manager removes in this step, by a deletion or through the StatefulSet."""
    spared = _covered(name, step.before)
    if step.entry.resource == PODS:
        removed = {pod.group: pod for pod in _newly_terminating(step) if pod.is_leader}
    else:
        removed = _covered(name, Frame(step.before.pods, step.after.statefulsets))
    return {group: pod for group, pod in removed.items() if group not in spared}


def _covered(name: str, frame: Frame) -> dict[int, Pod]:
    """Return leaders that the StatefulSet controller has to replace or remove."""
    statefulset = frame.statefulsets.get(name)
    if statefulset is None:
        return {}
    return {
        group: leader
        for group, leader in frame.leaders.items()
        if group >= statefulset.replicas or (group >= statefulset.partition and leader.key != statefulset.key)
    }


def _is_called_off(name: str, frames: Sequence[Frame], leader: Pod) -> bool:
    """Report whether the leader's template is no longer the target, or its group is surplus."""
    for frame in frames:
        statefulset = frame.statefulsets.get(name)
        if frame.desired is None or statefulset is None:
            continue
        if leader.group >= min(statefulset.replicas, frame.desired.ceiling) or _is_old(name, frame, leader):
            return True
    return False


def _is_old(name: str, frame: Frame, leader: Pod) -> bool:
    """Report whether the set requests another image, or the StatefulSet has another revision."""
    statefulset = frame.statefulsets.get(name)
    is_old = frame.desired is not None and leader.image != frame.desired.image
    return is_old or (statefulset is not None and leader.key != statefulset.key)


def _incident(steps: Sequence[Step], position: int, leader: Pod) -> bool:
    """Report whether a pod of the group was lost, failed or restarted since this leader was created.

    A pod that only waited to return to its node does not count.
    """
    later: dict[str, str] | None = None
    # From the last moment back to the first, as long as this leader exists.
    for step in reversed(steps[: position + 1]):
        frame = step.before
        current = frame.leaders.get(leader.group)
        if current is None or current.uid != leader.uid:
            return False
        team = [pod for pod in (current, *frame.workers_of(current)) if not pod.waits_to_return]
        if any(pod.has_failed or pod.restarts or pod.is_terminating for pod in team):
            return True
        if later is not None and any(later.get(pod.name) != pod.uid for pod in team):
            return True
        later = {pod.name: pod.uid for pod in team}
    return False


def _has_broken_old_groups(name: str, frame: Frame) -> bool:
    return any(
        _is_old(name, frame, leader) and group not in frame.reported and not leader.is_terminating
        for group, leader in frame.leaders.items()
    )


def _is_leader_going(frame: Frame, worker: Pod) -> bool:
    leader = frame.leaders.get(worker.group)
    return leader is None or leader.is_terminating or worker not in frame.workers_of(leader)


def _newly_terminating(step: Step) -> list[Pod]:
    """Return pods that this write deleted."""
    if step.entry.resource != PODS or step.entry.verb != "delete":
        return []
    targets = [step.before.pods.get(step.entry.name)]
    return [pod for pod in targets if pod is not None and not pod.is_terminating]


def _recent(steps: Sequence[Step], position: int) -> list[Frame]:
    """Return the frame before a step, and earlier frames that a manager may still have seen as current."""
    frames = [steps[position].before]
    since = steps[position].entry.at - _UNSEEN
    for step in reversed(steps[:position]):
        if step.entry.at < since:
            break
        frames.append(step.before)
    return frames


def _pods_of(frame: Frame) -> set[str]:
    return {pod.uid for pod in frame.pods.values()}


def hash_violations(name: str, changes: Iterable[Change], most: int) -> list[str]:
    """Return the violations for a set with Hash groups, whose leaders a Deployment replaces.

    most: groups that may have nodes at a time, terminating ones included. A manager deletes a leader only if
    a pod of its group was lost, failed or restarted. An incomplete group cannot be judged.
    """
    messages: list[str] = []
    pods: dict[str, Object] = {}
    failed: set[str] = set()
    for change in changes:
        entry = change.entry
        if entry.resource != PODS:
            continue
        target = pods.get(entry.name)
        if entry.verb == "delete" and entry.user == MANAGER and target is not None:
            group = _group_of(target)
            team = [pod for pod in pods.values() if _group_of(pod) == group]
            size = int(target["metadata"]["annotations"][SIZE_ANNOTATION])
            is_whole = len(team) == size and all(pod_of(pod, group=0).is_ready for pod in team)
            if is_whole and group not in failed and "deletionTimestamp" not in target["metadata"]:
                messages.append(f"{entry.at:%H:%M:%S.%f}: {entry.name} was deleted without reason")
        _take_in(pods, change, name, failed)
        holding = {_group_of(pod) for pod in pods.values() if not pod["spec"].get("schedulingGates")}
        if len(holding) > most:
            messages.append(f"{entry.at:%H:%M:%S.%f}: {len(holding)} groups have nodes, at most {most} may")
    return messages


def _take_in(pods: dict[str, Object], change: Change, name: str, failed: set[str]) -> None:
    """Apply a change to `pods`. failed: groups with a pod that was lost, failed or restarted."""
    if change.is_snapshot:
        pods.clear()
    for title, obj in change.objects.items():
        before = pods.get(title)
        if obj is None:
            deleted_uid = (change.entry.answer.get("metadata") or {}).get("uid")
            if before is not None and deleted_uid in (None, before["metadata"]["uid"]):
                failed.add(_group_of(pods.pop(title)))
        elif (obj["metadata"].get("labels") or {}).get(NAME_LABEL) == name:
            pods[title] = obj
            pod = pod_of(obj, group=0)
            if pod.is_terminating or pod.has_failed or pod.restarts:
                failed.add(_group_of(obj))


def _group_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"][GROUP_INDEX_LABEL])


def writes_out_of_turn(
    entries: Iterable[Entry], names: Mapping[str, str], namespace: str, deadline: timedelta
) -> list[str]:
    """Return writes to a namespace by managers that could not be sure to be the only active one.

    names: the name of the manager for each credential. A manager is active from a renewal of its own until
    `deadline` later, and never after another one has acquired the Lease. Both are extended by the time that a
    request takes to arrive.
    """
    messages: list[str] = []
    renewed: dict[str, datetime] = {}
    holder, since = "", datetime.min.replace(tzinfo=UTC)
    for entry in sorted(entries, key=lambda entry: entry.at):
        who = names.get(entry.credential)
        if who is None or not entry.is_done:
            continue
        if entry.resource == LEASES:
            held_by = (entry.answer.get("spec") or {}).get("holderIdentity")
            if holder != (now := who if held_by else ""):
                holder, since = now, entry.at
            renewed[who] = entry.at
        elif entry.namespace == namespace and entry.verb in ("create", "update", "patch", "delete"):
            late = entry.at - renewed[who] if who in renewed else None
            description = f"at {entry.at:%H:%M:%S.%f} {who}: {entry.verb} {entry.resource} {entry.name}"
            if late is None or late > deadline + _ON_ITS_WAY:
                messages.append(f"{description}, {late} after its last renewal")
            elif holder != who and entry.at > since + _ON_ITS_WAY:
                messages.append(f"{description}, while {holder or 'nobody'} holds the Lease")
    return messages
