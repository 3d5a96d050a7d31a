"""Collect the state of a set and of each of its groups, as plain facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lws.cli.facts.ages import age
from lws.cli.facts.lookup import SetObjects
from lws.cli.facts.revisions import Past, past_of
from lws.kube import conditions
from lws.kube.metadata import controller_of, is_terminating
from lws.kube.ownership import Ownership
from lws.kube.pods import is_ready
from lws.leaderworkerset.assessment.assessment import Assessment, assess
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.encoding import NOT_IN_PODS
from lws.leaderworkerset.status.progress import LAST_PROGRESS
from lws.leaderworkerset.status.status import AVAILABLE, REPLICA_FAILURE
from lws.leaderworkerset.status.summary import (
    READY,
    GroupStanding,
    Summary,
    group_standings,
    summarise,
    what_holds_up,
)
from lws.leaderworkerset.templates.claims import claims_at_risk, risk_of_claims
from lws.runtime.actions import Object


@dataclass(frozen=True)
class GroupLine:
    """One group. workers: ready of all. why: it waits, empty if it does not. pod, node: of its leader."""

    index: int
    revision: str
    leader: str
    workers: tuple[int, int]
    age: str
    why: str
    is_settled: bool
    pod: str = ""
    node: str = ""


@dataclass(frozen=True)
class StatusReport:
    """One set.

    groups: those wanted and those that there are besides. summary: of them by state. waiting_for: what has to
    happen next, in words; empty when the set is settled. live_only: settings in effect that no revision has
    recorded, a sentence each. at_risk: what may be lost, a sentence each.
    """

    objects: SetObjects
    past: Past
    assessment: Assessment
    groups: tuple[GroupLine, ...]
    summary: Summary
    is_settled: bool
    waiting_for: str
    live_only: tuple[str, ...]
    at_risk: tuple[str, ...]

    @property
    def replicas(self) -> int:
        return self.assessment.rollout.replicas

    @property
    def last_progress(self) -> str:
        """When the controller last saw it move (RFC 3339); empty where it has not."""
        return str((self.objects.lws.get("status") or {}).get(LAST_PROGRESS) or "")

    @property
    def ready(self) -> int:
        """Ready groups of `replicas`, on whatever revision."""
        return sum(state.ready for state in self.assessment.groups if state.index < self.replicas)

    @property
    def updated(self) -> int:
        """Wanted groups that are ready on the target revision."""
        return sum(line.is_settled for line in self.groups if line.index < self.replicas)


def report_on(objects: SetObjects) -> StatusReport:
    """How the set stands."""
    past, assessment = past_of(objects.snapshot, objects.revisions), assess(objects.snapshot)
    rollout = assessment.rollout
    held_up = what_holds_up(objects.name, failure_of(objects.lws))
    summary = summarise(rollout.groups, rollout.replicas, rollout.floor, rollout.paused, held_up)
    is_settled = _is_settled(objects, assessment, summary)
    exposed = claims_at_risk(objects.lws, (group.workers for group in objects.snapshot.groups))
    return StatusReport(
        objects=objects,
        past=past,
        assessment=assessment,
        groups=tuple(_lines(objects, past, group_standings(rollout, held_up))),
        summary=summary,
        is_settled=is_settled,
        waiting_for="" if is_settled else _waiting_for(objects, summary, held_up),
        live_only=tuple(_live_only(objects.lws, past)),
        at_risk=(risk_of_claims(exposed),) if exposed else (),
    )


def revision_number(past: Past, key: str) -> str:
    """The number of the newest revision of that key; the key itself where none is recorded."""
    numbers = [revision.number for revision in past.recorded if revision.key == key and key]
    return str(numbers[-1]) if numbers else key or "<none>"


def _lines(objects: SetObjects, past: Past, standings: Iterable[GroupStanding]) -> Iterator[GroupLine]:
    facts = {group.index: group for group in objects.snapshot.groups}
    owned: dict[str, list[Object]] = defaultdict(list)
    for _, pod in sorted(objects.pods.items()):
        owned[(controller_of(pod) or {}).get("uid", "")].append(pod)
    for standing in standings:
        group = facts.get(standing.index)
        if group is None:
            yield GroupLine(
                standing.index, "-", standing.state, (0, 0), "-", standing.reason, is_settled=False
            )
            continue
        leader = objects.pods.get(group.leader["metadata"]["name"], group.leader)
        workers = owned[group.workers["metadata"]["uid"]] if group.workers is not None else []
        snapshot = objects.groups.get(standing.index)
        size = snapshot.size if snapshot is not None else objects.snapshot.spec.size
        unknown = objects.unknown.get(standing.index, "")
        detail = obstacle(snapshot, [leader, *workers], size, unknown) if standing.lacks_pods else ""
        yield GroupLine(
            index=standing.index,
            revision=revision_number(past, group.leader_key or ""),
            leader=_phase(leader),
            workers=(sum(map(is_ready, workers)), size - 1),
            age=age(leader["metadata"].get("creationTimestamp"), objects.snapshot.now),
            why="; ".join(filter(None, (standing.reason, detail))),
            is_settled=standing.state == READY,
            pod=leader["metadata"]["name"],
            node=str(leader["spec"].get("nodeName") or ""),
        )


def _phase(leader: Object) -> str:
    if is_terminating(leader):
        return "Terminating"
    phase = str((leader.get("status") or {}).get("phase") or "Pending")
    return "Ready" if phase == "Running" and is_ready(leader) else phase


def _is_settled(objects: SetObjects, assessment: Assessment, summary: Summary) -> bool:
    lws, rollout = objects.lws, assessment.rollout
    stored, status = rollout.statefulset, lws.get("status") or {}
    if assessment.ownership != Ownership.OURS or stored is None or summary.unsettled:
        return False
    is_seen = int(status.get("observedGeneration") or 0) >= int(lws["metadata"].get("generation") or 0)
    is_in_place = len(rollout.groups) == stored.replicas == rollout.replicas
    # Its status is the next thing one would ask for.
    return is_seen and is_in_place and conditions.is_true(status.get("conditions"), AVAILABLE)


def _waiting_for(objects: SetObjects, summary: Summary, held_up: str) -> str:
    planned, failure = plan(objects.snapshot).waiting_for, failure_of(objects.lws)
    if planned and not held_up:
        return planned
    if failure:
        return f"{WAY_TO_BE_CLEAR}: {failure}"
    if not summary.unsettled:
        return "the controller to say in the status that all is done"
    return "the controller to take its next step"


def _live_only(lws: Object, past: Past) -> Iterator[str]:
    wanted = past.wanted
    if wanted is None:
        return
    template, recorded = lws["spec"]["leaderWorkerTemplate"], wanted.spec["leaderWorkerTemplate"]
    for key in NOT_IN_PODS:
        now, then = template.get(key), recorded.get(key)
        if now != then:
            yield (
                f"{key} is {_shown(now)}, revision {wanted.number} has recorded {_shown(then)}: in effect "
                f"here, but the original controller would start a rollout over it"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {setting}" for key, setting in value.items())
    return "not set" if value is None else str(value)


WAY_TO_BE_CLEAR = "what is in the way to go"
_LONGEST = 100


def failure_of(obj: Object) -> str:
    """What the controller says in the status that it cannot do, or that does not get its pods; of a
    LeaderWorkerSet or a DisaggregatedSet.
    """
    condition = conditions.find((obj.get("status") or {}).get("conditions"), REPLICA_FAILURE)
    if condition is None or condition.get("status") != "True":
        return ""
    return str(condition.get("message") or "")


def obstacle(group: GroupSnapshot | None, pods: Sequence[Object], size: int, unknown: str = "") -> str:
    """The worst one. pods: of the group, the leader first. size: pods of the group when it is complete.
    unknown: what the API server says against showing what the group waits for; empty if it does not.
    """
    return next(_obstacles(group, pods, size, unknown), "")


def _obstacles(group: GroupSnapshot | None, pods: Sequence[Object], size: int, unknown: str) -> Iterator[str]:
    for pod in pods:
        yield from _troubles(pod)
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


def _troubles(pod: Object) -> Iterator[str]:
    """What will not pass by itself."""
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
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason", "")
            # These two are how every container begins.
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                yield _short(
                    f"pod {name}, container {container['name']}: {reason} {waiting.get('message', '')}"
                )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
