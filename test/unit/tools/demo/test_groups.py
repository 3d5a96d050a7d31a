from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from test.unit.tools.demo.objects import make_group, make_pod
from tools.demo.facts import Object, Pod, groups_of, pod_of

LEADERS = {"workers-0-uid": "quickstart-0-0-uid", "workers-0-uid-new": "quickstart-0-0-uid-new"}


def pods_of(objects: Iterable[Object]) -> list[Pod]:
    return [pod for pod in map(pod_of, objects) if pod is not None]


def test_a_whole_group_is_ready() -> None:
    (group,) = groups_of(pods_of(make_group(0)), LEADERS)
    assert group.is_ready and group.ready_workers == 3
    assert [pod.index for pod in group.pods] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param({"ready": False}, id="not ready"),
        pytest.param({"terminating": True}, id="terminating"),
        pytest.param({"owner": "workers-0-uid-of-the-former-leader"}, id="of a former leader"),
        pytest.param(None, id="missing"),
    ],
)
def test_a_group_with_a_missing_worker_is_not_ready(spoiled: dict[str, Any] | None) -> None:
    worker = {"owner": "workers-0-uid", **(spoiled or {})}
    pods = make_group(0)[:3] + ([make_pod(0, 3, **worker)] if spoiled is not None else [])
    (group,) = groups_of(pods_of(pods), LEADERS)
    assert not group.is_ready
    assert group.ready_workers == 2


def test_workers_of_the_former_leader_do_not_count() -> None:
    former, new = make_group(0), make_group(0, incarnation="-new")
    (group,) = groups_of(pods_of([*former[1:], new[0]]), LEADERS)
    assert group.leader is not None and group.leader.uid.endswith("-new")
    assert group.workers == () and not group.is_ready


def test_a_group_without_its_leader() -> None:
    (group,) = groups_of(pods_of(make_group(0)[1:]), LEADERS)
    assert group.leader is None and group.pods == () and group.size == 4 and not group.is_ready


def test_a_leader_alone_is_a_group_of_one() -> None:
    (group,) = groups_of(pods_of(make_group(0, size=1)), {})
    assert group.is_ready


def test_groups_are_ordered_by_index() -> None:
    pods = pods_of([*make_group(10), *make_group(2), *make_group(0)])
    assert [group.index for group in groups_of(pods, {})] == [0, 2, 10]
