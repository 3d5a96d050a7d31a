"""Tests of the path from changes of the store to passes over sets and groups."""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.kube.metadata import owner_reference
from lws.kube.patches import with_merged
from lws.leaderworkerset.pod_identity import group_key, is_hash_key
from lws.leaderworkerset.routing import Routing
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Key, Wake
from lws.runtime.leadership.election import everywhere
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_REPLACEMENT_GATE,
    GROUP_RESTART_COUNTS_ANNOTATION,
    GROUP_RESTARTS_COUNTED_FOR_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    RESTART_BUDGET_FINALIZER,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import (
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)


class _Bench:
    """Routing over a store. objects: what the store contains."""

    def __init__(self, *objects: Any, is_ours: bool = False) -> None:
        self.store = Store(lambda before, after: None, TABLES)
        self.routing = Routing(self.store, lambda lws: is_ours)
        for obj in objects:
            self.store.put(obj)

    def woken(self, before: Any, after: Any) -> list[Key]:
        """Return the enqueued keys, sorted."""
        return sorted(key for key, _ in self.wakes(before, after))

    def wakes(self, before: Any, after: Any) -> list[Wake]:
        """Return the keys with their delays, by the route of the kind."""
        return [*self.routing.routes[(after or before)["kind"]](before, after)]


def _leaders(lws: dict[str, Any] | None = None, groups: int = 2) -> list[dict[str, Any]]:
    """Return the leader StatefulSet of a set and the leader pods of its first groups."""
    return [make_leader_statefulset(lws), *(make_leader_pod(lws, index) for index in range(groups))]


SET, FIRST, SECOND = (
    Key("set", "default", "demo"),
    Key("group", "default", "demo-0"),
    Key("group", "default", "demo-1"),
)


def test_a_change_wakes_its_set_or_group() -> None:
    bench = _Bench()
    lws = make_set()
    assert bench.woken(None, make_leader_statefulset(lws)) == [SET]
    assert bench.woken(make_worker_pod(), None) == [FIRST]


def test_deletions_in_a_terminating_group_can_wait() -> None:
    bench = _Bench()
    leader = make_leader_pod(terminating=True)
    bench.store.put(leader)
    [(key, within)] = bench.wakes(make_worker_pod(), None)
    assert key == FIRST and within > 1.0
    bench.store.drop(leader)
    assert bench.wakes(make_worker_pod(), None) == [(FIRST, 0.0)]


def test_a_changed_set_wakes_its_groups() -> None:
    """Restart policy and startup policy are read from the set."""
    bench = _Bench(*_leaders())
    before, after = make_set(generation=1), make_set(generation=2)
    assert bench.woken(before, after) == [FIRST, SECOND, SET]
    assert bench.woken(after, None) == [FIRST, SECOND, SET]


def test_an_adopted_statefulset_wakes_its_groups() -> None:
    bench = _Bench(*_leaders())
    adopted, orphan = make_leader_statefulset(), make_leader_statefulset()
    del orphan["metadata"]["ownerReferences"]
    assert {FIRST, SECOND, SET} <= set(bench.woken(orphan, adopted))
    woken = [*bench.woken(adopted, adopted), *bench.woken(adopted, orphan)]
    assert not {FIRST, SECOND} & set(woken)


def _of_hash_set(owner: dict[str, Any] | None, kind: str, name: str) -> dict[str, Any]:
    owners = [owner_reference(owner)] if owner is not None else []
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}-{kind}",
        "ownerReferences": owners,
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {}}


def test_an_adopted_deployment_wakes_its_groups() -> None:
    lws = make_set(groupIdentity="Hash")
    adopted, orphan = _of_hash_set(lws, "Deployment", "demo"), _of_hash_set(None, "Deployment", "demo")
    replica_set = _of_hash_set(adopted, "ReplicaSet", "demo-abc")
    pods = ({**_of_hash_set(replica_set, "Pod", name), "apiVersion": "v1"} for name in ("demo-0", "demo-1"))
    bench = _Bench(lws, adopted, replica_set, *pods)
    assert {FIRST, SECOND, SET} <= set(bench.woken(orphan, adopted))
    woken = [*bench.woken(adopted, adopted), *bench.woken(adopted, orphan)]
    assert not {FIRST, SECOND} & set(woken)


