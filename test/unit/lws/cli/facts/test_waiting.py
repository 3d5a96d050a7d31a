"""lws.cli.facts.waiting: why a group is not where it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.cli.facts.waiting import why_waiting
from lws.group.snapshot import GroupSnapshot
from lws.leaderworkerset.assessment import assess
from lws.leaderworkerset.rollout.groups import GroupState
from lws.leaderworkerset.rollout.state import RolloutState
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_pod
from test.unit.lws.cli.histories import revision_of, sets, snapshot_of

A, B = sets("app:1", "app:2", replicas=3)
HELD = make_set(image="app:2", replicas=3, partition=2)
PAUSED = make_set(image="app:2", replicas=3, rolloutStrategy={"paused": True})
SETTLED = GroupState(0, ready=True, leader_ready=True)
UNREADY = GroupState(0)
OUTDATED = replace(SETTLED, outdated=True)


def rollout(lws: dict[str, Any] = B) -> RolloutState:
    return assess(snapshot_of(lws, [revision_of(A, 1), revision_of(B, 2)], [A, A, A])).rollout


def waiting_container(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}


def test_nothing_to_wait_for() -> None:
    assert why_waiting(rollout(), SETTLED, None, [], 2) == ""


@pytest.mark.parametrize(
    ("lws", "state", "why"),
    [
        (B, OUTDATED, "its turn in the rollout"),
        (B, replace(OUTDATED, terminating=True), "being replaced: its pods are on their way out"),
        (HELD, OUTDATED, "keeps its revision: the partition is 2"),
        (PAUSED, OUTDATED, "the rollout is paused"),
        (B, replace(OUTDATED, index=3), "goes when the rollout is done"),
    ],
)
def test_outdated(lws: dict[str, Any], state: GroupState, why: str) -> None:
    assert why_waiting(rollout(lws), state, None, [], 2) == why


@pytest.mark.parametrize(
    ("leader", "why"),
    [
        ({"status": waiting_container("ImagePullBackOff", "no such\n image")},
         "pod demo-0, container main: ImagePullBackOff no such image"),
        ({"status": waiting_container("ContainerCreating")}, "pod demo-0 not ready"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "pod demo-0 failed: Evicted"),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/8 nodes"}]}},
         "pod demo-0 has no node: 0/8 nodes"),
        ({}, "pod demo-0 not ready"),
    ],
)  # fmt: skip
def test_a_leader_that_is_not_ready(leader: dict[str, Any], why: str) -> None:
    pods = [make_leader_pod(A, ready=False, **leader), make_worker_pod()]
    assert why_waiting(rollout(), UNREADY, None, pods, 2) == why


def test_workers() -> None:
    leader = make_leader_pod(A)
    going = make_worker_pod(terminating=True)
    assert why_waiting(rollout(), UNREADY, None, [leader, going], 2) == "pod demo-0-1 is being deleted"
    assert why_waiting(rollout(), UNREADY, None, [leader], 4) == "3 pods yet to be created"
    assert why_waiting(rollout(), UNREADY, None, [leader], 2) == "1 pod yet to be created"
    unready = [make_worker_pod(index=index, ready=False) for index in (1, 2, 3)]
    why = why_waiting(rollout(), UNREADY, None, [leader, *unready], 4)
    assert why == "pod demo-0-1 and 2 more not ready"


def test_pods_are_ready_and_nobody_has_said_so_yet() -> None:
    pods = [make_leader_pod(A), make_worker_pod()]
    assert why_waiting(rollout(), UNREADY, None, pods, 2) == "StatefulSet controller has yet to report"


def test_what_the_controller_waits_for() -> None:
    lws = make_set(image="app:1", replicas=3, startupPolicy="LeaderReady")
    leader = make_leader_pod(lws, ready=False)
    revision = snapshot_of(lws, [revision_of(lws, 1)]).revisions[0]
    group = GroupSnapshot(lws=lws, leader=leader, now=NOW, revision=revision)
    why = why_waiting(rollout(lws), UNREADY, group, [leader], 2)
    assert why == "waits for the leader pod to be ready (startupPolicy LeaderReady)"


def test_long_messages_are_cut() -> None:
    pods = [make_leader_pod(A, ready=False, status=waiting_container("ErrImagePull", "x" * 500))]
    why = why_waiting(rollout(), UNREADY, None, pods, 2)
    assert (len(why), why[-1]) == (100, "…")
