"""Tests that a pod replaced between two observations is recognised by its UID."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from lws.kube.metadata import uid_of
from lws.kube.pods import with_required_node
from lws.leaderworkerset.group.failures import incident_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.group_records import Members
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


class StartingGroup:
    """A group of two that a process observes under RecreateGroupAfterStart."""

    def __init__(self, exempt: str = "") -> None:
        annotations = {RESTART_EXEMPT_CONTAINERS_ANNOTATION: exempt}
        template = {"restartPolicy": "RecreateGroupAfterStart"}
        self.lws = make_set(size=2, template=template, annotations=annotations)
        self.restarts: Counter[str] = Counter()
        self.phase = "Running"
        self.take_over()

    def take_over(self) -> None:
        self.memory = memory_of()

    def is_failed(self) -> bool:
        leader = make_leader_pod(self.lws, status=self._status())
        workers = make_worker_statefulset(leader)
        worker = make_worker_pod(workers, phase=self.phase)
        group = GroupSnapshot(self.lws, leader, NOW, worker_statefulset=workers, worker_pods=(worker,))
        return incident_of(self.memory.with_losses(group, size=2), 2) is not None

    def record(self, *, is_known: bool = True) -> None:
        """Record the members of the group, as passes over the set do. is_known: with its restarts."""
        leader = make_leader_pod(self.lws, status=self._status())
        workers = make_worker_statefulset(leader)
        restarts = sum(self.restarts.values()) if is_known else None
        members = Members.of(uid_of(leader), [uid_of(make_worker_pod(workers))], restarts)
        self.lws["status"] = {"members": {"0": str(members)}}

    def _status(self) -> dict[str, Any]:
        # The clock of the leader's node is years behind, or ahead of that of the worker's.
        last = {"terminated": {"exitCode": 1, "finishedAt": "2000-01-01T00:00:00Z"}}
        return {
            "containerStatuses": [
                {"name": name, "restartCount": count, "lastState": last}
                for name, count in self.restarts.items()
            ]
        }


def test_only_restarts_after_the_start_count() -> None:
    group = StartingGroup()
    group.phase = "Pending"
    group.restarts["engine"] = 3
    assert not group.is_failed(), "the worker starts still"
    group.phase = "Running"
    assert not group.is_failed()
    group.restarts["engine"] += 1
    assert group.is_failed()
    group.phase = "Pending"
    assert not group.is_failed(), "a worker that was lost starts again"
    group.phase = "Running"
    assert group.is_failed(), "it was lost after the start of the group"


def test_an_exempt_container_hides_no_restart_and_is_none() -> None:
    group = StartingGroup(exempt="proxy")
    assert not group.is_failed()
    group.restarts["proxy"] += 2
    assert not group.is_failed()
    group.restarts["engine"] += 1
    assert group.is_failed()


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_restart_while_no_manager_runs_counts_if_the_group_was_once_ready(restarts: int) -> None:
    group = StartingGroup()
    group.restarts["engine"] = restarts
    group.record()
    for _ in range(2):
        group.take_over()
        assert not group.is_failed(), "what the status has recorded belongs to the start"
    group.restarts["engine"] += 1
    group.take_over()
    assert group.is_failed()


def test_a_manager_that_knows_no_start_restarts_nothing() -> None:
    """Records of earlier releases, and under other policies, do not contain restarts."""
    group = StartingGroup()
    group.restarts["engine"] = 1
    assert not group.is_failed()
    group.take_over()
    group.record(is_known=False)
    assert not group.is_failed()
    group.restarts["engine"] += 1
    assert group.is_failed(), "from then on they count"


def test_the_time_of_a_failure_is_when_a_pass_first_saw_it() -> None:
    memory, leader = memory_of(), make_leader_pod()

    def seen(seconds: int, has_failed: bool) -> datetime | None:
        group = GroupSnapshot(make_set(size=1), leader, NOW + timedelta(seconds=seconds))
        return memory.failed_since(memory.with_losses(group, size=1), has_failed)

    assert seen(0, False) is None
    assert seen(5, True) == seen(60, True) == NOW + timedelta(seconds=5)
    assert seen(-3600, True) == NOW - timedelta(hours=1), "the clock was set back"
    assert seen(70, False) is None
    assert seen(80, True) == NOW + timedelta(seconds=80)
