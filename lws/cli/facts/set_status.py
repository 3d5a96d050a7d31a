"""How does a set stand: each of its groups, and whether everything is as it asks?

In: everything that belongs to the set. Out: plain facts; how they look is another question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.actions import Object
from lws.cli.facts.ages import age
from lws.cli.facts.lookup import Found
from lws.cli.facts.revisions import Past, past_of
from lws.cli.facts.waiting import why_waiting
from lws.group.identity import group_size_of
from lws.kube import conditions
from lws.kube.metadata import controller_of, is_terminating, labels_of
from lws.kube.pods import is_ready
from lws.kube.statefulsets import wanted_replicas
from lws.leaderworkerset import spec
from lws.leaderworkerset.assessment import Assessment, assess
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.rollout.state import RolloutState
from lws.leaderworkerset.snapshot import GroupFacts
from lws.leaderworkerset.status.progress import LAST_PROGRESS
from lws.leaderworkerset.status.status import AVAILABLE
from lws.leaderworkerset.status.summary import Summary, summarise
from lws.leaderworkerset.templates.claims import claims_at_risk, risk_of_claims
from lws_api.leaderworkerset.v1 import REVISION_LABEL


@dataclass(frozen=True)
class GroupLine:
    """One group. workers: ready of all. why: it waits, empty if it does not."""

    index: int
    revision: str
    leader: str
    workers: tuple[int, int]
    age: str
    why: str
    is_settled: bool


@dataclass(frozen=True)
class Standing:
    """One set.

    groups: those wanted and those that there are besides. updated: ready ones on the wanted revision, of
    `replicas`. waiting_for: what has to happen next, in words; empty when the set is settled. live_only:
    settings in effect that no revision has recorded, a sentence each. at_risk: what may be lost, a sentence
    each.
    """

    found: Found
    past: Past
    assessment: Assessment
    groups: tuple[GroupLine, ...]
    is_settled: bool
    waiting_for: str
    live_only: tuple[str, ...]
    at_risk: tuple[str, ...]

    @property
    def replicas(self) -> int:
        return self.assessment.rollout.replicas

    @property
    def summary(self) -> Summary:
        """Groups by state, as they are now."""
        state = self.assessment.rollout
        return summarise(state.groups, state.replicas, state.floor, state.paused)

    @property
    def last_progress(self) -> str:
        """When the controller last saw it move (RFC 3339); empty where it has not."""
        return str((self.found.lws.get("status") or {}).get(LAST_PROGRESS) or "")

    @property
    def updated(self) -> int:
        return sum(state.settled for state in self.assessment.groups if state.index < self.replicas)


def standing_of(found: Found) -> Standing:
    """How the set stands."""
    past, assessment = past_of(found.snapshot, found.revisions), assess(found.snapshot)
    facts = {group.index: group for group in found.snapshot.groups}
    pods = _workers_by_group(found)
    settled = _is_settled(found, assessment.rollout)
    exposed = claims_at_risk(found.lws, (group.workers for group in found.snapshot.groups))
    return Standing(
        found=found,
        past=past,
        assessment=assessment,
        groups=tuple(
            _line(
                found,
                assessment.rollout,
                facts[index],
                revision_number(past, _key_of(facts[index])),
                pods[index],
            )
            if index in facts
            else GroupLine(index, "-", "Missing", (0, 0), "-", "leader pod yet to be created", False)
            for index in sorted({*range(assessment.rollout.replicas), *facts})
        ),
        is_settled=settled,
        waiting_for="" if settled else _waiting_for(found, assessment.rollout),
        live_only=tuple(_live_only(found.lws, past)),
        at_risk=(risk_of_claims(exposed),) if exposed else (),
    )


def revision_number(past: Past, key: str) -> str:
    """The number of the newest revision of that key; the key itself where none is recorded."""
    numbers = [each.number for each in past.recorded if each.key == key and key]
    return str(numbers[-1]) if numbers else key or "<none>"


def _line(
    found: Found, rollout: RolloutState, group: GroupFacts, revision: str, workers: list[Object]
) -> GroupLine:
    state = next(each for each in rollout.groups if each.index == group.index)
    known = found.groups.get(group.index)
    told = group_size_of(known.leader if known is not None else group.leader)
    size = told if told is not None else spec.size_of(found.lws)
    leader = found.pods.get(group.leader["metadata"]["name"], group.leader)
    why = why_waiting(rollout, state, found.groups.get(group.index), [leader, *workers], size)
    return GroupLine(
        index=group.index,
        revision=revision,
        leader=_phase(leader),
        workers=(sum(map(is_ready, workers)), size - 1),
        age=age(leader["metadata"].get("creationTimestamp"), found.snapshot.now),
        why=why,
        is_settled=state.settled,
    )


def _workers_by_group(found: Found) -> dict[int, list[Object]]:
    """Worker pods, whole, by the UID of the StatefulSet that is the group's own."""
    owners = {
        group.workers["metadata"]["uid"]: group.index
        for group in found.snapshot.groups
        if group.workers is not None
    }
    by_group: dict[int, list[Object]] = {group.index: [] for group in found.snapshot.groups}
    for _, pod in sorted(found.pods.items()):
        owner = controller_of(pod)
        index = owners.get(owner["uid"]) if owner is not None else None
        if index is not None:
            by_group[index].append(pod)
    return by_group


def _key_of(group: GroupFacts) -> str:
    return labels_of(group.leader).get(REVISION_LABEL, "")


def _phase(leader: Object) -> str:
    if is_terminating(leader):
        return "Terminating"
    phase = str((leader.get("status") or {}).get("phase") or "Pending")
    return "Ready" if phase == "Running" and is_ready(leader) else phase


def _is_settled(found: Found, rollout: RolloutState) -> bool:
    lws, leader = found.lws, found.snapshot.leader
    status = lws.get("status") or {}
    seen = int(status.get("observedGeneration") or 0)
    if leader is None or seen < int(lws["metadata"].get("generation") or 0) or rollout.outdated:
        return False
    settled = {state.index for state in rollout.groups if state.settled}
    settled |= {state.index for state in rollout.groups if state.ready and state.index in rollout.pinned}
    in_place = settled >= set(range(rollout.replicas)) and len(rollout.groups) == rollout.replicas
    # Whoever goes on from here will ask the status next.
    is_told = conditions.is_true(status.get("conditions"), AVAILABLE)
    return in_place and is_told and wanted_replicas(leader) == rollout.replicas


def _waiting_for(found: Found, rollout: RolloutState) -> str:
    said = plan(found.snapshot).waiting_for
    if said:
        return said
    if rollout.paused and rollout.outdated:
        return "the rollout to be resumed"
    if all(state.settled for state in rollout.groups):
        return "the controller to say in the status that all is done"
    return "the controller to take its next step"


def _live_only(lws: Object, past: Past) -> Iterator[str]:
    wanted = past.wanted
    if wanted is None:
        return
    template, recorded = lws["spec"]["leaderWorkerTemplate"], wanted.spec["leaderWorkerTemplate"]
    for key in ("restartPolicy", "persistentVolumeClaimRetentionPolicy"):
        now, then = template.get(key), recorded.get(key)
        if now != then:
            yield (
                f"{key} is {_shown(now)}, revision {wanted.number} has recorded {_shown(then)}: in effect "
                f"here, but the original controller would start a rollout over it"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return "not set" if value is None else str(value)
