"""Tests of what other projects read from sets and pods: queueing by labels, serving by stable specs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.leaderworkerset.admission.defaulting import default
from lws.leaderworkerset.admission.pod import admit
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import make_leader_pod, make_set

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def pod_of(statefulset: dict[str, Any], ordinal: int) -> dict[str, Any]:
    """Return a pod as the StatefulSet controller creates it and our webhook admits it."""
    template = copy.deepcopy(statefulset["spec"]["template"])
    metadata = {**template["metadata"], "name": f"{statefulset['metadata']['name']}-{ordinal}"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "namespace": "default"},
        "spec": {**template["spec"], "subdomain": statefulset["spec"]["serviceName"]},
    }
    admit(pod, "default")
    return pod


def test_queueing_systems_find_statefulsets_leaders_and_workers() -> None:
    lws = make_set(size=3, labels=QUEUE)
    leaders = build_leader_statefulset(SetSpec.of(lws), "key-a", RollingUpdate(0, 2, 1))
    workers = build_worker_statefulset(SetSpec.of(lws), make_leader_pod(lws, 1))
    for statefulset in (leaders, workers):
        assert statefulset["metadata"]["labels"].items() >= {NAME_LABEL: "demo", **QUEUE}.items()
    leader, worker = pod_of(leaders, 1), pod_of(workers, 2)
    # A pod without the name of its leader is a leader.
    assert LEADER_NAME_ANNOTATION not in leader["metadata"]["annotations"]
    assert worker["metadata"]["annotations"][LEADER_NAME_ANNOTATION] == "demo-1"
    for pod, index in ((leader, "0"), (worker, "2")):
        labels = pod["metadata"]["labels"]
        assert (labels[GROUP_INDEX_LABEL], labels[WORKER_INDEX_LABEL]) == ("1", index)
        assert labels[REVISION_LABEL] == "key-a"
        assert labels[GROUP_KEY_LABEL]
        assert pod["metadata"]["annotations"][SIZE_ANNOTATION] == "3"


GATED: dict[str, Any] = {
    "metadata": {
        "labels": {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/priority-class": "high"},
        "annotations": {"kueue.x-k8s.io/pod-suspending-parent": "leaderworkerset.x-k8s.io/leaderworkerset"},
    },
    "spec": {
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}],
        "containers": [{"name": "main", "image": "app:1"}],
    },
}


def test_template_edits_of_a_queueing_system_reach_pods_unchanged() -> None:
    """Labels, annotations and gates. When the queueing system removes a gate, no webhook of ours adds it
    again.
    """
    lws = make_set(size=3, template={"leaderTemplate": GATED, "workerTemplate": GATED})
    leaders = build_leader_statefulset(SetSpec.of(lws), "key-a", RollingUpdate(0, 2, 1))
    workers = build_worker_statefulset(SetSpec.of(lws), make_leader_pod(lws, 1))
    for pod in (pod_of(leaders, 1), pod_of(workers, 2)):
        for field in ("labels", "annotations"):
            assert pod["metadata"][field].items() >= GATED["metadata"][field].items()
        assert pod["spec"]["schedulingGates"] == GATED["spec"]["schedulingGates"]
        admitted = copy.deepcopy(pod)
        admitted["spec"]["schedulingGates"] = []
        once_more = copy.deepcopy(admitted)
        admit(once_more, "default")
        assert once_more == admitted


def test_statefulsets_have_the_names_by_which_pod_owners_are_looked_up() -> None:
    """Whether a pod is current follows from its StatefulSet."""
    lws = make_set(size=3)
    leader = make_leader_pod(lws, 1)
    leaders = build_leader_statefulset(SetSpec.of(lws), "key-a", RollingUpdate(0, 2, 1))
    assert leaders["metadata"]["name"] == lws["metadata"]["name"]
    assert build_worker_statefulset(SetSpec.of(lws), leader)["metadata"]["name"] == leader["metadata"]["name"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="as little as possible"),
        pytest.param({"rolloutStrategy": None, "networkConfig": None}, id="nulls"),
        pytest.param({"startupPolicy": "LeaderReady", "paused": None}, id="more"),
    ],
)
def test_serving_layers_that_compare_whole_specs_see_no_change(spec: dict[str, Any]) -> None:
    """Serving layers write the same spec again, and compare it with the stored one."""
    written = make_set(**spec)
    for field in ("rolloutStrategy", "networkConfig"):
        if field not in spec:
            del written["spec"][field]
    stored = copy.deepcopy(written)
    default(stored)
    again = copy.deepcopy(written)
    default(again)
    assert again == stored
    default(again)
    assert again == stored
    added = stored["spec"].keys() - written["spec"].keys()
    of_upstream = {"groupIdentity", "groupReplacementPolicy"}
    assert added <= {"rolloutStrategy", "networkConfig"} | of_upstream
