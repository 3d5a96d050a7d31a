"""Tests of lws.leaderworkerset.group.tpu: the variables by which TPU containers know each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lws.leaderworkerset.group.tpu import is_configured, ports_of, tpu_containers, variables


def container(name: str, *env: dict[str, Any], **resources: Any) -> dict[str, Any]:
    return {"name": name, "env": list(env), "resources": resources or {"limits": {"google.com/tpu": "4"}}}


def port(value: Any) -> dict[str, Any]:
    return {"name": "TPU_PROCESS_PORT", "value": value}


PORT_FROM = {"name": "TPU_PROCESS_PORT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"containers": [container("a"), {"name": "b"}]}, ["a"], id="limits"),
        pytest.param({"containers": [container("a", requests={"google.com/tpu": 4})]}, ["a"], id="requests"),
        pytest.param(
            {
                "containers": [
                    container("a", limits={"google.com/tpu": "0"}, requests={"google.com/tpu": "1"})
                ]
            },
            ["a"],
            id="requests where limits are zero",
        ),
        pytest.param({"containers": [container("a", limits={"google.com/tpu": "0"})]}, [], id="no TPUs"),
        pytest.param({"containers": [container("a", limits={"nvidia.com/gpu": "8"})]}, [], id="GPUs"),
        pytest.param(
            {
                "containers": [container("a"), container("b")],
                "initContainers": [{**container("s"), "restartPolicy": "Always"}],
            },
            ["a", "b", "s"],
            id="containers first, then sidecars",
        ),
        pytest.param(
            {"containers": [container("a")], "initContainers": [container("i")]},
            ["a"],
            id="init containers beside containers",
        ),
        pytest.param({"initContainers": [container("i")]}, ["i"], id="an init container alone"),
        pytest.param(
            {"containers": [{"resources": {"limits": {"google.com/tpu": "x"}}}]}, [], id="no number"
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": 1}}, None, {"resources": 2}]}, [], id="wrong types"
        ),
        pytest.param({"containers": None, "initContainers": {}}, [], id="no containers"),
    ],
)
def test_containers_that_use_tpus(pod: dict[str, Any], expected: list[str]) -> None:
    assert [entry["name"] for entry in tpu_containers(pod)] == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([container("a"), container("b")], ["8476", "8477"], id="by position"),
        pytest.param([container("a", port("9000")), container("b")], ["9000", "8477"], id="its own port"),
        pytest.param([container("a", PORT_FROM)], ["$(TPU_PROCESS_PORT)"], id="port known inside only"),
        pytest.param([container("a", port(None))], [""], id="empty"),
        pytest.param(
            [container("a"), container("b", PORT_FROM)], ["8476", ""], id="port of another container"
        ),
    ],
)
def test_ports(containers: list[dict[str, Any]], expected: list[str]) -> None:
    assert ports_of(containers) == expected


@pytest.mark.parametrize(
    ("pods", "pod", "containers", "hosts", "ids"),
    [
        pytest.param(range(3), 2, 1, "L-0.L,L-0-1.L,L-0-2.L", ["2"], id="with the leader"),
        pytest.param(range(1, 3), 2, 1, "L-0-1.L,L-0-2.L", ["1"], id="without the leader"),
        pytest.param(range(2), 1, 2, "L-0.L,L-0.L,L-0-1.L,L-0-1.L", ["2", "3"], id="two containers each"),
        pytest.param(range(3, 5), 3, 1, "L-0-3.L,L-0-4.L", ["0"], id="a subgroup"),
        pytest.param(range(1), 0, 1, "L-0.L", ["0"], id="alone"),
    ],
)
def test_hosts_and_ids(pods: Sequence[int], pod: int, containers: int, hosts: str, ids: list[str]) -> None:
    requesting = [container(str(index)) for index in range(containers)]
    environments = variables("L-0", "L", pods, pod, requesting)
    values = [{entry["name"]: entry["value"] for entry in env} for env in environments]
    assert [env["TPU_WORKER_HOSTNAMES"] for env in values] == [hosts] * containers
    assert [env["TPU_WORKER_ID"] for env in values] == ids
    assert [env["TPU_PROCESS_PORT"] for env in values] == ["8476", "8477"][:containers]


def test_all_variables_in_order() -> None:
    environments = variables("L-0", "L", range(2), 1, [container("a"), container("b", port("9000"))])
    hosts = "L-0.L,L-0.L,L-0-1.L,L-0-1.L"
    addresses = "L-0.L:8476,L-0.L:9000,L-0-1.L:8476,L-0-1.L:9000"
    common = [("TPU_NAME", "L-0"), ("TPU_PROCESS_ADDRESSES", addresses)]
    expected = [
        [("TPU_WORKER_HOSTNAMES", hosts), ("TPU_WORKER_ID", "2"), *common, ("TPU_PROCESS_PORT", "8476")],
        [("TPU_WORKER_HOSTNAMES", hosts), ("TPU_WORKER_ID", "3"), *common],
    ]
    assert [[(entry["name"], entry["value"]) for entry in env] for env in environments] == expected


def test_more_addresses_than_a_pod_could_hold_are_refused() -> None:
    """Each container gets the addresses of all containers of all pods."""
    with pytest.raises(ValueError, match="300 containers with TPUs need 300 addresses each: too many"):
        variables("a-0", "a", range(1), 0, [{"name": "t"}] * 300)


def test_longer_addresses_than_a_pod_could_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="10000 addresses of 213 characters are too long"):
        variables("a" * 200, "a", range(10_000), 0, [{"name": "t"}])


def test_a_pod_outside_of_the_slice_is_refused() -> None:
    with pytest.raises(ValueError, match="pod 0 of the group is not in its TPU slice"):
        variables("L-0", "L", range(1, 3), 0, [container("a")])


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param([{"name": "TPU_WORKER_ID"}], True, id="the id"),
        pytest.param([{"name": "TPU_WORKER_HOSTNAMES"}], True, id="the hosts"),
        pytest.param([{"name": "TPU_NAME"}], False, id="only the name"),
        pytest.param(None, False, id="no containers"),
    ],
)
def test_user_configuration_is_detected(env: Any, expected: bool) -> None:
    assert is_configured([{"env": env}, {"env": [{"name": "TPU_WORKER_ID"}]}]) is expected