@pytest.mark.parametrize(
    ("former", "index", "leader"),
    [
        pytest.param("1", "2", "demo-2", id="Ordinal"),
        pytest.param("1" * 40, "2" * 40, "demo-abc-x2", id="Hash"),
    ],
)
def test_a_lost_or_edited_pod_group_of_a_set_wakes_its_group(
    monkeypatch: pytest.MonkeyPatch, former: str, index: str, leader: str
) -> None:
    bench, lws = _Bench(), make_set(groupIdentity="Hash")
    owner = _of_hash_set(_of_hash_set(lws, "Deployment", "demo"), "ReplicaSet", "demo-abc")
    for name, group_index in ((f"{leader[:-1]}1", former), (leader, index)):
        key = group_index if is_hash_key(group_index) else group_key("default", name)
        labels = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: group_index, GROUP_KEY_LABEL: key}
        for number, pod in enumerate((name, f"{name}-1")):
            obj = {**_of_hash_set(owner, "Pod", pod), "apiVersion": "v1"}
            bench.store.put(
                with_merged(obj, {"metadata": {"labels": {**labels, WORKER_INDEX_LABEL: str(number)}}})
            )
    pod_group = _of_hash_set(lws, "PodGroup", "demo-2-abc")
    pod_group["metadata"]["labels"] = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: index}
    group = Key("group", "default", leader)
    found, find = list[Any](), bench.store.labelled_pods

    def labelled_pods(*where: str) -> list[Any]:
        found.append(find(*where))
        return find(*where)

    monkeypatch.setattr(bench.store, "labelled_pods", labelled_pods)
    assert bench.woken(pod_group, None) == [group]
    assert bench.woken(None, pod_group) == bench.woken(pod_group, pod_group) == []
    for edited in ({"labels": {NAME_LABEL: "demo"}}, {"labels": None}, {"ownerReferences": None}):
        after = {**pod_group, "metadata": {**pod_group["metadata"], **edited}}
        assert group in bench.woken(pod_group, after)
        assert group not in bench.woken(after, pod_group), "it has been repaired"
    terminating = {"labels": {}, "deletionTimestamp": "2026-03-01T12:00:00Z"}
    assert bench.woken(pod_group, {**pod_group, "metadata": {**pod_group["metadata"], **terminating}}) == []
    assert max(map(len, found)) == 2, "the pods of other groups are not read"


def test_an_adopted_replica_set_wakes_its_groups() -> None:
    """A Deployment that is deleted without its dependents leaves them to the next one."""
    bench = _Bench()
    deployment = _of_hash_set(make_set(), "Deployment", "demo")
    adopted = _of_hash_set(deployment, "ReplicaSet", "demo-abc")
    orphan = _of_hash_set(None, "ReplicaSet", "demo-abc")
    bench.store.put({**_of_hash_set(adopted, "Pod", "demo-0"), "apiVersion": "v1"})
    assert {FIRST, SET} <= set(bench.woken(orphan, adopted))
    assert FIRST not in bench.woken(adopted, adopted)


def test_a_statefulset_that_is_seen_after_its_pods_wakes_their_groups() -> None:
    """Streams are not synchronised."""
    lws = make_set(size=3)
    leaders = make_leader_statefulset(lws)
    bench = _Bench(make_leader_pod(lws, 0), make_leader_pod(lws, 1), leaders)
    assert bench.woken(None, leaders) == [FIRST, SECOND, SET]


@pytest.mark.parametrize(
    ("status", "is_ours", "woken"),
    [
        pytest.param({"replicas": 2}, True, [], id="ours"),
        pytest.param({"replicas": 2}, False, [SET], id="of another writer"),
        pytest.param({}, False, [SET], id="emptied"),
        pytest.param({"replicas": 1, "restarts": {"0": "1.1.7.k"}}, True, [SET], id="a restart is counted"),
    ],
)
def test_a_status_wakes_its_set_unless_its_own_pass_has_written_it(
    status: dict[str, Any], is_ours: bool, woken: list[Key]
) -> None:
    bench = _Bench(*_leaders(groups=1), is_ours=is_ours)
    assert bench.woken(make_set(status={"replicas": 1}), make_set(status=status)) == woken


def test_a_new_generation_with_a_status_of_ours_wakes_all() -> None:
    bench = _Bench(*_leaders(groups=1), is_ours=True)
    assert bench.woken(make_set(), make_set(generation=2, status={"replicas": 1})) == [FIRST, SET]


def test_other_kinds_do_not_wake_all_groups() -> None:
    bench = _Bench(*_leaders())
    assert bench.woken(None, make_leader_pod(make_set())) == [FIRST, SET]


def test_all_keys() -> None:
    one, two = make_set("one"), make_set("two", namespace="elsewhere")
    bench = _Bench(one, *_leaders(one), two, *_leaders(two, groups=1))
    assert sorted(bench.routing.keys(everywhere)) == [
        Key("group", "default", "one-0"),
        Key("group", "default", "one-1"),
        Key("group", "elsewhere", "two-0"),
        Key("set", "default", "one"),
        Key("set", "elsewhere", "two"),
    ]
    assert sorted(bench.routing.keys(lambda namespace: namespace == "elsewhere")) == [
        Key("group", "elsewhere", "two-0"),
        Key("set", "elsewhere", "two"),
    ]


