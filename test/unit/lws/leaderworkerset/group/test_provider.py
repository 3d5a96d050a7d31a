"""Tests of lws.leaderworkerset.group.gangs: numbers and names that are the same for all providers."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.group.gangs import (
    build_pod_group,
    first_members,
    name_by_labels,
    requests_of_group,
)
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.placement import SHARED_TOPOLOGY_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.builders import make_leader_pod, make_set

LABELS = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1", REVISION_LABEL: "key-a"}
GPU = "nvidia.com/gpu"


def test_the_largest_group_is_counted_at_once() -> None:
    """Admission accepts it, and a list of its pods would exhaust the memory."""
    size = 2**31 - 1
    containers = [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]
    lws = make_set(size=size, template={"workerTemplate": {"spec": {"containers": containers}}})
    assert (first_members(SetSpec.of(lws), True), requests_of_group(SetSpec.of(lws))) == (
        size,
        {"cpu": str(size)},
    )


@pytest.mark.parametrize(
    ("lws", "is_marked", "members"),
    [
        pytest.param(make_set(size=4), True, 4, id="all"),
        pytest.param(make_set(size=4, startupPolicy="LeaderReady"), True, 1, id="workers that start later"),
        pytest.param(
            make_set(size=4, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}),
            True,
            1,
            id="workers that follow their leader's node",
        ),
        pytest.param(
            make_set(size=4, annotations={SHARED_TOPOLOGY_ANNOTATION: "zone"}),
            True,
            1,
            id="workers that follow it with shared topology",
        ),
        pytest.param(
            make_set(
                size=4,
                annotations={SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"},
                template={"subGroupPolicy": {"subGroupSize": 2}},
            ),
            True,
            4,
            id="subgroups apart",
        ),
        pytest.param(make_set(size=4), False, 1, id="created without gang scheduling"),
        pytest.param(make_set(size=1), True, 1, id="a leader alone"),
    ],
)
def test_members(lws: dict[str, Any], is_marked: bool, members: int) -> None:
    assert first_members(SetSpec.of(lws), is_marked) == members


def container(restart: str = "", **resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources} | ({"restartPolicy": restart} if restart else {})


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


WORKER = pod(container(requests={"cpu": "1"}))


@pytest.mark.parametrize(
    ("size", "template", "expected"),
    [
        pytest.param(3, {"workerTemplate": WORKER}, {"cpu": "3"}, id="same template for leaders"),
        pytest.param(
            3,
            {"leaderTemplate": pod(container(requests={"cpu": "500m"})), "workerTemplate": WORKER},
            {"cpu": "2500m"},
            id="separate leader template",
        ),
        pytest.param(1, {"workerTemplate": WORKER}, {"cpu": "1"}, id="a leader alone"),
        pytest.param(
            2,
            {"workerTemplate": pod(container(limits={GPU: 8, "cpu": "4"}, requests={"cpu": "2"}))},
            {GPU: "16", "cpu": "4"},
            id="limits where requests are missing",
        ),
        pytest.param(
            2,
            {
                "leaderTemplate": pod(
                    container(requests={"cpu": "1"}), initContainers=[container(requests={"cpu": "5"})]
                ),
                "workerTemplate": WORKER,
            },
            {"cpu": "6"},
            id="an init container that needs more",
        ),
        pytest.param(
            2,
            {
                "workerTemplate": pod(
                    container(requests={"cpu": "1"}),
                    initContainers=[container("Always", requests={"cpu": "250m"})],
                )
            },
            {"cpu": "2500m"},
            id="sidecar",
        ),
        pytest.param(
            2,
            {"workerTemplate": {**WORKER, "spec": {**WORKER["spec"], "overhead": {"memory": "128Mi"}}}},
            {"cpu": "2", "memory": "256Mi"},
            id="overhead",
        ),
        pytest.param(
            5,
            {"workerTemplate": WORKER, "subGroupPolicy": {"subGroupSize": 2}},
            {"cpu": "5"},
            id="subgroups are one gang",
        ),
        pytest.param(2, {"workerTemplate": pod(container())}, {}, id="no requests"),
    ],
)
def test_requests(size: int, template: dict[str, Any], expected: dict[str, str]) -> None:
    assert requests_of_group(SetSpec.of(make_set(size=size, template=template))) == expected


def test_a_pod_group_is_owned_by_its_leader_and_found_by_its_labels() -> None:
    leader = make_leader_pod(make_set(), 1)
    pod_group = build_pod_group("x/v1", "demo-1-key-a", leader, {"a": 1})
    owner = pod_group["metadata"].pop("ownerReferences")
    assert pod_group == {
        "apiVersion": "x/v1",
        "kind": "PodGroup",
        "metadata": {"name": "demo-1-key-a", "namespace": "default", "labels": LABELS},
        "spec": {"a": 1},
    }
    assert [reference["uid"] for reference in owner] == [leader["metadata"]["uid"]]
    assert name_by_labels(LABELS) == "demo-1-key-a"
