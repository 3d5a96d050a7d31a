"""What users are told of pods that must return to nodes without room for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lws.kube.conditions import find
from lws.kube.pods import NodeWait
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.status.problems import barred_pods, recheck_barred_pods
from test.unit.builders import NOW, make_set
from test.unit.set_world import carried_out, settled


def barred(*seconds: float) -> SetSnapshot:
    """A set at rest; then so many pods of group 0 have waited so long for their nodes."""
    snapshot = settled(make_set())
    first, *others = snapshot.groups
    waits = tuple(
        NodeWait(NOW - timedelta(seconds=each), pod=f"demo-0-{index}", node=f"node-{index}")
        for index, each in enumerate(seconds, start=1)
    )
    anywhere = NodeWait(NOW - timedelta(hours=1))
    return replace(snapshot, groups=(replace(first, waits=(anywhere, *waits)), *others))


def test_pods_that_have_waited_long_are_named_with_their_nodes() -> None:
    (problem,) = barred_pods(barred(40, 5, 60))
    assert (problem.reason, problem.message) == (
        "NodeReturnBlocked",
        "pods must return to their nodes and cannot be scheduled there: demo-0-1 to node node-1, demo-0-3 to "
        "node node-3; make room there, or name the nodes in "
        "leaderworkerset.sigs.k8s.io/node-return-except and delete the pods",
    )
    (problem,) = barred_pods(barred(*[60.0] * 12))
    assert "demo-0-10 to node node-10 and 2 more; make room" in problem.message


def test_the_scheduler_gets_some_time() -> None:
    assert [*barred_pods(barred(5, 20))] == []
    assert recheck_barred_pods(barred(5, 20, 60)) == 10
    assert recheck_barred_pods(barred(60)) is recheck_barred_pods(barred()) is None


def test_the_set_says_so_in_a_condition_and_once_in_an_event() -> None:
    snapshot = barred(60)
    planned = plan(snapshot)
    assert [(each.type, each.reason) for each in planned.announce] == [("Warning", "NodeReturnBlocked")]
    after = carried_out(snapshot, planned)
    condition = find(after.lws["status"]["conditions"], "ReplicaFailure")
    assert condition is not None and (condition["status"], condition["reason"]) == (
        "True",
        "NodeReturnBlocked",
    )
    freed = plan(replace(after, groups=settled(make_set()).groups))
    assert find(freed.statuses[0].patch["conditions"], "ReplicaFailure") is None
