"""Tests of lws.leaderworkerset.admission.pod: variables of pods that use TPUs, with and without subgroups."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.kube.field_errors import Refused
from lws.leaderworkerset.admission.pod import admit
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    SIZE_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)


def make_pod(
    worker: int,
    size: int,
    subgroup_size: int | None = None,
    *,
    leader_tpus: bool = True,
    policy: str = "LeaderWorker",
    containers: int = 1,
    env: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return a pod of set L, group 0, as the StatefulSet controller creates it."""
    annotations = {SIZE_ANNOTATION: str(size)}
    if worker:
        annotations[LEADER_NAME_ANNOTATION] = "L-0"
        annotations |= {LEADER_REQUESTS_TPUS_ANNOTATION: "true"} if leader_tpus else {}
    if subgroup_size is not None:
        annotations |= {
            SUBGROUP_SIZE_ANNOTATION: str(subgroup_size),
            SUBGROUP_POLICY_TYPE_ANNOTATION: policy,
        }
    labels = {NAME_LABEL: "L", **({GROUP_INDEX_LABEL: "0"} if worker else {WORKER_INDEX_LABEL: "0"})}
    using = {"resources": {"limits": {"google.com/tpu": "4"}}}
    return {
        "metadata": {
            "name": f"L-0-{worker}" if worker else "L-0",
            "namespace": "default",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "subdomain": "L",
            "containers": [
                {"name": f"c{index}", **using, "env": list(env or [])} for index in range(containers)
            ],
        },
    }


def variables_of(pod: dict[str, Any], index: int = 0) -> dict[str, str]:
    env = pod["spec"]["containers"][index]["env"]
    return {entry["name"]: entry["value"] for entry in env if entry["name"].startswith("TPU_")}


@pytest.mark.parametrize(
    ("pod", "hosts", "worker_id"),
    [
        # The cases that equal upstream's controller.
        pytest.param(make_pod(0, 3), "L-0.L,L-0-1.L,L-0-2.L", "0", id="leader"),
        pytest.param(make_pod(2, 3), "L-0.L,L-0-1.L,L-0-2.L", "2", id="worker"),
        pytest.param(make_pod(2, 3, leader_tpus=False), "L-0-1.L,L-0-2.L", "1", id="leader without TPUs"),
        pytest.param(
            make_pod(3, 5, 2, leader_tpus=False), "L-0-3.L,L-0-4.L", "0", id="5 in twos, leader without TPUs"
        ),
        pytest.param(
            make_pod(4, 5, 2, leader_tpus=False, policy="LeaderExcluded"),
            "L-0-3.L,L-0-4.L",
            "1",
            id="5 in twos, leader excluded",
        ),
        pytest.param(make_pod(0, 4, 2), "L-0.L,L-0-1.L", "0", id="4 in twos, leader"),
        pytest.param(make_pod(1, 4, 2), "L-0.L,L-0-1.L", "1", id="4 in twos, beside the leader"),
        pytest.param(make_pod(2, 4, 2), "L-0-2.L,L-0-3.L", "0", id="4 in twos, first of the second"),
        pytest.param(make_pod(3, 4, 2), "L-0-2.L,L-0-3.L", "1", id="4 in twos, second of the second"),
        pytest.param(
            make_pod(2, 3, 1, leader_tpus=False, policy="LeaderExcluded"), "L-0-2.L", "0", id="3 in ones"
        ),
        # The cases in which upstream's controller leaves out the pod itself, or names pods that do not exist.
        pytest.param(make_pod(2, 5, 2), "L-0.L,L-0-1.L,L-0-2.L", "2", id="5 in twos, leader with TPUs"),
        pytest.param(make_pod(3, 5, 2), "L-0-3.L,L-0-4.L", "0", id="5 in twos, leader with TPUs, second"),
        pytest.param(
            make_pod(1, 4, 2, leader_tpus=False), "L-0-1.L", "0", id="4 in twos, beside a leader without"
        ),
        pytest.param(
            make_pod(3, 4, 2, leader_tpus=False), "L-0-2.L,L-0-3.L", "1", id="4 in twos, leader without"
        ),
    ],
)
def test_hosts_and_id(pod: dict[str, Any], hosts: str, worker_id: str) -> None:
    admit(pod, "default")
    variables = variables_of(pod)
    addresses = ",".join(f"{host}:8476" for host in hosts.split(","))
    assert variables == {
        "TPU_WORKER_HOSTNAMES": hosts,
        "TPU_WORKER_ID": worker_id,
        "TPU_NAME": "L-0",
        "TPU_PROCESS_ADDRESSES": addresses,
        "TPU_PROCESS_PORT": "8476",
    }
    again = copy.deepcopy(pod)
    admit(again, "default")
    assert again == pod


