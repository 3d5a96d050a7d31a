from __future__ import annotations

from typing import Any

import pytest

from test.unit.tools.demo.objects import (
    IMAGE,
    NAME,
    make_children,
    make_group,
    make_pod,
    make_set,
    make_view,
)
from tools.demo.facts import Kind, Record
from tools.demo.structure import Goal, is_empty, is_reached

GOAL = Goal(NAME, 4, IMAGE)
GROUPS = [pod for index in range(4) for pod in make_group(index)]


def test_a_correct_set_is_settled() -> None:
    assert is_reached(make_view(), GOAL)


@pytest.mark.parametrize(
    "goal",
    [
        pytest.param(Goal("another", 4, IMAGE), id="no such set"),
        pytest.param(Goal(NAME, 6, IMAGE), id="another size"),
        pytest.param(Goal(NAME, 4, "example.com/pause:3.9"), id="another image"),
        pytest.param(Goal(NAME, 4, IMAGE, {f"{NAME}-2-1-uid"}), id="an excess pod exists"),
    ],
)
def test_a_set_with_another_goal_is_not_settled(goal: Goal) -> None:
    assert not is_reached(make_view(), goal)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"readyReplicas": 3}, id="fewer ready"),
        pytest.param({"updatedReplicas": 3}, id="fewer up to date"),
        pytest.param({"observedGeneration": 0}, id="about an older spec"),
        pytest.param({"true": []}, id="not Available"),
        pytest.param({"true": ["Available", "Progressing"]}, id="Progressing"),
        pytest.param({"true": ["Available", "UpdateInProgress"]}, id="UpdateInProgress"),
    ],
)
def test_the_status_must_agree(status: dict[str, Any]) -> None:
    assert not is_reached(make_view(lws=make_set(**status)), GOAL)


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(GROUPS[:-1], id="a pod is missing"),
        pytest.param([*GROUPS, make_pod(4, 0)], id="one pod too many"),
        pytest.param([*GROUPS[:-1], make_pod(3, 3, ready=False)], id="a pod is not ready"),
    ],
)
def test_the_pods_must_agree(pods: list[dict[str, Any]]) -> None:
    assert not is_reached(make_view(pods, statefulsets=make_children(GROUPS)), GOAL)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"observedGeneration": 0}, id="generation not observed"),
        pytest.param({"readyReplicas": 2}, id="not ready"),
        pytest.param({"availableReplicas": 2}, id="not available"),
        pytest.param({"updatedReplicas": 2}, id="not updated"),
        pytest.param({"updateRevision": "other"}, id="revision not closed"),
    ],
)
def test_the_statefulsets_must_agree(status: dict[str, Any]) -> None:
    children = make_children(GROUPS)
    children[1]["status"] |= status
    assert not is_reached(make_view(statefulsets=children), GOAL)


def test_only_earlier_objects_and_history_remain() -> None:
    everything = make_view()
    assert not is_empty(everything, [])
    record = Record()
    record.replace(Kind.SERVICE, everything.objects[Kind.SERVICE])
    record.replace(Kind.LEASE, everything.objects[Kind.LEASE])
    assert not is_empty(record.view(), [])
    assert is_empty(record.view(), {"service-uid"})
