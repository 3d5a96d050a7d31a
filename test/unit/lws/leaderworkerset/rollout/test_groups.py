"""Tests of how groups and the leader StatefulSet are read from their objects."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws import timing
from lws.kube.conditions import timestamp
from lws.kube.pods import NodeWait
from lws.leaderworkerset.rollout.groups import (
    DesiredGroups,
    GroupState,
    LeaderStatefulSet,
    group_states,
    leader_statefulset,
)
from lws.leaderworkerset.snapshot import GroupFacts
from test.unit.builders import (
    KEY,
    NOW,
    make_group,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_statefulset,
    statefulset_revision,
)

DESIRED = DesiredGroups(KEY, {KEY: 2, "key-old": 2}, statefulset_revision("demo", KEY))


def state_of(facts: GroupFacts, desired: DesiredGroups = DESIRED) -> GroupState:
    (state,) = group_states([facts], desired)
    return state


def group_with(workers: dict[str, Any], leader: dict[str, Any] | None = None) -> GroupFacts:
    leader = leader if leader is not None else make_leader_pod()
    return GroupFacts(0, leader, make_worker_statefulset(leader, **workers))


def test_a_settled_group() -> None:
    state = state_of(make_group(index=3))
    assert state == GroupState(index=3, ready=True, leader_ready=True)
    assert state.updated and state.settled and not state.broken and not state.serves_outdated


@pytest.mark.parametrize(
    ("facts", "leader_ready"),
    [
        pytest.param(make_group(ready=False), False, id="leader not ready"),
        pytest.param(make_group(phase="Pending"), False, id="leader pending"),
        pytest.param(make_group(phase="Failed"), False, id="leader failed"),
        pytest.param(
            make_group(terminating=True), False, id="leader terminating, although Running and Ready"
        ),
        pytest.param(
            replace(make_group(), is_being_deleted=True),
            False,
            id="leader being deleted by a pass at this moment",
        ),
        pytest.param(make_group(workers_ready=False), True, id="workers not available"),
        pytest.param(make_group(workers=False), True, id="workers missing"),
        pytest.param(
            group_with({"generation": 2, "observed_generation": 1}), True, id="workers not observed"
        ),
        pytest.param(
            group_with({"status": {"updateRevision": "other"}}), True, id="workers between revisions"
        ),
    ],
)
def test_not_ready(facts: GroupFacts, leader_ready: bool) -> None:
    state = state_of(facts)
    assert (state.ready, state.settled, state.leader_ready) == (False, False, leader_ready)
    assert not state.broken, "a group on the target revision is given time"


@pytest.mark.parametrize(
    ("facts", "outdated", "updated"),
    [
        pytest.param(make_group(), False, True, id="target key"),
        pytest.param(make_group(key="key-old"), True, False, id="leader on another key"),
        pytest.param(group_with({"key": "key-old"}), True, False, id="workers on another key"),
        pytest.param(
            make_group(workers=False), False, False, id="workers to come: neither outdated nor updated"
        ),
        pytest.param(make_group(key="key-old", workers=False), True, False, id="old leader without workers"),
    ],
)
def test_revision(facts: GroupFacts, outdated: bool, updated: bool) -> None:
    state = state_of(facts)
    assert (state.outdated, state.updated) == (outdated, updated)


@pytest.mark.parametrize(
    ("facts", "broken", "serves"),
    [
        pytest.param(make_group(key="key-old"), False, True, id="healthy"),
        pytest.param(make_group(key="key-old", ready=False), True, False, id="leader not ready"),
        pytest.param(make_group(key="key-old", workers_ready=False), True, False, id="workers not ready"),
        pytest.param(make_group(key="key-old", terminating=True), False, False, id="terminating"),
    ],
)
def test_outdated_groups(facts: GroupFacts, broken: bool, serves: bool) -> None:
    state = state_of(facts)
    assert (state.broken, state.serves_outdated) == (broken, serves)


def test_each_group_is_measured_by_the_size_of_its_own_revision() -> None:
    single = make_set(size=1)
    desired = DesiredGroups(KEY, {KEY: 2, "key-old": 1})
    assert state_of(make_group(single, key="key-old"), desired).ready, "an old group of one needs no workers"
    assert not state_of(make_group(single), desired).ready, "a new one does"
    grown = DesiredGroups(KEY, {KEY: 1, "key-old": 2})
    assert not state_of(make_group(key="key-old", workers=False), grown).ready
    assert state_of(make_group(workers=False), grown).settled


def test_surplus_workers_of_a_group_of_one_are_ignored() -> None:
    desired = DesiredGroups(KEY, {KEY: 1})
    assert state_of(group_with({"key": "key-old", "ready": False}), desired).settled


@pytest.mark.parametrize(
    ("annotations", "ready"),
    [
        ({"leaderworkerset.sigs.k8s.io/size": "1"}, True),
        ({"leaderworkerset.sigs.k8s.io/size": "many"}, False),
    ],
)
def test_the_size_of_a_lost_revision_is_read_from_the_leader(
    annotations: dict[str, str], ready: bool
) -> None:
    leader = make_leader_pod(key="key-lost", annotations=annotations)
    assert state_of(GroupFacts(0, leader)).ready is ready


@pytest.mark.parametrize(
    ("revision", "replaceable"),
    [
        pytest.param(statefulset_revision("demo", KEY), False, id="on the update revision"),
        pytest.param("demo-other", True, id="on another"),
        pytest.param("", True, id="unknown"),
    ],
)
def test_replaceable(revision: str, replaceable: bool) -> None:
    assert state_of(make_group(revision=revision)).replaceable is replaceable


def test_a_state_is_cached_until_the_desired_groups_change() -> None:
    facts = make_group()
    (first,) = group_states([facts], DESIRED)
    assert group_states([facts], replace(DESIRED))[0] is first
    for desired in (
        replace(DESIRED, key="key-b"),
        replace(DESIRED, update_revision="another"),
        replace(DESIRED, size_of={KEY: 1}),
    ):
        (recomputed,) = group_states([facts], desired)
        assert recomputed == group_states([replace(facts)], desired)[0]
        assert group_states([facts], DESIRED) == (first,)


def test_passes_over_a_set_and_over_its_group_do_not_evict_each_others_states() -> None:
    """The two passes judge a group by different facts."""
    facts, of_group = make_group(), replace(DESIRED, update_revision="")
    former = [*group_states([facts], DESIRED), *group_states([facts], of_group)]
    again = [*group_states([facts], DESIRED), *group_states([facts], of_group)]
    assert all(one is two for one, two in zip(former, again, strict=True))


def test_a_group_may_wait_for_a_node() -> None:
    group = make_group()
    waits = (NodeWait(NOW), NodeWait(NOW, until=NOW), NodeWait(NOW, gate="x"))
    for wait, is_waiting in zip(waits, (True, False, False), strict=True):
        (state,) = group_states([replace(group, waits=(wait,))], DesiredGroups("k", {}))
        assert state.unscheduled == is_waiting


def test_a_leader_may_wait_for_a_gate() -> None:
    leader = make_leader_pod(phase="Pending", ready=False)
    leader["spec"] = {
        **leader.get("spec", {}),
        "schedulingGates": [{"name": "example.com/quota"}, {"name": "b"}],
    }
    assert state_of(GroupFacts(0, leader)).gate == "example.com/quota"
    assert state_of(GroupFacts(0, make_leader_pod())).gate == ""


def test_groups_are_sorted_by_index() -> None:
    states = group_states([make_group(index=index) for index in (10, 2, 0)], DESIRED)
    assert [state.index for state in states] == [0, 2, 10]


def test_position_at_rest() -> None:
    position = leader_statefulset(make_leader_statefulset(make_set(replicas=3)), KEY, NOW)
    assert position == LeaderStatefulSet(replicas=3, partition=0, last_replicas=3)


@pytest.mark.parametrize(
    ("value", "read"), [("4", 4), (None, None), ("", None), ("-1", None), ("4x", None), ("٤", None)]
)
def test_an_invalid_replicas_annotation_is_ignored(value: str | None, read: int | None) -> None:
    assert leader_statefulset(make_leader_statefulset(last_replicas=value), KEY, NOW).last_replicas == read


def test_position_mid_rollout() -> None:
    stored = make_leader_statefulset(key="key-old", replicas=5, partition=3, max_unavailable=2, generation=7)
    position = leader_statefulset(stored, KEY, NOW)
    assert position == LeaderStatefulSet(5, 3, last_replicas=2, is_current=False, max_unavailable=2)


@pytest.mark.parametrize(
    ("observed", "age", "expected"),
    [
        pytest.param(2, timedelta(0), (True, False), id="has reported"),
        pytest.param(1, timedelta(seconds=1), (False, True), id="just written, a report is due"),
        pytest.param(1, timing.REPORT_WITHIN, (False, False), id="the report is overdue"),
        pytest.param(0, timedelta(seconds=1), (False, True), id="just created: it has adopted nothing yet"),
        pytest.param(1, None, (False, False), id="the time of the write is unknown"),
    ],
)
def test_observed_and_awaited_reports(
    observed: int, age: timedelta | None, expected: tuple[bool, bool]
) -> None:
    stored = make_leader_statefulset(
        generation=2, observed_generation=observed, applied=None if age is None else timestamp(NOW - age)
    )
    position = leader_statefulset(stored, KEY, NOW)
    assert (position.observed, position.awaited) == expected
