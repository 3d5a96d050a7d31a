"""Tests of the name that leaders get and workers inherit, and of the PodGroup, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.leaderworkerset.group.gangs import Kubernetes, Marks, name_pod_group_of_leader
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, WORKER_INDEX_LABEL
from test.unit.builders import make_leader_pod, make_set

PROVIDER = Kubernetes()
LABELS = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1", REVISION_LABEL: "key-a"}
OURS, THEIRS = "demo-1-key-a-0a1b2c3d", "mine"


def named_leader(lws: dict[str, Any], name: str = OURS) -> dict[str, Any]:
    leader = make_leader_pod(lws, 1)
    if name:
        leader["spec"]["schedulingGroup"] = {"podGroupName": name}
    return leader


def test_the_pod_group_field_by_field() -> None:
    lws = make_set(size=3)
    assert PROVIDER.pod_group(lws, named_leader(lws)) == {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": OURS,
            "namespace": "default",
            "labels": LABELS,
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "demo-1",
                    "uid": "uid-of-pod-demo-1",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }


def test_workers_that_start_after_the_leader_are_not_in_the_gang() -> None:
    lws = make_set(size=3, startupPolicy="LeaderReady")
    pod_group = PROVIDER.pod_group(lws, named_leader(lws))
    assert pod_group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 1}}}


@pytest.mark.parametrize(
    ("version", "has_priority"), [("v1alpha2", False), ("v1alpha3", True), ("v1beta1", True)]
)
def test_priority_of_the_pod_group(version: str, has_priority: bool) -> None:
    spec = {"containers": [{"name": "main"}], "priorityClassName": "high"}
    lws = make_set(size=2, template={"workerTemplate": {"spec": spec}})
    provider = Kubernetes(f"scheduling.k8s.io/{version}")
    pod_group = provider.pod_group(lws, named_leader(lws))
    assert pod_group["apiVersion"] == f"scheduling.k8s.io/{version}"
    assert pod_group["spec"].get("priorityClassName") == ("high" if has_priority else None)


@pytest.mark.parametrize(
    ("version", "mode"), [("v1alpha2", None), ("v1alpha3", {"all": {}}), ("v1beta1", {"all": {}})]
)
@pytest.mark.parametrize("startup", ["LeaderCreated", "LeaderReady"])
def test_disruption_mode_of_the_pod_group(version: str, mode: dict[str, Any] | None, startup: str) -> None:
    lws = make_set(size=3, startupPolicy=startup)
    pod_group = Kubernetes(f"scheduling.k8s.io/{version}").pod_group(lws, named_leader(lws))
    assert pod_group["spec"].get("disruptionMode") == mode


@pytest.mark.parametrize(
    ("worker", "size", "marks"),
    [
        pytest.param("0", 3, Marks(scheduling_group=OURS), id="a leader"),
        pytest.param("1", 3, Marks(), id="a worker"),
        pytest.param("0", 1, Marks(), id="a leader alone"),
    ],
)
def test_scheduling_group_of_pods(worker: str, size: int, marks: Marks) -> None:
    assert PROVIDER.marks({**LABELS, WORKER_INDEX_LABEL: worker}, size, "0a1b2c3d") == marks


@pytest.mark.parametrize(
    ("carried", "name"),
    [
        pytest.param(OURS, OURS, id="named by the webhook"),
        pytest.param("", "", id="created without gang scheduling"),
        pytest.param(THEIRS, "", id="of users"),
        pytest.param("demo-1-key-b-0a1b2c3d", "", id="of another revision"),
    ],
)
def test_only_a_leader_with_a_pod_group_name_needs_a_pod_group(carried: str, name: str) -> None:
    assert PROVIDER.name_of(named_leader(make_set(), carried)) == name


@pytest.mark.parametrize(
    ("of_leader", "of_workers", "expected"),
    [
        pytest.param(OURS, None, OURS, id="name of the leader"),
        pytest.param("", None, None, id="leader without a name"),
        pytest.param(THEIRS, None, None, id="leader with a name of users"),
        pytest.param(OURS, THEIRS, THEIRS, id="workers with a name of users"),
    ],
)
def test_scheduling_group_of_workers(of_leader: str, of_workers: str | None, expected: str | None) -> None:
    spec: dict[str, Any] = {"containers": [{"name": "main"}]}
    if of_workers:
        spec["schedulingGroup"] = {"podGroupName": of_workers}
    lws = make_set(size=3, template={"workerTemplate": {"spec": spec}})
    leader = named_leader(lws, of_leader)
    built = build_worker_statefulset(SetSpec.of(lws), leader)
    before = copy.deepcopy(built)
    updated = name_pod_group_of_leader(built, lws, leader)
    assert built == before, "builders copy before they change"
    named = (updated["spec"]["template"]["spec"].pop("schedulingGroup", None) or {}).get("podGroupName")
    assert named == expected
    before["spec"]["template"]["spec"].pop("schedulingGroup", None)
    assert updated == before, "nothing else changes"
