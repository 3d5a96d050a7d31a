"""Collect the state of a set, of its groups and of its roles as plain facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lws.cli.histories import SetHistory, SetObjects, all_of, set_history
from lws.cli.screen import age
from lws.cli.session import Refusal, Session
from lws.cli.sets import kind_of, readable
from lws.disaggregatedset import plan as roles_plan
from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.observe.observer import DisaggregatedObserver
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.slices.state import RoleTargets
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec, parse
from lws.disaggregatedset.tables import TABLES
from lws.disaggregatedset.target import TargetRevision, target_revision
from lws.history.revision import Revision
from lws.kube import conditions
from lws.kube.metadata import controller_of, is_terminating, name_of, uid_of
from lws.kube.ownership import Ownership
from lws.kube.pods import is_ready
from lws.leaderworkerset.assessment.assessment import Assessment, assess
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.encoding import NOT_IN_PODS
from lws.leaderworkerset.spec import has_hash_groups, other_manager
from lws.leaderworkerset.status.problems import LAST_PROGRESS, STALLED
from lws.leaderworkerset.status.status import AVAILABLE, REPLICA_FAILURE
from lws.leaderworkerset.status.summary import (
    READY,
    GroupStanding,
    Summary,
    blocking_problem,
    group_standings,
    summarise,
)
from lws.leaderworkerset.tables import TABLES as SET_TABLES
from lws.leaderworkerset.templates.claims import claims_at_risk, risk_of_claims
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import KIND as ROLES_KIND
from lws_api.disaggregatedset.v1 import NAME_LABEL as ROLES_NAME_LABEL
from lws_api.disaggregatedset.v1 import SCALER_KIND
from lws_api.leaderworkerset.v1 import KIND, NAME_LABEL

_ROLES_KINDS = (KIND, "ControllerRevision", "Service", SCALER_KIND)
# Names of LeaderWorkerSets in one selector. With more of them, some proxies would refuse the long URL.
_AT_ONCE = 50
_LONGEST = 100
_OBSTACLE = "this problem to be resolved"
_TO_REPORT = "the controller to report in the status that it is done"
_NEXT_STEP = "the controller to take its next step"


@dataclass(frozen=True, kw_only=True)
class SetState:
    """The state of one set, as of `now`.

    revisions: all that are recorded. key: the key of the target revision. replicas: number of desired groups.
    ready, updated: numbers of ready groups on any revision and on the target revision, at most `replicas`.
    deadline: seconds without progress after which the set counts as stalled; None if no deadline applies.
    is_settled: whether everything
    matches the spec. waiting_for: what has to happen next, in words; empty if the set is settled. slices:
    number of copies of all roles; None for a kind without roles. counts: state of groups → number of groups,
    as far as known.
    """

    obj: Object
    now: datetime
    revisions: Sequence[Revision[Any]]
    key: str
    replicas: int
    ready: int
    updated: int
    deadline: int | None
    is_settled: bool
    waiting_for: str
    slices: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def number(self, key: str) -> int | None:
        """Return the number of the newest revision with this key; None if none is recorded."""
        return _number(self.revisions, key)

    @property
    def is_paused(self) -> bool:
        return kind_of(self.obj).is_paused(self.obj)

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        return (self.obj.get("status") or {}).get("conditions") or ()

    @property
    def is_stalled(self) -> bool:
        """Whether the status reports that the set has stopped making progress."""
        return conditions.is_true(self.conditions, STALLED)

    @property
    def last_progress(self) -> str:
        """When the controller last saw progress (RFC 3339); empty if it has seen none."""
        return str((self.obj.get("status") or {}).get(LAST_PROGRESS) or "")


async def state_of(session: Session, obj: Object) -> SetState:
    read, report = _STATES[obj["kind"]]
    return report(await read(session, obj))


@dataclass(frozen=True)
class GroupLine:
    """The state of one group.

    workers: numbers of ready and of all ones. why: why the group waits; empty if it does not. pod, node:
    names of the leader pod and its node. key: the digits of a Hash group's key in its host name; else empty.
    """

    index: int
    revision: str
    leader: str
    workers: tuple[int, int]
    age: str
    why: str
    is_settled: bool
    pod: str = ""
    node: str = ""
    key: str = ""

    @property
    def label(self) -> str:
        """What users call the group. A Hash group that is missing has no name."""
        return self.key or (str(self.index) if self.index >= 0 else "-")


@dataclass(frozen=True, kw_only=True)
class StatusReport(SetState):
    """The state of a LeaderWorkerSet. Of one with another manager, only its status is known.

    groups: desired and existing ones. live_only: settings in effect that no revision records. at_risk: what
    may be lost; both one sentence each.
    """

    objects: SetObjects
    history: SetHistory
    groups: tuple[GroupLine, ...]
    live_only: tuple[str, ...]
    at_risk: tuple[str, ...]


def report_on(objects: SetObjects) -> StatusReport:
    lws, snapshot = objects.lws, objects.snapshot
    history, assessment = set_history(snapshot, objects.revisions), assess(snapshot)
    rollout, replicas, manager = assessment.rollout, assessment.rollout.replicas, other_manager(lws)
    blocked_by = blocking_problem(name_of(lws), failure_of(lws))
    summary = summarise(rollout, blocked_by)
    is_settled = _is_settled(objects, assessment, summary)
    exposed = claims_at_risk(lws, (group.worker_statefulset for group in snapshot.groups))
    lines = () if manager else tuple(_lines(objects, history, group_standings(rollout, blocked_by)))
    if manager:
        ready, updated = (
            _reported(lws, counter, replicas) for counter in ("readyReplicas", "updatedReplicas")
        )
    elif rollout.deployment is not None:
        ready, updated = rollout.deployment.ready, sum(line.is_settled for line in lines)
    else:
        ready = sum(state.ready for state in assessment.groups if state.index < replicas)
        updated = sum(line.is_settled for line in lines if line.index < replicas)
    return StatusReport(
        obj=lws,
        now=snapshot.now,
        revisions=history.revisions,
        key=assessment.target.key,
        replicas=replicas,
        ready=ready,
        updated=updated,
        deadline=None if rollout.prewarming else snapshot.spec.progress_deadline,
        is_settled=is_settled,
        waiting_for="" if is_settled else _waiting_for(objects, summary, blocked_by),
        counts={} if manager else summary.counts,
        objects=objects,
        history=history,
        groups=lines,
        live_only=tuple(_live_only(lws, history)),
        at_risk=(risk_of_claims(exposed),) if exposed else (),
    )


def _reported(lws: Object, counter: str, most: int) -> int:
    count = (lws.get("status") or {}).get(counter)
    return min(count, most) if type(count) is int else 0


def _number(revisions: Iterable[Revision[Any]], key: str) -> int | None:
    return max((revision.number for revision in revisions if revision.key == key and key), default=None)


def _lines(
    objects: SetObjects, history: SetHistory, standings: Iterable[GroupStanding]
) -> Iterator[GroupLine]:
    groups = {group.index: group for group in objects.snapshot.groups}
    owned: dict[str, list[Object]] = defaultdict(list)
    for _, pod in sorted(objects.pods.items()):
        owned[(controller_of(pod) or {}).get("uid", "")].append(pod)
    for standing in standings:
        group = groups.get(standing.index)
        if group is None:
            yield GroupLine(
                standing.index, "-", standing.state, (0, 0), "-", standing.reason, is_settled=False
            )
            continue
        key = group.leader_key or ""
        leader = objects.pods.get(group.leader["metadata"]["name"], group.leader)
        workers = (
            owned[group.worker_statefulset["metadata"]["uid"]] if group.worker_statefulset is not None else []
        )
        snapshot = objects.groups.get(standing.index)
        size = snapshot.size if snapshot is not None else objects.snapshot.spec.size
        unknown = objects.unknown.get(standing.index, "")
        detail = obstacle(snapshot, [leader, *workers], size, unknown) if standing.lacks_pods else ""
        yield GroupLine(
            index=standing.index,
            revision=str(_number(history.revisions, key) or key or "<none>"),
            leader=_phase(leader),
            workers=(sum(map(is_ready, workers)), size - 1),
            age=age(leader["metadata"].get("creationTimestamp"), objects.snapshot.now),
            why="; ".join(filter(None, (standing.reason, detail))),
            is_settled=standing.state == READY,
            pod=leader["metadata"]["name"],
            node=str(leader["spec"].get("nodeName") or ""),
            key=f"{standing.index:08x}" if standing.pod else "",
        )


def _phase(leader: Object) -> str:
    if is_terminating(leader):
        return "Terminating"
    phase = str((leader.get("status") or {}).get("phase") or "Pending")
    return "Ready" if phase == "Running" and is_ready(leader) else phase


def _is_settled(objects: SetObjects, assessment: Assessment, summary: Summary) -> bool:
    lws, rollout = objects.lws, assessment.rollout
    stored, status = rollout.statefulset, lws.get("status") or {}
    if other_manager(lws):
        return conditions.is_true(status.get("conditions"), AVAILABLE)
    existing = stored.replicas if stored is not None else None
    if rollout.deployment is not None:
        existing = rollout.deployment.replicas
    if assessment.ownership != Ownership.OURS or existing is None or summary.unsettled:
        return False
    is_seen = int(status.get("observedGeneration") or 0) >= int(lws["metadata"].get("generation") or 0)
    is_in_place = len(rollout.groups) == existing == rollout.replicas
    # The status must report it too.
    return is_seen and is_in_place and conditions.is_true(status.get("conditions"), AVAILABLE)


def _waiting_for(objects: SetObjects, summary: Summary, blocked_by: str) -> str:
    if manager := other_manager(objects.lws):
        return f"{manager} to report in the status that it is done"
    planned, failure = plan(objects.snapshot).waiting_for, failure_of(objects.lws)
    if planned and not blocked_by:
        return planned
    if failure:
        return f"{_OBSTACLE}: {failure}"
    return _NEXT_STEP if summary.unsettled else _TO_REPORT


def _live_only(lws: Object, history: SetHistory) -> Iterator[str]:
    target = history.target
    if target is None:
        return
    template, recorded = lws["spec"]["leaderWorkerTemplate"], target.record.spec["leaderWorkerTemplate"]
    for key in NOT_IN_PODS:
        now, then = template.get(key), recorded.get(key)
        if now != then:
            yield (
                f"{key} is {_shown(now)}, revision {target.number} has recorded {_shown(then)}: in effect "
                f"here, but upstream would start a rollout"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {setting}" for key, setting in value.items())
    return "not set" if value is None else str(value)


def failure_of(obj: Object) -> str:
    """Return the failure that the controller reports in the status of a set of either kind; empty if none."""
    condition = conditions.find((obj.get("status") or {}).get("conditions"), REPLICA_FAILURE)
    if condition is None or condition.get("status") != "True":
        return ""
    return str(condition.get("message") or "")


def obstacle(group: GroupSnapshot | None, pods: Sequence[Object], size: int, unknown: str = "") -> str:
    """Return the worst problem of a group of `size` pods, of which `pods` exist, the leader first.

    unknown: message of the API server if the user may not read what the group waits for; empty otherwise.
    """
    return next(_obstacles(group, pods, size, unknown), "")


def _obstacles(group: GroupSnapshot | None, pods: Sequence[Object], size: int, unknown: str) -> Iterator[str]:
    for pod in pods:
        yield from _problems(pod)
    if unknown:
        yield f"what it waits for is unknown: {unknown}"
    plan = plan_group(group) if group is not None else None
    if plan is not None and plan.waiting_for:
        yield f"waits for {plan.waiting_for}"
    if len(pods) < size:
        missing = size - len(pods)
        yield f"{missing} pod{'' if missing == 1 else 's'} yet to be created"
    unready = [pod["metadata"]["name"] for pod in pods if not is_ready(pod)]
    if not unready:
        yield "StatefulSet controller has yet to report"
    elif unready != [pods[0]["metadata"]["name"]]:
        more = f" and {len(unready) - 1} more" if len(unready) > 1 else ""
        yield f"pod {unready[0]}{more} not ready"


def _problems(pod: Object) -> Iterator[str]:
    """Yield the problems of a pod that do not resolve by themselves."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if is_terminating(pod):
        yield f"pod {name} is being deleted"
    if status.get("phase") == "Failed":
        yield _short(
            f"pod {name} failed: {status.get('reason') or status.get('message') or 'no reason given'}"
        )
    scheduled = conditions.find(status.get("conditions"), "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        yield _short(f"pod {name} has no node: {scheduled.get('message') or scheduled.get('reason')}")
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason", "")
            # Every container waits for one of these reasons at first.
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                yield _short(
                    f"pod {name}, container {container['name']}: {reason} {waiting.get('message', '')}"
                )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


@dataclass(frozen=True, slots=True)
class ChildLine:
    """The state of one LeaderWorkerSet of a DisaggregatedSet. why: why it waits; empty if it does not."""

    facts: ChildFacts
    why: str


@dataclass(frozen=True, slots=True)
class RoleLine:
    """The state of one role over all slices.

    desired: number of groups; None if the scaler of the role is missing. ready, updated: numbers of ready
    groups on any revision and on the target revision, at most the desired number.
    """

    name: str
    desired: int | None
    ready: int
    updated: int


@dataclass(frozen=True, kw_only=True)
class DisaggregatedReport(SetState):
    """The state of a DisaggregatedSet. only_here: what upstream would do differently, one sentence each."""

    roles: tuple[RoleLine, ...]
    lines: tuple[ChildLine, ...]
    only_here: tuple[str, ...]

    @property
    def pending(self) -> list[str]:
        """Paths of edits that wait for the next revision, then all other pending work in words."""
        return list((self.obj.get("status") or {}).get("pending") or ())


def report_on_roles(snapshot: DisaggregatedSnapshot) -> DisaggregatedReport:
    obj, target = snapshot.obj, target_revision(snapshot)
    spec = parse(obj)
    planned, roles = roles_plan.plan(snapshot), tuple(_role_lines(snapshot, spec, target.key))
    is_settled = _are_roles_settled(snapshot, spec, target)
    waiting_for = planned.waiting_for
    if not waiting_for and any(planned.sequences):
        failure = failure_of(obj)
        waiting_for = f"{_OBSTACLE}: {failure}" if failure else _NEXT_STEP
    return DisaggregatedReport(
        obj=obj,
        now=snapshot.now,
        revisions=snapshot.revisions,
        key=target.key,
        replicas=sum(role.desired or 0 for role in roles),
        ready=sum(role.ready for role in roles),
        updated=sum(role.updated for role in roles),
        deadline=spec.progress_deadline,
        is_settled=is_settled,
        waiting_for="" if is_settled else waiting_for or _TO_REPORT,
        slices=spec.slices,
        roles=roles,
        lines=tuple(_child_lines(snapshot, target.key)),
        only_here=tuple(_only_here(obj, target)),
    )


def _role_lines(snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec, key: str) -> Iterator[RoleLine]:
    for name, desired in RoleTargets(snapshot, spec, key).in_all().items():
        children = [
            child for child in snapshot.children if child.role == name and child.slice_index < spec.slices
        ]
        ready = sum(child.ready for child in children)
        updated = sum(child.ready for child in children if child.key == key)
        yield RoleLine(name, desired, min(ready, desired or 0), min(updated, desired or 0))


def _are_roles_settled(
    snapshot: DisaggregatedSnapshot, spec: DisaggregatedSpec, target: TargetRevision
) -> bool:
    """Return whether everything matches the spec, and the status reports it too."""
    obj, status = snapshot.obj, snapshot.obj.get("status") or {}
    is_seen = int(status.get("observedGeneration") or 0) >= int(obj["metadata"].get("generation") or 0)
    if not is_seen or is_terminating(obj) or target.actions or snapshot.orphans:
        return False
    for child in snapshot.children:
        is_desired = child.key == target.key and child.slice_index < spec.slices and spec.role(child.role)
        if not is_desired or not child.is_settled or child.existing != child.desired:
            return False
    existing = {(child.slice_index, child.role) for child in snapshot.children}
    if len(existing) != spec.slices * len(spec.roles):
        return False
    desired = Counter[str]()
    for child in snapshot.children:
        desired[child.role] += child.desired
    # A scaler is read live, so it may request another number than the controller has seen.
    requested = RoleTargets(snapshot, spec, target.key).in_all()
    if any(desired[role] != count for role, count in requested.items()):
        return False
    return conditions.is_true(status.get("conditions"), AVAILABLE)


def _child_lines(snapshot: DisaggregatedSnapshot, key: str) -> Iterator[ChildLine]:
    order = sorted(snapshot.children, key=lambda child: (child.slice_index, child.key != key, child.key))
    for child in order:
        yield ChildLine(child, "; ".join(_reasons(child)))


def _reasons(child: ChildFacts) -> Iterator[str]:
    if child.is_terminating:
        yield "it is being deleted"
        return
    if child.present > child.desired:
        yield f"{child.present - child.desired} of its groups are still terminating"
    if child.ready < child.desired:
        yield f"{child.desired - child.ready} of its groups are not ready"
    if failure := failure_of(child.obj):
        yield failure


def _only_here(obj: Object, target: TargetRevision) -> Iterator[str]:
    """Yield how upstream differs: it hashes roles as they are written, so equivalent ones get another key."""
    if (computed := key_of(record(obj).roles)) != target.key and not target.is_new:
        yield (
            f"the roles run under key {target.key}; upstream would compute {computed} for them as they "
            f"are written now, and start a rollout"
        )


async def snapshot_of(session: Session, obj: Object) -> DisaggregatedSnapshot:
    """Read everything that belongs to a DisaggregatedSet."""
    namespace, name = readable(obj)["metadata"]["namespace"], obj["metadata"]["name"]
    store = Store(lambda before, after: None, [*SET_TABLES, *TABLES])
    store.put(obj)
    for kind in _ROLES_KINDS:
        for stored in await session.cluster.listed(kind, namespace, f"{ROLES_NAME_LABEL}={name}"):
            store.put(stored)
    owned = store.controlled_by(uid_of(obj), KIND)
    children = sorted(map(name_of, owned))
    kinds = ["StatefulSet", "Pod"]
    kinds += ["Deployment", "ReplicaSet"] if any(map(has_hash_groups, owned)) else []
    for start in range(0, len(children), _AT_ONCE):
        selector = f"{NAME_LABEL} in ({','.join(children[start : start + _AT_ONCE])})"
        for kind in kinds:
            for stored in await session.cluster.listed(kind, namespace, selector):
                store.put(stored)
    observer = DisaggregatedObserver(session.cluster, store, DisaggregatedMemory(store))
    snapshot = await observer.observe(namespace, name, session.now)
    if snapshot is None:
        raise Refusal(f"DisaggregatedSet {name} was deleted meanwhile")
    return snapshot


_STATES: Mapping[str, tuple[Callable[[Session, Object], Awaitable[Any]], Callable[[Any], SetState]]] = {
    KIND: (all_of, report_on),
    ROLES_KIND: (snapshot_of, report_on_roles),
}
"""How to read what belongs to a set of a kind, and how to report on it."""
