"""Tests of which pods of a group are terminating, and of the nodes that are read because of them."""

from __future__ import annotations

import copy
import logging
from typing import Any, cast

import pytest

from lws.leaderworkerset.observe.terminating_pods import TerminatingPods
from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import ClusterError, Forbidden, NotFound, Throttled
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import GROUP_REPLACEMENT_GATE, NAME_LABEL
from test.unit.builders import NOW, make_leader_pod, make_set, make_worker_pod, make_worker_statefulset

LWS = make_set(size=3)
LEADER = make_leader_pod(LWS)
WORKERS = make_worker_statefulset(LEADER)


class FakeCluster:
    """An API server with nodes.

    nodes: by name, a node, or an exception to raise.
    """

    def __init__(self, **nodes: Any) -> None:
        self.nodes = nodes
        self.requests: list[str] = []

    async def get(self, kind: str, namespace: str, name: str) -> Any:
        self.requests.append(f"{kind} {namespace}/{name}")
        node = self.nodes.get(name, NotFound(404, "NotFound", "gone"))
        if isinstance(node, ClusterError):
            raise node
        return node


def terminating_pods_in(*shown: dict[str, Any], **nodes: Any) -> TerminatingPods:
    store = Store(lambda before, after: None, TABLES)
    for obj in shown:
        store.put(obj)
    return TerminatingPods(cast(Cluster, FakeCluster(**nodes)), store, lambda: 0.0)


def terminating(
    pod: dict[str, Any], node: str = "node-1", at: str = "2026-03-01T11:59:00Z"
) -> dict[str, Any]:
    pod = copy.deepcopy(pod)
    pod["metadata"] |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}
    return {**pod, "spec": {"nodeName": node}}


def names(pods: tuple[Any, ...]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def test_pods_of_a_group_that_wait_for_their_kubelet_are_terminating() -> None:
    first, second, leader = (
        terminating(make_worker_pod(WORKERS, 1)),
        make_worker_pod(WORKERS, 2),
        terminating(LEADER),
    )
    assert names(terminating_pods_in(WORKERS, first, second).of_group(LEADER)) == ["demo-0-1"]
    assert names(terminating_pods_in(WORKERS, leader, first, second).of_group(leader)) == [
        "demo-0",
        "demo-0-1",
    ]
    ended = terminating(second)
    ended["metadata"]["deletionGracePeriodSeconds"] = 0
    assert terminating_pods_in(WORKERS, ended).of_group(LEADER) == ()
    assert terminating_pods_in(first).of_group(LEADER) == (), "its owner is unknown"


def test_pods_of_a_set_that_wait_for_their_kubelet_are_terminating() -> None:
    others = make_leader_pod(LWS, 1)
    strangers = (
        owned(terminating(others), kind="Job"),
        owned(terminating(make_worker_pod(WORKERS, 2)), name="other-0"),
    )
    for index, pod in enumerate(strangers):
        pod["metadata"] |= {"name": f"stranger-{index}", "uid": f"u-stranger-{index}"}
    worker, leader = terminating(make_worker_pod(WORKERS, 1)), terminating(LEADER)
    pods = terminating_pods_in(LWS, WORKERS, leader, worker, others, *strangers).of_set(LWS)
    assert names(pods) == ["demo-0", "demo-0-1"]


def owned(pod: dict[str, Any], **owner: str) -> dict[str, Any]:
    pod = copy.deepcopy(pod)
    pod["metadata"]["uid"] = "u-former"
    pod["metadata"]["ownerReferences"][0] |= owner
    return pod


FORMER = owned(terminating(make_worker_pod(WORKERS, 2)), uid="u-of-a-former-statefulset")


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        pytest.param(FORMER, True, id="of a former StatefulSet of the name"),
        pytest.param(owned(FORMER, kind="Job"), False, id="of something else"),
        pytest.param(owned(FORMER, name="other"), False, id="of another StatefulSet"),
        pytest.param(
            {**FORMER, "metadata": {**FORMER["metadata"], "labels": {NAME_LABEL: "demo-0"}}},
            False,
            id="of another set",
        ),
    ],
)
def test_a_former_worker_holds_the_name_of_a_new_one(pod: dict[str, Any], counts: bool) -> None:
    pods = terminating_pods_in(WORKERS, make_worker_pod(WORKERS, 1), pod).of_group(LEADER)
    assert names(pods) == (["demo-0-2"] if counts else [])


