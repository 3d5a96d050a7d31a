"""Tests of lws.leaderworkerset.group.gangs: labels of pods, and the PodGroup field by field."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.names import LABEL_LENGTH
from lws.leaderworkerset.group.gangs import TIMEOUT_ANNOTATION, Coscheduling, Marks, timeout_seconds
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL
from test.unit.builders import make_leader_pod, make_set

PROVIDER = Coscheduling()
POD_GROUP = "scheduling.x-k8s.io/pod-group"
LABELS = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1", REVISION_LABEL: "key-a"}


def marked_leader(lws: dict[str, Any]) -> dict[str, Any]:
    leader = make_leader_pod(lws, 1)
    leader["metadata"]["labels"][POD_GROUP] = "demo-1-key-a"
    return leader


def test_the_pod_group_field_by_field() -> None:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    lws = make_set(
        size=3,
        annotations={TIMEOUT_ANNOTATION: "120", "volcano.sh/task": "not for this scheduler"},
        template={"workerTemplate": {"spec": {"containers": [container]}}},
    )
    pod_group = PROVIDER.pod_group(lws, marked_leader(lws))
    assert pod_group == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": "demo-1-key-a",
            "namespace": "default",
            "labels": LABELS,
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
        "spec": {"minMember": 3, "minResources": {"nvidia.com/gpu": "24"}, "scheduleTimeoutSeconds": 120},
    }


@pytest.mark.parametrize(
    ("size", "policy", "is_marked", "members"),
    [
        pytest.param(4, "LeaderCreated", True, 4, id="all"),
        pytest.param(4, "LeaderReady", True, 1, id="leader only"),
        pytest.param(4, "LeaderCreated", False, 1, id="created without gang scheduling"),
    ],
)
def test_members(size: int, policy: str, is_marked: bool, members: int) -> None:
    lws = make_set(size=size, startupPolicy=policy)
    pod_group = PROVIDER.pod_group(lws, marked_leader(lws) if is_marked else make_leader_pod(lws, 1))
    assert pod_group["spec"] == {"minMember": members, "minResources": {}}


def test_pods_of_a_group_name_its_pod_group_unless_the_leader_is_alone() -> None:
    assert PROVIDER.marks(LABELS, 3, "ignored") == Marks(labels={POD_GROUP: "demo-1-key-a"})
    assert PROVIDER.marks(LABELS, 1, "ignored") == Marks()
    assert PROVIDER.name_of(make_leader_pod(make_set(size=3), 1)) == "demo-1-key-a"
    assert PROVIDER.name_of(make_leader_pod(make_set(size=1), 1)) == ""


def test_pod_group_names_fit_a_label_and_are_unique() -> None:
    """Keys of old releases have 40 digits."""
    names = set()
    for length in (1, 20, 52):
        for index in (0, 9999999):
            for key in ("5d4f8b6c97", "0" * 40, "0" * 39 + "1"):
                labels = {NAME_LABEL: "x" * length, GROUP_INDEX_LABEL: str(index), REVISION_LABEL: key}
                name = PROVIDER.marks(labels, 2, "")
                names.add(name.labels[POD_GROUP])
                assert PROVIDER.name_of({"metadata": {"labels": labels}}) == name.labels[POD_GROUP]
    assert len(names) == 18
    assert max(map(len, names)) == LABEL_LENGTH


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("1", 1),
        ("999999999", 999_999_999),
        ("0", None),
        ("-5", None),
        ("1m", None),
        ("1.5", None),
        ("1000000000", None),
        ("", None),
        (None, None),
        (5, None),
    ],
    ids=repr,
)
def test_timeouts(timeout: object, seconds: int | None) -> None:
    assert timeout_seconds(timeout) == seconds