def test_two_containers() -> None:
    pod = make_pod(1, 2, containers=2)
    admit(pod, "default")
    assert variables_of(pod, 1)["TPU_WORKER_ID"] == "3"
    variables = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][1]["env"]}
    assert variables["TPU_PROCESS_ADDRESSES"] == "L-0.L:8476,L-0.L:8477,L-0-1.L:8476,L-0-1.L:8477"


def test_every_container_of_a_subgroup_gets_variables() -> None:
    pod = make_pod(3, 4, 2, containers=2)
    admit(pod, "default")
    assert [variables_of(pod, index)["TPU_WORKER_ID"] for index in range(2)] == ["2", "3"]
    assert variables_of(pod)["TPU_WORKER_HOSTNAMES"] == "L-0-2.L,L-0-2.L,L-0-3.L,L-0-3.L"


def test_ids_and_hosts_of_a_group_are_consistent() -> None:
    """In every combination that admission accepts, ids count from 0 without a gap and match the pod's
    position.
    """
    for size in range(1, 10):
        for subgroup_size in (None, *range(1, size + 1)):
            if subgroup_size and size % subgroup_size and (size - 1) % subgroup_size:
                continue
            for leader_tpus in (True, False):
                _assert_consistent(size, subgroup_size, leader_tpus)


def _assert_consistent(size: int, subgroup_size: int | None, leader_tpus: bool) -> None:
    slices: dict[str, dict[int, str]] = {}
    for worker in range(0 if leader_tpus else 1, size):
        pod = make_pod(worker, size, subgroup_size, leader_tpus=leader_tpus)
        admit(pod, "default")
        variables = variables_of(pod)
        index = pod["metadata"]["labels"].get(SUBGROUP_INDEX_LABEL, "")
        assert (
            f"{pod['metadata']['name']}.L"
            == variables["TPU_WORKER_HOSTNAMES"].split(",")[int(variables["TPU_WORKER_ID"])]
        )
        slices.setdefault(index, {})[int(variables["TPU_WORKER_ID"])] = variables["TPU_WORKER_HOSTNAMES"]
    for hosts in slices.values():
        assert len(set(hosts.values())) == 1
        assert sorted(hosts) == list(range(len(hosts[0].split(","))))


def test_user_variables_are_kept() -> None:
    own = [{"name": "TPU_PROCESS_PORT", "value": "9000"}, {"name": "TPU_NAME", "value": "mine"}]
    pod = make_pod(1, 2, env=own)
    admit(pod, "default")
    names = [entry["name"] for entry in pod["spec"]["containers"][0]["env"]]
    assert names == [
        "LWS_LEADER_ADDRESS",
        "LWS_GROUP_SIZE",
        "LWS_WORKER_INDEX",
        "TPU_PROCESS_PORT",
        "TPU_NAME",
        "TPU_WORKER_HOSTNAMES",
        "TPU_WORKER_ID",
        "TPU_PROCESS_ADDRESSES",
    ]
    assert variables_of(pod)["TPU_NAME"] == "mine"
    assert variables_of(pod)["TPU_PROCESS_ADDRESSES"] == "L-0.L:9000,L-0-1.L:9000"


@pytest.mark.parametrize("name", ["TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"])
def test_pods_with_user_variables_are_unchanged(name: str) -> None:
    pod = make_pod(1, 2, env=[{"name": name, "value": "7"}], containers=2)
    admit(pod, "default")
    assert variables_of(pod) == {name: "7"}
    assert variables_of(pod, 1) == {name: "7"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            make_pod(0, 5, 2, policy="LeaderExcluded"), "is in no subgroup .* give the set a", id="leader"
        ),
        pytest.param(make_pod(1, 10_001), "in a group of 10001 pods: at most 10000 can", id="too many"),
        pytest.param(make_pod(5, 3), "pod 5 of the group is not in its TPU slice", id="beyond the group"),
    ],
)
def test_refused(pod: dict[str, Any], expected: str) -> None:
    before = copy.deepcopy(pod)
    with pytest.raises(Refused, match=expected):
        admit(pod, "default")
    assert pod == before


def test_a_port_of_another_container_is_omitted_as_upstream_does() -> None:
    pod = make_pod(1, 2, env=[{"name": "TPU_PROCESS_PORT", "valueFrom": {}}], containers=2)
    admit(pod, "default")
    variables = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][1]["env"]}
    assert variables["TPU_PROCESS_ADDRESSES"] == "L-0.L:,L-0.L:,L-0-1.L:,L-0-1.L:"


def test_a_subgroup_index_must_be_a_number() -> None:
    pod = make_pod(1, 4, 2)
    pod["metadata"]["labels"][SUBGROUP_INDEX_LABEL] = "first"
    with pytest.raises(Refused, match='must be a number for pods that use TPUs, not "first"'):
        admit(pod, "default")
