"""lws.kube.quantities: resource requests of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.quantities import of_many, of_pod, total


def container(restart: str = "", **requests: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"resources": {"requests": requests}}
    return result | ({"restartPolicy": restart} if restart else {})


GPU = "nvidia.com/gpu"
SIDECAR = container("Always", cpu="1")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"containers": [{"name": "a"}, {"resources": None}]}, {}, id="no resources"),
        pytest.param(
            {"containers": [container(cpu="500m", memory="1Gi"), container(cpu=1, memory="512Mi")]},
            {"cpu": "1500m", "memory": "1536Mi"},
            id="containers together",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {GPU: 8, "cpu": "4"}, "requests": {"cpu": "2"}}}]},
            {GPU: "8", "cpu": "2"},
            id="limits where requests are missing",
        ),
        pytest.param(
            {"initContainers": [container(cpu="4")], "containers": [container(cpu="1", memory="1Gi")]},
            {"cpu": "4", "memory": "1Gi"},
            id="an init container that needs more",
        ),
        pytest.param(
            {"initContainers": [container("Always", cpu="1")], "containers": [container(cpu="1")]},
            {"cpu": "2"},
            id="a sidecar runs beside",
        ),
        pytest.param(
            {
                "initContainers": [
                    container("Always", cpu="1"),
                    container(cpu="3"),
                    container("Always", cpu="1"),
                ],
                "containers": [container(cpu="1")],
            },
            {"cpu": "4"},
            id="an init container beside the sidecar before it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="1Gi", **{GPU: 1})],
                "resources": {"requests": {"cpu": "3"}},
            },
            {"cpu": "3", "memory": "1Gi", GPU: "1"},
            id="of the pod as a whole",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "120Mi"}},
            {"cpu": "1250m", "memory": "120Mi"},
            id="overhead",
        ),
        pytest.param(
            {"containers": [container(cpu="1e999999999"), container(cpu="1")]},
            {"cpu": "1e999999999"},
            id="more than the quota",
        ),
    ],
)
def test_of_pod(pod: dict[str, Any], expected: dict[str, str]) -> None:
    assert {name: str(amount) for name, amount in of_pod(pod).items()} == expected


def test_total() -> None:
    requests = of_pod({"containers": [container(cpu="100m", memory="1Gi")]})
    assert {name: str(amount) for name, amount in total([requests] * 3).items()} == {
        "cpu": "300m",
        "memory": "3Gi",
    }
    assert total([]) == {}


def test_the_total_of_many_pods_is_the_sum_of_single_ones() -> None:
    requests = of_pod({"containers": [container(cpu="0.1", memory="1Gi", disk="1e3", odd="1e999999999")]})
    for count in range(5):
        row = {name: str(amount) for name, amount in total([requests] * count).items()}
        assert {name: str(amount) for name, amount in of_many(requests, count).items()} == row
