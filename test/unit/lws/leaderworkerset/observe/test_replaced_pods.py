"""Tests that a pod replaced between two observations is recognised by its UID."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lws.kube.pods import with_required_node
from lws.leaderworkerset.group.failures import Incident, incident_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.observe.replaced_pods import ReplacedPods
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import RESTART_EXEMPT_CONTAINERS_ANNOTATION
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_pod, make_worker_statefulset


def pod(name: str, uid: str) -> Object:
    return {"kind": "Pod", "metadata": {"namespace": "default", "name": name, "uid": uid}}


LEADER = pod("a-0", "leader")


def memory_of(*disrupted: str) -> ReplacedPods:
    """Return a record of replaced pods.

    disrupted: UIDs of pods of one name that were evicted, preempted or drained, one after the other.
    """

    class Deleted:
        def last_disrupted(self, owner_uid: str, name: str) -> str:
            return disrupted[-1] if disrupted else ""

        def last_unbound(self, owner_uid: str, name: str) -> Object | None:
            return None

    return ReplacedPods(cast(Store, Deleted()))


def replaced(memory: ReplacedPods, leader: Object, workers: list[Object]) -> tuple[str, ...]:
    """Return the names of workers replaced under this leader pod."""
    return tuple(sorted(memory.update(leader, workers).replaced))


def test_nothing_is_replaced_while_uids_stay() -> None:
    memory = memory_of()
    for _ in range(3):
        assert replaced(memory, LEADER, [pod("a-0-1", "w1"), pod("a-0-2", "w2")]) == ()


def test_a_new_uid_is_a_replacement_until_the_leader_is_replaced() -> None:
    memory = memory_of()
    replaced(memory, LEADER, [pod("a-0-1", "w1")])
    assert replaced(memory, LEADER, [pod("a-0-1", "w2")]) == ("a-0-1",)
    assert replaced(memory, LEADER, [pod("a-0-1", "w2")]) == ("a-0-1",)
    assert replaced(memory, pod("a-0", "next leader"), [pod("a-0-1", "w3")]) == ()


def test_a_missing_pod_counts_as_replaced_only_with_another_uid() -> None:
    memory = memory_of()
    replaced(memory, LEADER, [pod("a-0-1", "w1")])
    assert replaced(memory, LEADER, []) == ()
    assert replaced(memory, LEADER, [pod("a-0-1", "w1")]) == ()
    replaced(memory, LEADER, [])
    assert replaced(memory, LEADER, [pod("a-0-1", "w2")]) == ("a-0-1",)


def test_an_ignored_replacement_does_not_hide_the_next() -> None:
    memory = memory_of()
    replaced(memory, LEADER, [pod("a-0-1", "w1")])
    replaced(memory, LEADER, [pod("a-0-1", "w2")])
    memory.update(LEADER, []).ignore_replaced()
    assert replaced(memory, LEADER, [pod("a-0-1", "w2")]) == ()
    assert replaced(memory, LEADER, [pod("a-0-1", "w3")]) == ("a-0-1",)


def unbound(uid: str, node: str = "", **metadata: Any) -> Object:
    """Return a worker that has to return to node-1.

    node: the node that it got; empty without one.
    """
    worker = dict(pod("a-0-1", uid))
    owner = {"kind": "StatefulSet", "name": "a-0", "uid": "workers", "controller": True}
    metadata = {"annotations": {RETURNS_TO_ANNOTATION: "node-1"}, "ownerReferences": [owner], **metadata}
    worker["metadata"] = {**worker["metadata"], "resourceVersion": "1", **metadata}
    return {
        **worker,
        "apiVersion": "v1",
        "spec": {"affinity": with_required_node({}, "node-1"), "nodeName": node},
    }


@pytest.mark.parametrize(
    ("before", "lost"),
    [
        pytest.param(unbound("w1"), (), id="never had a node"),
        pytest.param(unbound("w1", "node-1"), ("a-0-1",), id="was back"),
        pytest.param(unbound("w1", annotations={}), ("a-0-1",), id="might have run anywhere"),
        pytest.param(
            unbound("w1") | {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}},
            ("a-0-1",),
            id="disrupted",
        ),
    ],
)
def test_a_pod_that_only_waited_for_its_node_is_not_lost(before: Object, lost: tuple[str, ...]) -> None:
    store = Store(lambda before, after: None, TABLES)
    memory = ReplacedPods(store)
    store.put(before)
    replaced(memory, LEADER, [before])
    store.drop(before | {"metadata": {**before["metadata"], "resourceVersion": "2"}})
    assert replaced(memory, LEADER, []) == ()
    after = unbound("w2", resourceVersion="3")
    assert replaced(memory, LEADER, [after]) == lost
    assert replaced(memory, LEADER, [after]) == lost
    assert replaced(memory, LEADER, [unbound("w3")]) == ("a-0-1",), "the end of the second is unknown"


def test_a_loss_is_kept_while_its_successor_waits_for_its_node() -> None:
    """w1 ran. The state of w2, which must return to its node, changes nothing."""
    store = Store(lambda before, after: None, TABLES)
    memory = ReplacedPods(store)
    replaced(memory, LEADER, [pod("a-0-1", "w1")])
    waiting = unbound("w2")
    store.put(waiting)
    assert replaced(memory, LEADER, [waiting]) == ("a-0-1",)
    store.drop(waiting | {"metadata": {**waiting["metadata"], "resourceVersion": "2"}})
    assert replaced(memory, LEADER, [unbound("w3")]) == ("a-0-1",)


def test_a_deleted_group_is_forgotten() -> None:
    memory = memory_of()
    replaced(memory, LEADER, [pod("a-0-1", "w1")])
    memory.forget("default", "a-0")
    assert replaced(memory, LEADER, [pod("a-0-1", "w2")]) == ()


def losses(*uids: str, disrupted: tuple[str, ...]) -> GroupSnapshot:
    """Return the recorded losses after the worker has had these UIDs, one after the other."""
    memory, lws, leader = memory_of(*disrupted), make_set(), make_leader_pod()
    workers = make_worker_statefulset(leader)
    for uid in uids:
        pods = (make_worker_pod(workers, uid=uid),)
        snapshot = memory.with_losses(
            GroupSnapshot(lws, leader, NOW, worker_statefulset=workers, worker_pods=pods), size=2
        )
    return snapshot


def test_an_eviction_is_known_after_the_worker_is_replaced() -> None:
    evicted = losses("w1", "w2", disrupted=("w1",))
    assert (evicted.replaced_workers, evicted.disrupted_workers) == (("demo-0-1",), {"demo-0-1"})
    lost = losses("w1", "w2", disrupted=())
    assert (lost.replaced_workers, lost.disrupted_workers) == (("demo-0-1",), frozenset())
    both = losses("w1", "w2", "w3", disrupted=("w2",))
    assert (both.replaced_workers, both.disrupted_workers) == (("demo-0-1",), frozenset()), (
        "the first one was a loss"
    )


def test_an_eviction_before_the_first_pass_is_known() -> None:
    """The status may record that there was another worker."""
    snapshot = losses("w2", disrupted=("w1",))
    assert (snapshot.replaced_workers, snapshot.disrupted_workers) == ((), {"demo-0-1"})


def test_a_replacement_under_restart_policy_none_is_ignored_after_an_edit() -> None:
    """The loss and the edit are two events, and the first pass after both may see them together."""
    memory, leader = memory_of(), make_leader_pod()
    workers = make_worker_statefulset(leader)

    def replaced(uid: str, policy: str) -> tuple[str, ...]:
        pods = (make_worker_pod(workers, uid=uid),)
        lws = make_set(template={"restartPolicy": policy})
        look = GroupSnapshot(lws, leader, NOW, worker_statefulset=workers, worker_pods=pods)
        return memory.with_losses(look, size=2).replaced_workers

    assert replaced("w1", "None") == ()
    assert replaced("w2", "RecreateGroupOnPodRestart") == ()
    assert replaced("w3", "RecreateGroupOnPodRestart") == ("demo-0-1",)


def test_a_crash_during_the_start_is_remembered_when_an_exempt_container_restarts() -> None:
    """The engine crashed until the proxy next to it had started. A proxy that has restarted twice no longer
    shows when that was.
    """
    memory, lws = memory_of(), make_set(template={"restartPolicy": "RecreateGroupAfterStart"})
    lws["metadata"]["annotations"] = {RESTART_EXEMPT_CONTAINERS_ANNOTATION: "proxy"}

    def container(name: str, *starts: str) -> Object:
        last = {"terminated": {"startedAt": starts[-2], "finishedAt": starts[-1]}} if starts[1:] else {}
        state = {"running": {"startedAt": starts[-1]}}
        return {"name": name, "restartCount": len(starts) - 1, "state": state, "lastState": last}

    def incident(*containers: Object, seen_by: ReplacedPods = memory) -> Incident | None:
        leader = make_leader_pod()
        leader["status"] = {"phase": "Running", "containerStatuses": [*containers]}
        return incident_of(seen_by.with_losses(GroupSnapshot(lws, leader, NOW), size=1), 1)

    engine = container("engine", "12:00:01", "12:00:05")
    assert incident(engine, container("proxy", "12:01:00")) is None
    assert incident(engine, container("proxy", "12:01:00", "12:10:00")) is None
    restarted = container("proxy", "12:01:00", "12:10:00", "12:20:00")
    assert incident(engine, restarted) is None
    # A manager without the earlier record cannot know. A crash after the start counts in any case.
    assert incident(engine, restarted, seen_by=memory_of()) is not None
    assert incident(container("engine", "12:00:05", "12:15:00"), restarted) is not None