def test_foreign_objects_wake_only_existing_sets() -> None:
    """The same streams deliver Services and revisions of DisaggregatedSets."""
    bench = _Bench()
    owner = {"kind": "DisaggregatedSet", "name": "x", "uid": "u-x", "controller": True}
    metadata = {"name": "demo", "namespace": "default", "uid": "u-s", "ownerReferences": [owner]}
    service = {"kind": "Service", "metadata": metadata}
    assert bench.woken(None, service) == []
    bench.store.put(make_set())
    assert bench.woken(None, service) == [SET]
    # The Service was ours before: the set repairs it.
    ours = {**service, "metadata": {**metadata, "ownerReferences": [{**owner, "kind": "LeaderWorkerSet"}]}}
    assert Key("set", "default", "x") in bench.woken(ours, service)


def kept_pods() -> list[dict[str, Any]]:
    """Return the pods of group 1, which has used up its restarts."""
    leader = make_leader_pod(index=1, terminating=True)
    worker = make_worker_pod(make_worker_statefulset(leader), terminating=True)
    for pod in (leader, worker):
        pod["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]
    return [leader, worker]


def test_a_changed_or_deleted_set_or_statefulset_wakes_groups_with_kept_pods() -> None:
    bench = _Bench()
    lws, leaders = make_set(), make_leader_statefulset()
    for pod in (*kept_pods(), make_leader_pod()):
        bench.store.put(pod)
    for before, after in ((lws, None), (lws, make_set(terminating=True)), (leaders, None)):
        assert SECOND in bench.woken(before, after)
        assert FIRST not in bench.woken(before, after)
    assert SECOND in bench.woken(leaders, make_leader_statefulset(replicas=1))


def test_a_statefulset_that_loses_its_set_wakes_gated_leaders() -> None:
    gated, leaders = make_leader_pod(index=1), make_leader_statefulset()
    gated["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    bench = _Bench(make_leader_pod(), gated)
    orphan = {**leaders, "metadata": {**leaders["metadata"], "ownerReferences": []}}
    woken = bench.woken(leaders, orphan)
    assert SECOND in woken and FIRST not in woken
    assert set(bench.routing.keys(everywhere)) == {SECOND}


def test_workers_that_a_leader_has_left_are_among_all_keys() -> None:
    workers = make_worker_statefulset(make_leader_pod())
    left = {**workers, "metadata": {**workers["metadata"], "ownerReferences": []}}
    assert set(_Bench(left).routing.keys(everywhere)) == {FIRST}
    assert set(_Bench(workers).routing.keys(everywhere)) == set()
    assert FIRST in _Bench().woken(workers, left)


def test_kept_pods_without_a_set_are_among_all_keys() -> None:
    bench = _Bench()
    for pod in (*kept_pods(), make_leader_pod(), make_worker_pod()):
        bench.store.put(pod)
    assert set(bench.routing.keys(everywhere)) == {SECOND}
    assert set(bench.routing.keys(lambda namespace: namespace != "default")) == set()


def test_a_deleted_hash_leader_wakes_the_group_of_its_kept_workers() -> None:
    """The reason to keep the workers may be gone with their leader. They are found by its host name."""
    bench = _Bench()
    replica_set = _of_hash_set(None, "ReplicaSet", "demo-abc")
    leader = {**_of_hash_set(replica_set, "Pod", "demo-abc-x1"), "apiVersion": "v1"}
    leader["metadata"] |= {"annotations": {GROUP_IDENTITY_ANNOTATION: "Hash"}, "labels": {NAME_LABEL: "demo"}}
    leader["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]
    leader["spec"] = {"hostname": "demo-12345678"}
    workers = _of_hash_set(leader, "StatefulSet", "demo-12345678")
    worker = {**_of_hash_set(workers, "Pod", "demo-12345678-1"), "apiVersion": "v1"}
    worker["metadata"] |= {
        "annotations": {LEADER_NAME_ANNOTATION: "demo-abc-x1", GROUP_IDENTITY_ANNOTATION: "Hash"},
        "labels": {NAME_LABEL: "demo"},
        "finalizers": [RESTART_BUDGET_FINALIZER],
    }
    of_leader, of_host = (Key("group", "default", name) for name in ("demo-abc-x1", "demo-12345678"))
    assert {of_leader, of_host} <= set(bench.woken(None, worker))
    assert of_host not in bench.woken(leader, None)
    bench.store.put(worker)
    assert of_host in bench.woken(leader, None)
    bench.store.put(leader)
    assert of_leader in bench.woken(replica_set, None)


def test_the_last_worker_of_a_hash_group_wakes_the_set_whose_next_leader_waits_for_it() -> None:
    bench = _Bench()
    workers = _of_hash_set(None, "StatefulSet", "demo-12345678")
    pods = [
        {**_of_hash_set(workers, "Pod", f"demo-12345678-{index}"), "apiVersion": "v1"} for index in (1, 2)
    ]
    for pod in pods:
        pod["metadata"] |= {
            "annotations": {LEADER_NAME_ANNOTATION: "demo-abc-x1", GROUP_IDENTITY_ANNOTATION: "Hash"},
            "labels": {NAME_LABEL: "demo", WORKER_INDEX_LABEL: "1"},
        }
    bench.store.put(pods[1])
    assert SET not in bench.woken(pods[0], None)
    bench.store.drop(pods[1])
    assert SET in bench.woken(pods[1], None)


def test_workers_of_a_deleted_hash_leader_wake_no_group() -> None:
    bench = _Bench()
    replica_set = _of_hash_set(None, "ReplicaSet", "demo-abc")
    leader = {**_of_hash_set(replica_set, "Pod", "demo-abc-x1"), "apiVersion": "v1"}
    workers = _of_hash_set(leader, "StatefulSet", "demo-12345678")
    worker = {**_of_hash_set(workers, "Pod", "demo-12345678-1"), "apiVersion": "v1"}
    hashed = {LEADER_NAME_ANNOTATION: "demo-abc-x1", GROUP_IDENTITY_ANNOTATION: "Hash"}
    worker["metadata"] |= {"annotations": hashed, "labels": {NAME_LABEL: "demo", WORKER_INDEX_LABEL: "1"}}
    terminating = {**worker, "metadata": {**worker["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}}
    of_leader = Key("group", "default", "demo-abc-x1")
    changes: list[tuple[Any, Any]] = [(worker, terminating), (terminating, None), (workers, None)]
    assert [of_leader in bench.woken(*change) for change in changes] == [False] * 3
    bench.store.put(leader)
    assert [of_leader in bench.woken(*change) for change in changes] == [True] * 3
    assert of_leader in _Bench().woken(leader, None), "what is known of it is forgotten"


@pytest.mark.parametrize("name", ["demo-12345678", "demo-abc-x1"], ids=["1.0", "0.11"])
def test_settled_workers_of_a_hash_group_wake_it_whatever_they_are_named_after(name: str) -> None:
    """The pass over the group writes their readiness to the leader, which is its readiness gate."""
    bench, key = _Bench(), group_key("default", "random")
    leader = {**_of_hash_set(_of_hash_set(None, "ReplicaSet", "demo-abc"), "Pod", "demo-abc-x1")}
    starting, settled = (_of_hash_set(leader, "StatefulSet", name) for _ in range(2))
    for workers, ready in ((starting, 0), (settled, 1)):
        workers["metadata"]["labels"] = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: key, GROUP_KEY_LABEL: key}
        workers["spec"] = {"replicas": 1}
        workers["status"] = {"observedGeneration": 1, "replicas": 1, "availableReplicas": ready}
    bench.store.put({**leader, "apiVersion": "v1"})
    of_leader = Key("group", "default", "demo-abc-x1")
    assert of_leader in bench.woken(starting, settled) and of_leader in bench.woken(settled, starting)


def test_only_the_last_pod_of_a_former_group_is_urgent_for_its_gated_leader() -> None:
    workers = make_worker_statefulset(make_leader_pod())
    pods = [make_worker_pod(workers, index) for index in (1, 2)]
    leader = make_leader_pod(ready=False, phase="Pending", uid="next")
    leader["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    bench = _Bench(leader, workers, *pods)
    changes: list[tuple[Any, Any]] = [
        (pods[0], make_worker_pod(workers, 1, terminating=True)),
        (workers, None),
        (pods[0], None),
        (pods[1], None),
    ]
    delays = []
    for before, after in changes:
        if after is None:
            bench.store.drop(before)
        delays.append(dict(bench.wakes(before, after))[FIRST])
    assert delays == [2.0, 2.0, 2.0, 0.0]
    assert dict(bench.wakes(None, leader))[FIRST] == timing.AT_ONCE


def test_events_of_a_gated_leaders_own_workers_are_as_urgent_as_ever() -> None:
    leader = make_leader_pod(ready=False, phase="Pending")
    leader["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    workers = make_worker_statefulset(leader)
    pod = make_worker_pod(workers)
    bench = _Bench(leader, workers)
    assert dict(bench.wakes(pod, make_worker_pod(workers, phase="Failed")))[FIRST] == timing.AT_ONCE


def test_counts_of_restarts_wake_the_set_alone() -> None:
    bench = _Bench(*_leaders(groups=1), is_ours=True)
    names = (GROUP_RESTART_COUNTS_ANNOTATION, GROUP_RESTARTS_COUNTED_FOR_ANNOTATION)
    counted = make_set(annotations=dict.fromkeys(names, "{}"))
    assert bench.woken(make_set(), counted) == [SET]
    assert bench.woken(make_set(), make_set(annotations={"a": "b"})) == [FIRST, SET]