def test_a_gated_leader_waits_for_former_pods_on_lost_nodes_without_their_statefulset() -> None:
    """Otherwise no such pod would be force-deleted, and the gate never lifted."""
    spec = {**LEADER["spec"], "schedulingGates": [{"name": GROUP_REPLACEMENT_GATE}]}
    stranger = owned(FORMER, name="other")
    stranger["metadata"] |= {"name": "other-2", "uid": "u-other"}
    assert names(terminating_pods_in(FORMER, stranger).of_group({**LEADER, "spec": spec})) == ["demo-0-2"]


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        pytest.param(owned(make_worker_pod(WORKERS, 2)), True, id="not garbage-collected yet"),
        pytest.param(FORMER, True, id="terminating"),
        pytest.param(owned(FORMER, kind="Job"), False, id="of something else"),
        pytest.param(owned(FORMER, name="other"), False, id="of another StatefulSet"),
        pytest.param(
            {**FORMER, "metadata": {**FORMER["metadata"], "ownerReferences": []}}, False, id="an orphan"
        ),
    ],
)
def test_pods_that_hold_the_name_of_a_worker(pod: dict[str, Any], counts: bool) -> None:
    assert names(terminating_pods_in(pod).former_workers(LEADER, 3)) == (["demo-0-2"] if counts else [])
    assert terminating_pods_in(pod).former_workers(LEADER, 2) == (), "beyond the size of the group"


HASH_LEADER = owned(LEADER, kind="ReplicaSet", name="demo-abc")
HASH_LEADER["metadata"]["name"] = "demo-abc-xyz"
HASH_LEADER["spec"] = {**HASH_LEADER["spec"], "hostname": "demo-0123abcd"}


def hash_workers(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the worker StatefulSet of a Hash group, and one of its pods."""
    workers = make_worker_statefulset(HASH_LEADER)
    workers["metadata"] |= {"name": name, "uid": f"u-{name}"}
    pod = make_worker_pod(workers, 2)
    pod["metadata"]["name"] = f"{name}-2"
    return workers, pod


def test_former_workers_of_a_hash_group_hold_their_names_without_its_statefulset() -> None:
    _, pod = hash_workers("demo-0123abcd")
    assert names(terminating_pods_in(pod).former_workers(HASH_LEADER, 3)) == ["demo-0123abcd-2"]


@pytest.mark.parametrize("name", ["demo-0123abcd", "demo-abc-xyz"])
def test_workers_of_a_hash_group_are_named_after_its_host_or_its_leader(
    name: str,
) -> None:
    workers, pod = hash_workers(name)
    assert names(terminating_pods_in(workers, terminating(pod)).of_group(HASH_LEADER)) == [f"{name}-2"]


async def test_only_nodes_of_overdue_pods_are_read_and_each_once() -> None:
    node = {"metadata": {"name": "node-1"}}
    pods = [
        terminating(make_worker_pod(WORKERS, 1)),
        terminating(make_worker_pod(WORKERS, 2)),
        terminating(LEADER, "node-2"),
        terminating(LEADER, "node-3", at="2026-03-01T12:00:01Z"),
        make_worker_pod(WORKERS, 1),
    ]
    terminating_pods = terminating_pods_in(**{"node-1": node})
    assert await terminating_pods.nodes(pods, NOW) == {"node-1": node, "node-2": None}
    assert cast(Any, terminating_pods)._cluster.requests == ["Node /node-1", "Node /node-2"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(Forbidden(403, "Forbidden", "not you"), "not you", id="forbidden"),
        pytest.param(Throttled(429, "", "too much", 1.0), "too much", id="throttled"),
    ],
)
async def test_a_node_that_cannot_be_read_is_unknown(
    error: ClusterError, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert await terminating_pods_in(**{"node-1": error}).nodes([terminating(LEADER)], NOW) == {}
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot check whether node node-1 is lost: {message}"
    ]


async def test_a_forbidden_read_of_a_node_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    terminating_pods = terminating_pods_in(**{"node-1": Forbidden(403, "Forbidden", "not you")})
    for _ in range(2):
        assert await terminating_pods.nodes([terminating(LEADER)], NOW) == {}
    assert len(caplog.records) == 1


def test_size_annotations_of_any_number_cause_no_error() -> None:
    assert names(terminating_pods_in(FORMER).former_workers(LEADER, 10**10)) == ["demo-0-2"]
