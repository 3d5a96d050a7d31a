"""How does a set stand, at one look: its groups, its rollout, what it waits for?

In: everything that belongs to the set. Out: blocks to show, plain data for `-o`, and whether it is settled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lws.actions import Object
from lws.cli.ages import age
from lws.cli.lookup import Found
from lws.cli.past import Past
from lws.cli.prospect import Prospect
from lws.cli.view import Bar, Block, Table, Text, row
from lws.cli.waiting import why_waiting
from lws.kube.metadata import annotations_of, controller_of, is_terminating, labels_of
from lws.kube.pods import is_ready
from lws.kube.statefulsets import wanted_replicas
from lws.leaderworkerset import spec
from lws.leaderworkerset.groups import GroupState
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions import Recorded
from lws_api.leaderworkerset.v1 import REVISION_LABEL, SIZE_ANNOTATION

_STYLES = {"True": "green", "False": "", "Unknown": "yellow"}


@dataclass(frozen=True)
class GroupLine:
    """One row of the table. workers: ready of all. why: it waits, empty if it does not."""

    index: int
    revision: str
    leader: str
    workers: tuple[int, int]
    age: str
    why: str
    is_settled: bool


@dataclass(frozen=True)
class Standing:
    """waiting_for: what has to happen next, in words; empty when the set is settled."""

    groups: tuple[GroupLine, ...]
    updated: int
    replicas: int
    is_settled: bool
    waiting_for: str


def standing(found: Found, past: Past, prospect: Prospect) -> Standing:
    """The facts; how they look is another question."""
    now = found.snapshot.now
    states = {state.index: state for state in prospect.groups}
    pods = _pods_by_group(found)
    lines = tuple(
        _line(found, past, prospect, states.get(index), pods.get(index, []), index, now)
        for index in sorted({*range(prospect.replicas), *states})
    )
    settled = _is_settled(found, prospect)
    return Standing(
        groups=lines,
        updated=sum(state.settled for state in prospect.groups if state.index < prospect.replicas),
        replicas=prospect.replicas,
        is_settled=settled,
        waiting_for="" if settled else _waiting_for(found, prospect),
    )


def status_blocks(found: Found, past: Past, prospect: Prospect, facts: Standing) -> Iterator[Block]:
    """What is shown."""
    lws, now = found.lws, found.snapshot.now
    yield Text(f"LeaderWorkerSet {lws['metadata']['namespace']}/{found.name}", "bold")
    yield Bar(facts.updated, facts.replicas, f"groups ready on {_revision(past, prospect.key)}")
    if prospect.is_paused:
        yield Text("paused: no group is updated before `resume`", "yellow")
    for line in live_only(lws, past.wanted):
        yield Text(line, "yellow")
    if facts.groups:
        yield Text("")
        yield _group_table(facts)
    conditions = (lws.get("status") or {}).get("conditions") or ()
    if conditions:
        yield Text("")
        yield _condition_table(conditions, now)
    yield Text("")
    yield _last_line(facts)


def status_data(found: Found, past: Past, prospect: Prospect, facts: Standing) -> dict[str, Any]:
    """The same as data."""
    return {
        "name": found.name,
        "namespace": found.lws["metadata"]["namespace"],
        "settled": facts.is_settled,
        "waitingFor": facts.waiting_for,
        "paused": prospect.is_paused,
        "key": prospect.key,
        "revision": past.wanted.number if past.wanted is not None else None,
        "replicas": facts.replicas,
        "updatedAndReady": facts.updated,
        "groups": [
            {
                "index": line.index,
                "revision": line.revision,
                "leader": line.leader,
                "workersReady": line.workers[0],
                "workers": line.workers[1],
                "why": line.why,
            }
            for line in facts.groups
        ],
        "conditions": list((found.lws.get("status") or {}).get("conditions") or ()),
    }


def progress_line(facts: Standing) -> Text:
    """One line for those who follow along without a terminal."""
    return Text(f"{facts.updated} of {facts.replicas} groups are updated and ready: {_last_line(facts).text}")


def live_only(lws: Object, wanted: Recorded | None) -> Iterator[str]:
    """Settings that took effect at once and are not what the revision has recorded."""
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


def _line(
    found: Found,
    past: Past,
    prospect: Prospect,
    state: GroupState | None,
    pods: list[Object],
    index: int,
    now: datetime,
) -> GroupLine:
    if state is None:
        return GroupLine(index, "-", "Missing", (0, 0), "-", "leader pod yet to be created", False)
    leader = next(group.leader for group in found.snapshot.groups if group.index == index)
    size = int(annotations_of(leader).get(SIZE_ANNOTATION) or spec.size_of(found.lws))
    whole = [pod for pod in pods if pod["metadata"]["uid"] == leader["metadata"]["uid"]]
    workers = [pod for pod in pods if pod["metadata"]["uid"] != leader["metadata"]["uid"]]
    group = found.groups.get(index)
    return GroupLine(
        index=index,
        revision=_revision_number(past, labels_of(leader).get(REVISION_LABEL, "")),
        leader=_phase(whole[0] if whole else leader),
        workers=(sum(map(is_ready, workers)), size - 1),
        age=age(leader["metadata"].get("creationTimestamp"), now),
        why=why_waiting(prospect, state, group, [*whole, *workers], size),
        is_settled=state.settled,
    )


def _pods_by_group(found: Found) -> dict[int, list[Object]]:
    """Pods of each group, the leader first, by the UIDs of their owners."""
    owners: dict[str, int] = {}
    by_group: dict[int, list[Object]] = {}
    for group in found.snapshot.groups:
        name = group.leader["metadata"]["name"]
        by_group[group.index] = [found.pods[name]] if name in found.pods else []
        if group.workers is not None:
            owners[group.workers["metadata"]["uid"]] = group.index
    for _, pod in sorted(found.pods.items()):
        owner = controller_of(pod)
        index = owners.get(owner["uid"]) if owner is not None else None
        if index is not None:
            by_group[index].append(pod)
    return by_group


def _phase(leader: Object) -> str:
    if is_terminating(leader):
        return "Terminating"
    phase = str((leader.get("status") or {}).get("phase") or "Pending")
    return "Ready" if phase == "Running" and is_ready(leader) else phase


def _revision(past: Past, key: str) -> str:
    number = _revision_number(past, key)
    return f"revision {number} ({key})" if number != key else f"key {key}"


def _revision_number(past: Past, key: str) -> str:
    """The number of the newest revision of that key; the key itself where none is recorded."""
    numbers = [each.number for each in past.recorded if each.key == key and key]
    return str(numbers[-1]) if numbers else key or "<none>"


def _is_settled(found: Found, prospect: Prospect) -> bool:
    lws, leader = found.lws, found.snapshot.leader
    seen = int((lws.get("status") or {}).get("observedGeneration") or 0)
    if leader is None or seen < int(lws["metadata"].get("generation") or 0) or prospect.outdated:
        return False
    settled = {state.index for state in prospect.groups if state.settled}
    settled |= {state.index for state in prospect.groups if state.ready and state.index in prospect.held}
    in_place = settled >= set(range(prospect.replicas)) and len(prospect.groups) == prospect.replicas
    return in_place and wanted_replicas(leader) == prospect.replicas


def _waiting_for(found: Found, prospect: Prospect) -> str:
    said = plan(found.snapshot).waiting_for
    if said:
        return said
    if prospect.is_paused and prospect.outdated:
        return "the rollout to be resumed"
    return "the controller to take its next step"


def _group_table(facts: Standing) -> Table:
    rows = tuple(
        row(
            str(line.index),
            line.revision,
            Text(line.leader, "green" if line.leader == "Ready" else "yellow"),
            Text(
                f"{line.workers[0]}/{line.workers[1]}",
                "green" if line.workers[0] == line.workers[1] else "yellow",
            ),
            line.age,
            Text(line.why, "" if line.is_settled else "yellow"),
        )
        for line in facts.groups
    )
    return Table(("GROUP", "REVISION", "LEADER", "WORKERS", "AGE", "WAITING"), rows)


def _condition_table(conditions: Any, now: datetime) -> Table:
    rows = tuple(
        row(
            each["type"],
            Text(each["status"], _STYLES.get(each["status"], "")),
            each.get("reason", ""),
            age(each.get("lastTransitionTime"), now),
            each.get("message", ""),
        )
        for each in conditions
    )
    return Table(("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def _last_line(facts: Standing) -> Text:
    if facts.is_settled:
        return Text("settled", "green")
    return Text(f"waits for {facts.waiting_for}", "yellow")
