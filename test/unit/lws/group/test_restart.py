"""When is a group recreated, and because of which pod?"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from lws.group.restart import Restart, restart_needed
from lws.group.snapshot import GroupSnapshot
from lws_api.leaderworkerset.v1 import RECREATE_GROUP_AFTER_START_ANNOTATION, REVISION_LABEL
from test.unit.builders import (
    NOW,
    make_leader_pod,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)

ON_RESTART, AFTER_START, NONE = "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"
LEAVING = {"terminating": True}
PENDING = {"phase": "Pending"}


def restarted(count: int = 1, field: str = "containerStatuses", **entry: Any) -> dict[str, Any]:
    return {
        "status": {
            field: [{"name": "other", "restartCount": 0}, {"name": "x", "restartCount": count, **entry}]
        }
    }


def group(
    policy: str = ON_RESTART,
    *,
    leader: dict[str, Any] | None = None,
    workers: tuple[dict[str, Any], ...] = ({}, {}),
    annotations: dict[str, str] | None = None,
) -> GroupSnapshot:
    """A group of three. leader, workers: what is special about each pod."""
    lws = make_set(size=3, template={"restartPolicy": policy}, annotations=annotations)
    pod = make_leader_pod(lws, **(leader or {}))
    statefulset = make_worker_statefulset(pod)
    pods = tuple(make_worker_pod(statefulset, index, **each) for index, each in enumerate(workers, 1))
    return GroupSnapshot(lws, pod, NOW, worker_statefulset=statefulset, workers=pods)


GONE, RESTARTED = "is being deleted", "had a container restart"


@pytest.mark.parametrize(
    ("policy", "recreates"), [(ON_RESTART, True), (AFTER_START, True), (NONE, False), ("Default", False)]
)
@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({}, None, id="all well"),
        pytest.param({"workers": (LEAVING, {})}, Restart("demo-0-1", GONE), id="a worker is deleted"),
        pytest.param({"workers": ({}, restarted())}, Restart("demo-0-2", RESTARTED), id="a worker restarted"),
        pytest.param({"leader": restarted()}, Restart("demo-0", RESTARTED), id="the leader restarted"),
        pytest.param(
            {"workers": (restarted(field="initContainerStatuses"), {})},
            Restart("demo-0-1", RESTARTED),
            id="an init container restarted",
        ),
        pytest.param(
            {"leader": restarted(), "workers": (LEAVING, {})},
            Restart("demo-0", RESTARTED),
            id="several reasons: the leader's is told",
        ),
        pytest.param({"workers": ({"phase": "Failed"}, {})}, None, id="a failed worker: it will be replaced"),
        pytest.param(
            {"workers": ({"phase": "Failed", **restarted()}, {})},
            None,
            id="a failed worker that had restarted",
        ),
        pytest.param({"workers": ({"phase": "Succeeded"}, {})}, None, id="a worker that is done"),
        pytest.param({"workers": ({"ready": False}, {})}, None, id="a worker that is not ready"),
        pytest.param({"leader": LEAVING}, None, id="the leader goes already"),
        pytest.param(
            {"leader": LEAVING, "workers": (LEAVING, LEAVING)}, None, id="the whole group goes already"
        ),
    ],
)
def test_reasons(policy: str, recreates: bool, pods: dict[str, Any], expected: Restart | None) -> None:
    assert restart_needed(group(policy, **pods), 3) == (expected if recreates else None)


ANNOTATION = {RECREATE_GROUP_AFTER_START_ANNOTATION: ""}


@pytest.mark.parametrize(
    ("policy", "annotations", "waits_for_start"),
    [
        pytest.param(ON_RESTART, None, False, id="on restart"),
        pytest.param(ON_RESTART, ANNOTATION, True, id="on restart, with the annotation"),
        pytest.param(AFTER_START, None, True, id="after start"),
        pytest.param(AFTER_START, ANNOTATION, True, id="after start, with the annotation"),
    ],
)
@pytest.mark.parametrize(
    ("pods", "has_started"),
    [
        pytest.param({"workers": (restarted(), {})}, True, id="complete"),
        pytest.param({"workers": (restarted(), {"phase": "Failed"})}, True, id="one failed"),
        pytest.param({"workers": (restarted(), PENDING)}, False, id="another is pending"),
        pytest.param({"workers": ({**PENDING, **restarted()}, {})}, False, id="it is pending itself"),
        pytest.param({"workers": (restarted(), {}), "leader": PENDING}, False, id="the leader is pending"),
        pytest.param({"workers": (restarted(),)}, False, id="one is missing"),
        pytest.param({"workers": (restarted(), {}, {})}, False, id="one too many"),
    ],
)
def test_a_group_that_has_not_started_is_left_alone_where_the_set_says_so(
    policy: str,
    annotations: dict[str, str] | None,
    waits_for_start: bool,
    pods: dict[str, Any],
    has_started: bool,
) -> None:
    needed = restart_needed(group(policy, annotations=annotations, **pods), 3)
    assert (needed is not None) is (has_started or not waits_for_start)


def test_the_annotation_alone_recreates_nothing() -> None:
    assert restart_needed(group(NONE, annotations=ANNOTATION, workers=(LEAVING, {})), 3) is None


def test_the_size_is_that_of_the_groups_own_revision() -> None:
    lost = group(AFTER_START, workers=(LEAVING, {}))
    assert restart_needed(lost, 3) is not None
    assert restart_needed(lost, 5) is None, "complete by its own revision would be five"


def test_workers_of_another_revision_are_being_replaced_anyway() -> None:
    lost = group(workers=(LEAVING, {}))
    other = copy.deepcopy(dict(lost.workers[0]))
    other["metadata"]["labels"][REVISION_LABEL] = "another"
    assert restart_needed(replace(lost, workers=(other, lost.workers[1])), 3) is None


def test_workers_of_a_former_leader_say_nothing() -> None:
    lost = group(workers=(LEAVING, LEAVING))
    assert restart_needed(replace(lost, leader=make_leader_pod(uid="u-new")), 3) is None


def test_a_worker_that_came_back_as_another_pod_was_lost() -> None:
    replaced = replace(group(), replaced=("demo-0-2",))
    assert restart_needed(replaced, 3) == Restart("demo-0-2", "was replaced")
    assert restart_needed(replace(group(NONE), replaced=("demo-0-2",)), 3) is None


def test_a_group_of_one() -> None:
    lws = make_set(size=1)
    alone = GroupSnapshot(lws, make_leader_pod(lws, **restarted()), NOW)
    assert restart_needed(alone, 1) == Restart("demo-0", RESTARTED)
