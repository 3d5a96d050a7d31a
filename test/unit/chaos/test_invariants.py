"""test.integration.chaos.invariants: each violation is found, and correct runs pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from test.harness.audit import MANAGER
from test.integration.chaos.invariants import STATEFULSET_CONTROLLER, fewest_ready, writes_out_of_turn
from test.integration.chaos.record import LEASES, PODS, Entry
from test.unit.chaos.played import BEGAN, KUBELET, USER, WAITING, Played

RESTARTED = {"containerStatuses": [{"restartCount": 1}]}


def rollout(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=4)
    for group in (3, 2, 1, 0):
        played.delete(MANAGER, f"web-{group}")
        played.apply_statefulset("new", replicas=4, partition=group)
        played.delete(KUBELET, f"web-{group}-1", grace=0)
        played.delete(KUBELET, f"web-{group}", grace=0)
        played.create_group(group, "new", generation=2)
        played.wait(2)


def rollout_by_the_statefulset_controller(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=3)
    played.replace(STATEFULSET_CONTROLLER, 3, "new")


def lost_worker(played: Played) -> None:
    played.delete(USER, "web-1-1", grace=0)
    played.create_worker(1, "old", uid="another")
    played.replace(MANAGER, 1, "old")


def restarted_container(played: Played) -> None:
    played.set_status("web-2-1", **RESTARTED)
    played.replace(MANAGER, 2, "old")


def failed_worker(played: Played) -> None:
    played.set_status("web-2-1", phase="Failed", conditions=[])
    played.delete(STATEFULSET_CONTROLLER, "web-2-1", grace=0)
    played.replace(MANAGER, 2, "old")


def unobserved_loss(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=4)
    played.wait(5)
    played.delete(USER, "web-0")
    played.delete(MANAGER, "web-3")


def worker_recreated_while_terminating(played: Played) -> None:
    played.delete(USER, "web-1-1", grace=0)
    played.delete(MANAGER, "web-1")
    played.create_worker(1, "old", uid="late")
    played.delete(KUBELET, "web-1", grace=0)
    played.create_group(1, "old", generation=2)


def failed_leader_also_deleted_by_kubernetes(played: Played) -> None:
    played.set_status("web-3", phase="Failed", conditions=[])
    played.delete(MANAGER, "web-3")
    played.delete(STATEFULSET_CONTROLLER, "web-3", grace=0)
    played.create_leader(3, "old", generation=2, is_gated=True)
    played.delete(KUBELET, "web-3-1", grace=0)
    played.create_group(3, "old", generation=2)


def gated_leader(played: Played, waits: bool = True) -> None:
    played.apply_statefulset("new", replicas=4, partition=3)
    played.delete(MANAGER, "web-3")
    played.delete(KUBELET, "web-3", grace=0)
    played.create_leader(3, "new", generation=2, is_gated=True)
    if waits:
        played.delete(KUBELET, "web-3-1", grace=0)
    played.create_group(3, "new", generation=2)


def worker_that_waits_to_return(played: Played) -> None:
    played.delete(USER, "web-1", grace=0)
    played.delete(KUBELET, "web-1-1", grace=0)
    played.create_leader(1, "old", generation=2)
    played.create_worker_statefulset(1, generation=2)
    played.create_worker(1, "old", generation=2, extra=WAITING)
    played.delete(MANAGER, "web-1-1", grace=0)
    played.create_worker(1, "old", generation=2, uid="elsewhere")


def leader_that_waits_to_return(played: Played) -> None:
    played.delete(USER, "web-1", grace=0)
    played.delete(KUBELET, "web-1-1", grace=0)
    played.create_leader(1, "old", generation=2, extra=WAITING)
    played.delete(MANAGER, "web-1", grace=0)
    played.create_group(1, "old", generation=3)


def group_recreated_for_a_worker_that_waited(played: Played) -> None:
    worker_that_waits_to_return(played)
    played.replace(MANAGER, 1, "old", generation=3)


@pytest.mark.parametrize(
    "story",
    [
        worker_that_waits_to_return,
        leader_that_waits_to_return,
        gated_leader,
        failed_leader_also_deleted_by_kubernetes,
        worker_recreated_while_terminating,
        rollout,
        rollout_by_the_statefulset_controller,
        lost_worker,
        restarted_container,
        failed_worker,
        unobserved_loss,
    ],
)
def test_correct_runs_pass(story: Callable[[Played], None]) -> None:
    played = Played()
    story(played)
    assert played.violations() == []


def surge_too_far(played: Played) -> None:
    played.apply_statefulset("old", replicas=5, partition=0)
    played.create_group(4, "old")


def mixed_group(played: Played) -> None:
    played.delete(USER, "web-1", grace=0)
    played.create_group(1, "old", generation=2, worker_key="new")


def overlap(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=4)
    played.delete(MANAGER, "web-3")
    played.delete(KUBELET, "web-3", grace=0)
    played.create_group(3, "new", generation=2, worker_key="new")


def overlap_begun_by_another_client(played: Played) -> None:
    played.delete(USER, "web-3")
    played.delete(KUBELET, "web-3", grace=0)
    played.create_group(3, "old", generation=2)


def gate_lifted_too_early(played: Played) -> None:
    gated_leader(played, waits=False)


def workers_for_a_terminating_leader(played: Played) -> None:
    played.replace(USER, 3, "old")
    played.apply_statefulset("new", replicas=4, partition=4)
    played.delete(KUBELET, "web-3-1", grace=0)
    played.delete(MANAGER, "web-3")
    played.create_worker_statefulset(3, generation=2, uid="too-late")
    played.create_worker(3, "old", generation=2, owner="too-late")
    played.delete(KUBELET, "web-3", grace=0)
    played.create_group(3, "new", generation=3)


def two_groups_at_once(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=4)
    played.delete(MANAGER, "web-3")
    played.delete(MANAGER, "web-2")


def partition_too_low(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=2)


def observed_loss(played: Played) -> None:
    played.apply_statefulset("new", replicas=4, partition=4)
    played.delete(USER, "web-0")
    played.wait(5)
    played.set_status("web-1", looked="at")
    played.wait(5)
    played.delete(MANAGER, "web-3")


def healthy_group_restarted(played: Played) -> None:
    played.replace(MANAGER, 1, "old")


def restarted_twice_for_one_reason(played: Played) -> None:
    played.set_status("web-2-1", **RESTARTED)
    played.replace(MANAGER, 2, "old")
    played.wait(5)
    played.replace(MANAGER, 2, "old", generation=3)


def worker_deleted(played: Played) -> None:
    played.delete(MANAGER, "web-1-1")


def leader_rolled_above_its_turn(played: Played) -> None:
    played.replace(STATEFULSET_CONTROLLER, 1, "old")


@pytest.mark.parametrize(
    ("story", "complaint"),
    [
        (surge_too_far, "5 groups, at most 4 may be"),
        (mixed_group, "group 1 has pods of revisions ['new', 'old']"),
        (overlap, "worker web-3-1 of the former leader meets leader web-3"),
        (overlap_begun_by_another_client, "worker web-3-1 of the former leader meets leader web-3"),
        (gate_lifted_too_early, "worker web-3-1 of the former leader meets leader web-3"),
        (workers_for_a_terminating_leader, "worker web-3-1 of the former leader meets leader web-3"),
        (two_groups_at_once, "groups [2] taken down, 2 stay, 3 have to"),
        (partition_too_low, "groups [2, 3] taken down, 2 stay, 3 have to"),
        (observed_loss, "groups [3] taken down, 2 stay, 3 have to"),
        (healthy_group_restarted, "lws-controller-manager deleted web-1 without reason"),
        (restarted_twice_for_one_reason, "lws-controller-manager deleted web-2 without reason"),
        (group_recreated_for_a_worker_that_waited, "lws-controller-manager deleted web-1 without reason"),
        (worker_deleted, "lws-controller-manager deleted web-1-1 without reason"),
        (leader_rolled_above_its_turn, "statefulset-controller deleted web-1 without reason"),
    ],
)
def test_violations_are_found(story: Callable[[Played], None], complaint: str) -> None:
    played = Played()
    story(played)
    assert complaint in played.violations()


def test_serving_groups_are_counted_at_every_moment() -> None:
    played = Played()
    assert fewest_ready(played.steps(), BEGAN + timedelta(seconds=60)) is None
    played.set_status("web-2-1", conditions=[{"type": "Ready", "status": "False"}])
    played.set_status("web-2-1", conditions=[{"type": "Ready", "status": "True"}])
    assert fewest_ready(played.steps(), BEGAN + timedelta(seconds=60)) == 3


def test_changes_right_before_an_api_server_crash_are_not_judged() -> None:
    played = Played()
    played.set_status("web-2-1", conditions=[{"type": "Ready", "status": "False"}])
    fell = played.steps()[-1].entry.at
    played.wait(5)
    played.set_status("web-2-1", conditions=[{"type": "Ready", "status": "True"}])
    counts = [
        fewest_ready(played.steps(), fell, [fell + timedelta(seconds=seconds)])
        for seconds in (-0.1, 0, 0.9, 1.1)
    ]
    assert counts == [3, 4, 4, 3]


def wrote(seconds: float, who: str, resource: str = PODS, holder: str = "") -> Entry:
    answer = {"spec": {"holderIdentity": holder}} if resource == LEASES else {}
    at = BEGAN + timedelta(seconds=seconds)
    return Entry(at, "delete", resource, "default", "web-0", 200, MANAGER, credential=who, answer=answer)


@pytest.mark.parametrize(
    ("writes", "complaints"),
    [
        pytest.param([wrote(0, "a", LEASES, "a"), wrote(3, "a")], [], id="fresh"),
        pytest.param([wrote(0, "a", LEASES, "a"), wrote(8, "a")], ["0:00:08 after"], id="stale"),
        pytest.param([wrote(0, "a", LEASES, "a"), wrote(6, "a")], [], id="stale during the request"),
        pytest.param([wrote(0, "a")], ["None after"], id="never held"),
        pytest.param(
            [wrote(0, "a", LEASES, "a"), wrote(1, "b", LEASES, "b"), wrote(5, "a")],
            ["while b holds"],
            id="taken by another",
        ),
        pytest.param(
            [wrote(0, "a", LEASES, "a"), wrote(1, "b", LEASES, "b"), wrote(2, "a")],
            [],
            id="taken by another during the request",
        ),
        pytest.param(
            [wrote(0, "a", LEASES, "a"), wrote(1, "a", LEASES), wrote(5, "a")],
            ["while nobody holds"],
            id="released",
        ),
    ],
)
def test_writes_without_the_lease_are_found(writes: list[Entry], complaints: list[str]) -> None:
    messages = writes_out_of_turn(writes, {"a": "a", "b": "b"}, "default", timedelta(seconds=4))
    assert len(messages) == len(complaints)
    assert all(complaint in message for complaint, message in zip(complaints, messages, strict=True))
