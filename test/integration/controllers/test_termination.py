"""With podTerminationPolicy Parallel, the workers of a deleted leader are terminated together with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import POD_TERMINATION_POLICY_ANNOTATION, WORKER_INDEX_LABEL
from test.harness.drains import evict
from test.harness.following import Frame
from test.harness.groups import annotations_of, labels_of, name_of, pod_uids, pods_of, settle
from test.harness.history import History
from test.harness.manifests import a_set, new_image, pod_template, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World

SLOW = pod_template(annotations={"localcluster/stops-after": "3"})
PARALLEL: dict[str, Any] = {"podTerminationPolicy": "Parallel"}
NAME = "end"
Action = Callable[[World], None]


def delete_the_leader(world: World) -> None:
    world.delete("Pod", leader_of(world))


def drain_the_leader(world: World) -> None:
    assert evict(world, leader_of(world))


def scale_down(world: World) -> None:
    world.patch(SET, NAME, scaled_to(0))


def delete_the_set(world: World) -> None:
    world.delete(SET, NAME)


def roll_out(world: World) -> None:
    world.patch(SET, NAME, new_image("server:2"))


def leader_of(world: World) -> str:
    (leader,) = (pod for pod in pods_of(world, NAME) if is_leader(pod))
    return name_of(leader)


def is_leader(pod: dict[str, Any]) -> bool:
    return labels_of(pod)[WORKER_INDEX_LABEL] == "0"


def are_terminated_together(frames: list[Frame], former: set[str]) -> bool:
    """Report whether the leader still existed when the last of its workers was terminated."""

    def is_together(frame: Frame) -> bool:
        pods = [pod for pod in frame.values() if pod["metadata"]["uid"] in former]
        return len(pods) == len(former) and all("deletionTimestamp" in pod["metadata"] for pod in pods)

    return any(is_together(frame) for frame in frames)


def wait_until_gone(world: World, former: set[str]) -> None:
    eventually(
        "all former pods are gone", lambda: set(pod_uids(world, NAME).values()), lambda now: not now & former
    )


@pytest.mark.parametrize("action", [delete_the_leader, drain_the_leader, scale_down, delete_the_set])
@pytest.mark.parametrize("identity", ["Ordinal", "Hash"])
def test_workers_are_terminated_with_their_leader(world: World, action: Action, identity: str) -> None:
    world.create(a_set(NAME, 1, 3, workers=SLOW, groupIdentity=identity, **PARALLEL))
    settle(world, NAME)
    history, former = History(world, NAME), set(pod_uids(world, NAME).values())

    action(world)
    wait_until_gone(world, former)

    assert are_terminated_together(history.pods(), former)
    if action in (delete_the_leader, drain_the_leader):
        settle(world, NAME)
        assert len(pods_of(world, NAME)) == 3
        if identity == "Ordinal":
            assert history.early_workers() == []


@pytest.mark.parametrize("action", [delete_the_leader, delete_the_set])
def test_workers_are_terminated_after_their_leader_by_default(world: World, action: Action) -> None:
    world.create(a_set(NAME, 1, 3, workers=SLOW, podTerminationPolicy="Default"))
    settle(world, NAME)
    history, former = History(world, NAME), set(pod_uids(world, NAME).values())
    action(world)
    wait_until_gone(world, former)
    assert not are_terminated_together(history.pods(), former)


def test_a_rollout_terminates_all_pods_of_a_hash_group_at_once(world: World) -> None:
    world.create(a_set(NAME, 1, 3, workers=SLOW, groupIdentity="Hash", **PARALLEL))
    settle(world, NAME)
    history, former = History(world, NAME), set(pod_uids(world, NAME).values())
    roll_out(world)
    wait_until_gone(world, former)
    settle(world, NAME)
    assert are_terminated_together(history.pods(), former)


def test_a_changed_policy_touches_no_pod_and_outlives_the_set(world: World) -> None:
    world.create(a_set(NAME, 1, 3, workers=SLOW))
    settle(world, NAME)
    before = pod_uids(world, NAME)
    world.patch(SET, NAME, {"spec": PARALLEL})

    def noted() -> str | None:
        return annotations_of(world.get("StatefulSet", f"{NAME}-0")).get(POD_TERMINATION_POLICY_ANNOTATION)

    eventually("the worker StatefulSet has the annotation", noted, lambda note: note == "Parallel")
    settle(world, NAME)
    assert pod_uids(world, NAME) == before
    history = History(world, NAME)
    delete_the_set(world)
    wait_until_gone(world, set(before.values()))
    assert are_terminated_together(history.pods(), set(before.values()))
