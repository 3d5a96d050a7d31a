"""Tests of which pods belong to a group: ownership by UID at each step, never names or labels."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from lws.kube.metadata import owner_reference
from lws.kube.pods import NodeWait
from lws.leaderworkerset.observe.membership import (
    Membership,
    former_pods,
    has_former_workers,
    leader_pods_of,
)
from lws.leaderworkerset.tables import TABLES
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import GROUP_KEY_LABEL
from test.unit.builders import (
    LONG_AGO,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)

SINCE, LATER = datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T01:00:00Z"
LWS = make_set(replicas=2)
LEADERS = make_leader_statefulset(LWS)
PODS = [make_leader_pod(LWS, index) for index in range(2)]


def store_of(*objects: dict[str, Any]) -> Store:
    store = Store(lambda before, after: None, TABLES)
    for obj in objects:
        store.put(obj)
    return store


def owned_by(obj: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner_reference(owner)]}}


def test_leaders_belong_to_their_set_by_uid() -> None:
    store = store_of(LWS, LEADERS, *PODS)
    assert sorted(pod["metadata"]["name"] for pod in leader_pods_of(store, LWS)) == ["demo-0", "demo-1"]
    assert leader_pods_of(store, make_set("other")) == []
    assert Membership(store, set()).set_of_leader(PODS[0]) == LWS

    stranger = make_set("other")
    store = store_of(LWS, owned_by(LEADERS, stranger), *PODS)
    assert leader_pods_of(store, LWS) == []
    assert Membership(store, set()).set_of_leader(PODS[0]) is None


def test_workers_belong_to_the_leader_that_owns_their_statefulset() -> None:
    own, foreign = make_worker_statefulset(PODS[0]), owned_by(make_worker_statefulset(PODS[1]), PODS[0])
    membership = Membership(store_of(LWS, LEADERS, *PODS, own, foreign), {PODS[1]["metadata"]["uid"]})
    first, second = membership.groups_of(LEADERS)
    assert first.worker_statefulset is not None
    assert (first.index, first.worker_statefulset["metadata"]["uid"], first.is_being_deleted) == (
        0,
        own["metadata"]["uid"],
        False,
    )
    assert (second.index, second.worker_statefulset, second.is_being_deleted) == (1, None, True)


def newer(obj: dict[str, Any], version: int, **changes: Any) -> dict[str, Any]:
    metadata = {**obj["metadata"], "resourceVersion": str(version)}
    return {**obj, **changes, "metadata": metadata}


def test_a_group_is_computed_again_only_after_a_change() -> None:
    workers = [make_worker_statefulset(pod) for pod in PODS]
    store, deleting = store_of(LWS, LEADERS, *PODS, *workers), set[str]()
    membership = Membership(store, deleting)
    before = membership.groups_of(LEADERS)
    again = membership.groups_of(LEADERS)
    assert all(one is other for one, other in zip(before, again, strict=True))

    worker = owned_by(make_leader_pod(LWS, 7), workers[1])
    store.put(newer(worker, 5, status={"conditions": [{"type": "Ready", "status": "True"}]}))
    first, second = membership.groups_of(LEADERS)
    assert first is before[0] and second.worker_uids == (worker["metadata"]["uid"],)

    deleting.add(PODS[0]["metadata"]["uid"])
    assert [group.is_being_deleted for group in membership.groups_of(LEADERS)] == [True, False]
    deleting.clear()
    store.drop(newer(workers[0], 9_999_999))
    assert [group.worker_statefulset is None for group in membership.groups_of(LEADERS)] == [True, False]

    membership.forget(PODS[0])
    assert membership.groups_of(LEADERS)[1] is second
    membership.forget(LEADERS)
    again = membership.groups_of(LEADERS)[1]
    assert again == second and again is not second
    store.drop(newer(LEADERS, 9_999_999))
    membership.forget(LEADERS)
    membership.groups_of(LEADERS)
    assert not membership._cached, "no event would report its deletion"


def test_waits_of_pods_for_a_node_are_observed() -> None:
    workers = make_worker_statefulset(PODS[0])
    gated = {"conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": LONG_AGO}]}
    placed = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER}]}
    pods = [
        make_worker_pod(workers, 1, status=gated),
        make_worker_pod(workers, 2, status=placed),
        make_worker_pod(workers, 3),
        make_worker_pod(workers, 4, status=gated, terminating=True),
    ]
    membership = Membership(store_of(LWS, LEADERS, *PODS, workers, *pods), set())
    waits = (NodeWait(SINCE), NodeWait(SINCE, SINCE + timedelta(hours=1)))
    assert [set(group.waits) for group in membership.groups_of(LEADERS)] == [set(waits), set()]


def test_an_unscheduled_pod_waits_for_the_node_it_must_return_to() -> None:
    workers = make_worker_statefulset(PODS[0])
    pods = [
        make_worker_pod(workers, index, status={"conditions": [{"type": "PodScheduled", **scheduled}]})
        for index, scheduled in enumerate(
            ({"status": "False"}, {"status": "True", "lastTransitionTime": LATER}), start=1
        )
    ]
    for pod in pods:
        pod["metadata"]["annotations"][RETURNS_TO_ANNOTATION] = "node-1"
    group, _ = Membership(store_of(LWS, LEADERS, *PODS, workers, *pods), set()).groups_of(LEADERS)
    waiting, placed = sorted(group.waits, key=lambda wait: wait.until is not None)
    assert (waiting.pod, waiting.node, placed.node) == ("demo-0-1", "node-1", "")
    assert waiting.words == "pod demo-0-1 must return to node node-1 and cannot be scheduled there"


# --- Workers of former leaders ------------------------------------------------------------------------------


def former_worker(group: int, index: int) -> dict[str, Any]:
    """Return a terminating worker that has lost the label of its group."""
    pod = make_worker_pod(make_worker_statefulset(make_leader_pod(LWS, group)), index)
    del pod["metadata"]["labels"][GROUP_KEY_LABEL]
    pod["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 30}
    return pod


def test_workers_of_a_former_leader_are_found_without_the_label_of_their_group() -> None:
    running = former_worker(0, 3)
    del running["metadata"]["deletionTimestamp"]
    store = store_of(former_worker(0, 1), former_worker(1, 2), running)
    assert [pod["metadata"]["name"] for pod in former_pods(store, "default", "demo-0")] == ["demo-0-1"]
    assert has_former_workers(store, "default", "demo-1") and not has_former_workers(store, "default", "demo")


def test_leaders_of_a_set_with_the_name_of_a_leader_are_no_former_workers() -> None:
    """A set demo-0 may exist beside the set demo."""
    leader = make_leader_pod(make_set("demo-0", replicas=1))
    leader["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 30}
    store = store_of(leader)
    assert not has_former_workers(store, "default", "demo-0")
    assert former_pods(store, "default", "demo-0") == ()


def test_a_look_for_former_workers_reads_no_other_groups() -> None:
    """Each leader of a set that is deleted as a whole looks for them."""

    def seconds(groups: int) -> float:
        store, durations = store_of(*(former_worker(group, 1) for group in range(groups))), []
        for _ in range(5):
            begun = time.process_time()
            assert not any(has_former_workers(store, "default", "demo-9999") for _ in range(50))
            durations.append(time.process_time() - begun)
        return min(durations)

    assert seconds(500) < 4 * seconds(20)
