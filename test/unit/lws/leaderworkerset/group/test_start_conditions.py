"""Tests of what the workers of a group wait for before they are created."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import timestamp
from lws.leaderworkerset.group.placement import Placement
from lws.leaderworkerset.group.plan import plan, plan_delay
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.revisions.reading import parse
from lws.runtime.actions import Create, Merge, Object
from lws_api.leaderworkerset.placement import SHARED_TOPOLOGY_ANNOTATION
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION, FORMER_GROUP_GONE_LABEL
from test.unit import api_server
from test.unit.builders import (
    KEY,
    NOW,
    build_revision,
    make_leader_pod,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)

FORMER = "the pods of the former workers to be gone"


def group(*former: Object, age: float = 2, lws: Any = None, ready: bool = True) -> GroupSnapshot:
    """Return group 0, of which only the leader exists.

    former: worker pods of the former group. age: seconds since the leader was created.
    """
    lws = lws if lws is not None else make_set(size=3)
    leader = make_leader_pod(lws, ready=ready)
    leader["metadata"]["creationTimestamp"] = timestamp(NOW - timedelta(seconds=age))
    revision = parse(api_server.stored(dict(build_revision(lws, record(lws), 1, key=KEY))))
    return GroupSnapshot(lws, leader, NOW, revision, former_workers=former)


def former(index: int = 1, grace: float | None = None) -> dict[str, Any]:
    """Return a worker pod of the former group.

    grace: seconds left until its end; None while it is not being deleted.
    """
    pod = make_worker_pod(make_worker_statefulset(make_leader_pod(make_set(size=3))), index)
    if grace is not None:
        end = timestamp(NOW + timedelta(seconds=grace))
        pod["metadata"] |= {"deletionTimestamp": end, "deletionGracePeriodSeconds": 30}
    return pod


@pytest.mark.parametrize(
    ("snapshot", "seconds"),
    [
        pytest.param(group(), None, id="no pod has their names"),
        pytest.param(group(former()), 58, id="before garbage collection"),
        pytest.param(group(former(), age=60), None, id="no garbage collection"),
        pytest.param(group(former(), age=-3600), None, id="the clock was set back"),
        pytest.param(group(former(grace=28)), 33, id="terminated by a kubelet"),
        pytest.param(group(former(grace=600)), 605, id="within its grace period"),
        pytest.param(group(former(grace=0)), 5, id="its grace period has just ended"),
        pytest.param(group(former(grace=-5)), None, id="a lost node holds it"),
        pytest.param(group(former(grace=28), age=3600), 33, id="however old the leader is"),
        pytest.param(
            group(former(grace=-300), former(2, grace=10)), 15, id="another pod can still terminate"
        ),
        pytest.param(group(former(), former(2, grace=10)), 58, id="the latest of several"),
    ],
)
def test_former_workers_are_waited_for_while_they_can_terminate(
    snapshot: GroupSnapshot, seconds: float | None
) -> None:
    planned = plan(snapshot)
    waits = seconds is not None
    assert (planned.again_after, planned.waiting_for) == (seconds, FORMER if waits else "")
    created = [action for sequence in planned.sequences for action in sequence]
    assert [isinstance(action, Create) for action in created] == ([] if waits else [True])
    assert planned.announce == () and planned.stuck_pods == 0


@pytest.mark.parametrize("field", ["creationTimestamp", "deletionTimestamp"])
def test_no_wait_without_a_known_duration(field: str) -> None:
    pod = former(grace=28 if field == "deletionTimestamp" else None)
    snapshot = group(pod)
    for obj in (pod, snapshot.leader):
        if field in obj["metadata"]:
            obj["metadata"][field] = "soon"
    assert plan_delay(snapshot, Placement()) is None


@pytest.mark.parametrize(
    ("snapshot", "placement", "waiting_for"),
    [
        pytest.param(
            group(former(), lws=make_set(size=3, startupPolicy="LeaderReady"), ready=False),
            Placement(),
            "the leader pod to be ready (startupPolicy LeaderReady)",
            id="leader not ready",
        ),
        pytest.param(group(former()), Placement(waiting_for="a node"), "a node", id="no node yet"),
        pytest.param(
            replace(group(former()), drops_start_ordinal=True),
            Placement(),
            "an API server that keeps spec.ordinals.start of StatefulSets",
            id="no start ordinals",
        ),
        pytest.param(
            group(former(), lws=make_set(size=3, startupPolicy="LeaderReady")),
            Placement(),
            FORMER,
            id="leader ready",
        ),
    ],
)
def test_other_reasons_to_wait_come_first(
    snapshot: GroupSnapshot, placement: Placement, waiting_for: str
) -> None:
    planned = plan_delay(snapshot, placement)
    assert planned is not None and planned.waiting_for == waiting_for


def test_existing_workers_do_not_wait() -> None:
    snapshot = group()
    workers = make_worker_statefulset(dict(snapshot.leader))
    planned = plan(replace(snapshot, worker_statefulset=workers, former_workers=(former(),)))
    assert planned.is_empty and not planned.waiting_for


def rejected_by_the_scheduler(*former_workers: Object, **more: Any) -> GroupSnapshot:
    """Return group 0 of a set with a topology, whose leader the scheduler could not place."""
    topology = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}
    snapshot = group(
        *former_workers, lws=make_set(size=more.pop("size", 3), annotations=more.pop("annotations", topology))
    )
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    snapshot.leader["status"] = {"phase": "Pending", "conditions": more.pop("conditions", [condition])}
    snapshot.leader["metadata"]["labels"] |= more.pop("labels", {})
    snapshot.leader["spec"] |= more.pop("spec", {})
    return replace(snapshot, **more)


@pytest.mark.parametrize(
    ("snapshot", "is_looked_at"),
    [
        pytest.param(rejected_by_the_scheduler(), True, id="no former pods"),
        pytest.param(rejected_by_the_scheduler(former()), False, id="a former worker"),
        pytest.param(rejected_by_the_scheduler(former(grace=28)), False, id="a terminating former worker"),
        pytest.param(
            rejected_by_the_scheduler(terminating_pods=(former(grace=28),)),
            False,
            id="a former worker with its StatefulSet",
        ),
        pytest.param(
            rejected_by_the_scheduler(
                worker_statefulset=make_worker_statefulset(make_leader_pod(make_set(size=3)))
            ),
            False,
            id="the former worker StatefulSet",
        ),
        pytest.param(
            rejected_by_the_scheduler(labels={FORMER_GROUP_GONE_LABEL: "true"}), False, id="already patched"
        ),
        pytest.param(rejected_by_the_scheduler(conditions=[]), False, id="not rejected by the scheduler"),
        pytest.param(
            rejected_by_the_scheduler(spec={"schedulingGates": [{"name": "g"}]}), False, id="it is gated"
        ),
        pytest.param(rejected_by_the_scheduler(annotations={}), False, id="no topology"),
        pytest.param(rejected_by_the_scheduler(size=1), False, id="no workers"),
        pytest.param(
            rejected_by_the_scheduler(annotations={SHARED_TOPOLOGY_ANNOTATION: "rack"}),
            True,
            id="a shared topology",
        ),
    ],
)
def test_the_scheduler_retries_a_leader_after_its_former_group_is_deleted(
    snapshot: GroupSnapshot, is_looked_at: bool
) -> None:
    merges = [
        action for sequence in plan(snapshot).sequences for action in sequence if isinstance(action, Merge)
    ]
    patch = {"metadata": {"labels": {FORMER_GROUP_GONE_LABEL: "true"}}}
    assert [merge.patch for merge in merges] == ([patch] if is_looked_at else [])
