"""Tests of the PodGroup of a group, field by field, as upstream's releases create it."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.group.gangs import Marks, Volcano
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL
from test.unit.builders import make_leader_pod, make_set

VOLCANO = Volcano()
GROUP_NAME = {"scheduling.k8s.io/group-name": "demo-1-key-a"}


def template(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": resources}]}}


def pod_group(lws: dict[str, Any], leader: dict[str, Any] | None = None) -> dict[str, Any]:
    return dict(VOLCANO.pod_group(lws, leader or make_leader_pod(lws, 1, annotations=GROUP_NAME)))


def test_the_pod_group_field_by_field() -> None:
    lws = make_set(
        size=3,
        annotations={"volcano.sh/task": "x", "scheduling.volcano.sh/queue-name": "gold", "note": "y"},
        template={
            "leaderTemplate": template(requests={"cpu": "500m"}),
            "workerTemplate": template(limits={"nvidia.com/gpu": "8"}, requests={"cpu": "1"}),
        },
    )
    assert pod_group(lws) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "demo-1-key-a",
            "namespace": "default",
            "labels": {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1", REVISION_LABEL: "key-a"},
            "annotations": {"volcano.sh/task": "x"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "demo-1",
                    "uid": "uid-of-pod-demo-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "minMember": 3,
            "minResources": {"cpu": "2500m", "nvidia.com/gpu": "16"},
            "queue": "gold",
        },
    }


def test_the_set_owns_the_pod_group_with_scheduling() -> None:
    annotations = {"volcano.sh/task": "x", "scheduling.volcano.sh/queue-name": "gold", "note": "y"}
    plain, owned = (
        pod_group(make_set(size=3, annotations=annotations, **more)) for more in ({}, {"scheduling": {}})
    )
    (owner,) = owned["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("LeaderWorkerSet", "uid-of-set-demo", True)
    (of_leader,) = plain["metadata"]["ownerReferences"]
    assert of_leader["kind"] == "Pod"
    owned["metadata"]["ownerReferences"] = plain["metadata"]["ownerReferences"]
    assert owned == plain


def test_pod_group_without_optional_fields() -> None:
    built = pod_group(make_set(size=1))
    assert built["spec"] == {"minMember": 1, "minResources": {}}
    assert "annotations" not in built["metadata"]


@pytest.mark.parametrize(
    ("size", "policy", "annotations", "members"),
    [
        pytest.param(4, "LeaderCreated", GROUP_NAME, 4, id="all"),
        pytest.param(4, "LeaderReady", GROUP_NAME, 1, id="leader only"),
        pytest.param(4, "LeaderCreated", {}, 1, id="created without gang scheduling"),
        pytest.param(1, "LeaderCreated", {}, 1, id="at least one member"),
    ],
)
def test_members(size: int, policy: str, annotations: dict[str, str], members: int) -> None:
    lws = make_set(size=size, startupPolicy=policy)
    built = pod_group(lws, make_leader_pod(lws, 1, annotations=annotations))
    assert built["spec"]["minMember"] == members


def test_a_pod_names_the_pod_group_of_its_revision() -> None:
    labels = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1", REVISION_LABEL: "key-a"}
    for size in (1, 3):
        assert VOLCANO.marks(labels, size, "ignored") == Marks(annotations=GROUP_NAME)
    assert VOLCANO.name_of({"metadata": {"labels": labels}}) == "demo-1-key-a"
