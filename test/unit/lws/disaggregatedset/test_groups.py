"""Tests that groups of a child are counted as serving, starting or failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.disaggregatedset.groups import child_facts
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.snapshot import ChildFacts
from lws.kube.conditions import timestamp
from lws.kube.pods import NodeWait
from lws.leaderworkerset.snapshot import GroupFacts
from lws_api.leaderworkerset.v1 import (
    GROUP_REPLACEMENT_GATE,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
)
from test.unit.builders import NOW, make_group
from test.unit.disaggregated import make_child, make_disaggregated

PREFILL = Identity(0, "1" * 8, "prefill")
LONG_AGO, LATELY = timestamp(NOW - timedelta(hours=1)), timestamp(NOW - timedelta(seconds=60))
RESTARTED = {"name": "main", "restartCount": 1}


def condition(kind: str, status: str, since: str = LONG_AGO) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": since}


def a_child(created: str = LONG_AGO, *conditions: Mapping[str, str], **more: Any) -> dict[str, Any]:
    status = {"observedGeneration": 1, "conditions": list(conditions), **more.pop("status", {})}
    child = make_child(make_disaggregated(), PREFILL, 3, status=status)
    child["metadata"]["creationTimestamp"] = created
    child["spec"] |= more
    return child


def group(
    child: dict[str, Any], index: int, created: str = LONG_AGO, is_ready: bool = False, **status: Any
) -> GroupFacts:
    facts = make_group(child, index, ready=is_ready)
    pod = dict(facts.leader)
    metadata = {**pod["metadata"], "creationTimestamp": created}
    return replace(facts, leader={**pod, "metadata": metadata, "status": {**pod["status"], **status}})


def judged(child: dict[str, Any], *groups: GroupFacts) -> ChildFacts:
    return child_facts(child, PREFILL, groups, NOW)


def counts(facts: ChildFacts) -> tuple[int, int, int, int]:
    return facts.ready, facts.broken_on_top, facts.starting, facts.failed_on_top


def test_groups_of_a_new_child_are_starting() -> None:
    child = a_child(LATELY)
    facts = judged(child, group(child, 0, LATELY, is_ready=True), group(child, 1, LATELY))
    assert counts(facts) == (1, 2, 2, 0)
    assert facts.judged_in == 540.0


def test_groups_of_a_child_that_was_never_available_are_not_starting_after_the_timeout() -> None:
    child = a_child()
    assert counts(judged(child, group(child, 0), group(child, 1))) == (0, 3, 0, 3)
    # One of the groups is young: it was recreated, and not because of a failure.
    assert counts(judged(child, group(child, 0), group(child, 1, LATELY))) == (0, 3, 1, 1)
    assert judged(child, group(child, 0)).judged_in is None


@pytest.mark.parametrize(
    ("available", "starting"),
    [
        pytest.param(condition("Available", "False", LATELY), 2, id="was available long ago"),
        pytest.param(condition("Available", "False"), 0, id="became unavailable recently"),
        pytest.param(condition("Available", "True"), 2, id="status not updated yet"),
    ],
)
def test_former_availability_of_a_child_determines_its_starting_groups(
    available: Mapping[str, str], starting: int
) -> None:
    child = a_child(LONG_AGO, available)
    facts = judged(child, group(child, 0), group(child, 1, is_ready=True), group(child, 2))
    assert facts.starting == starting


ENDED = {"state": {"terminated": {"exitCode": 1}}}
CRASHED = {"name": "main", **ENDED}


@pytest.mark.parametrize(
    ("recreated", "status", "has_failed"),
    [
        pytest.param(0, {"phase": "Failed"}, False, id="pod has failed"),
        pytest.param(
            0, {"containerStatuses": [{"name": "main", **ENDED}]}, False, id="a container has ended"
        ),
        pytest.param(0, {"containerStatuses": [RESTARTED]}, False, id="a container was started again"),
        pytest.param(0, {"containerStatuses": [RESTARTED | ENDED]}, True, id="and has ended again"),
        pytest.param(0, {"containerStatuses": [RESTARTED | {"restartCount": 2}]}, True, id="more than once"),
        pytest.param(1, {}, False, id="recreated"),
        pytest.param(1, {"phase": "Failed"}, True, id="recreated, pod has failed"),
        pytest.param(1, {"containerStatuses": [RESTARTED]}, True, id="recreated, container has crashed"),
        pytest.param(2, {}, True, id="recreated twice"),
    ],
)
def test_a_group_that_fails_again_is_not_starting(
    recreated: int, status: dict[str, Any], has_failed: bool
) -> None:
    child = a_child(LATELY)
    last = group(child, 2, LATELY, **status)
    key = last.leader["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/template-revision-hash"]
    if recreated:
        child["status"]["restarts"] = {"2": f"{recreated}.{recreated}.{int(NOW.timestamp()) - 20}.{key}"}
    others = group(child, 0, LATELY, is_ready=True), group(child, 1, LATELY)
    assert counts(judged(child, *others, last)) == ((1, 2, 1, 1) if has_failed else (1, 2, 2, 0))


def without_restarts_left(facts: GroupFacts) -> GroupFacts:
    """Return the group as upstream's limit of restarts ends it: a finalizer keeps the deleted leader."""
    metadata = facts.leader["metadata"]
    annotations = {**metadata.get("annotations", {}), RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true"}
    kept = {"annotations": annotations, "finalizers": [RESTART_BUDGET_FINALIZER], "deletionTimestamp": LATELY}
    return replace(facts, leader={**facts.leader, "metadata": {**metadata, **kept}})


def test_a_group_that_has_used_up_its_restarts_is_not_starting() -> None:
    child = a_child(LATELY, condition("Available", "False", LATELY))
    others = group(child, 0, LATELY, is_ready=True), group(child, 1, LATELY)
    facts = judged(child, *others, without_restarts_left(group(child, 2, LATELY)))
    assert counts(facts) == (1, 2, 1, 1)


@pytest.mark.parametrize(
    ("ended", "starting"),
    [
        pytest.param(1, 1, id="its successor is gated"),
        pytest.param(2, 0, id="all that are not ready"),
        pytest.param(0, 2, id="none"),
    ],
)
def test_a_hash_group_that_has_used_up_its_restarts_is_not_starting(ended: int, starting: int) -> None:
    child = a_child(LATELY, groupIdentity="Hash", status={"replicas": 3, "readyReplicas": 1})
    gated = {"schedulingGates": [{"name": GROUP_REPLACEMENT_GATE}]}
    successors = [group(child, index, LATELY) for index in (1, 2)]
    successors = [
        replace(facts, leader={**facts.leader, "spec": {**facts.leader["spec"], **gated}})
        for facts in successors
    ]
    former = [without_restarts_left(group(child, 10 + index, LATELY)) for index in range(ended)]
    facts = judged(child, group(child, 0, LATELY, is_ready=True), *successors, *former)
    assert (facts.ready, facts.starting) == (1, starting)


def test_a_terminating_hash_group_that_has_crashed_leaves_its_successor_starting() -> None:
    child = a_child(LATELY, groupIdentity="Hash", status={"replicas": 3, "readyReplicas": 2})
    crashed = group(child, 10, LATELY, containerStatuses=[RESTARTED | ENDED])
    metadata = {**crashed.leader["metadata"], "deletionTimestamp": LATELY}
    leaving = replace(crashed, leader={**crashed.leader, "metadata": metadata})
    ready = [group(child, index, LATELY, is_ready=True) for index in (0, 1)]
    assert judged(child, *ready, group(child, 2, LATELY), leaving).starting == 1
    assert judged(child, *ready, crashed).starting == 0


def test_groups_whose_pods_are_refused_are_not_starting() -> None:
    child = a_child(LATELY, condition("ReplicaFailure", "True"))
    assert counts(judged(child, group(child, 0, LATELY))) == (0, 3, 1, 2)
    assert child_facts(child, PREFILL, None, NOW).starting == 0


def test_the_deadline_of_the_role_limits_the_start_of_a_group() -> None:
    child = a_child(LONG_AGO, progressDeadlineSeconds=7200)
    facts = judged(child, group(child, 0), group(child, 1), group(child, 2))
    assert (facts.starting, facts.judged_in) == (3, 3600.0)
    child = a_child(LATELY, progressDeadlineSeconds=30)
    assert judged(child, group(child, 0)).starting == 0


def test_the_status_of_the_child_is_used_if_groups_are_not_watched() -> None:
    young = child_facts(a_child(LATELY, status={"readyReplicas": 1}), PREFILL, None, NOW)
    assert counts(young) == (1, 0, 2, 0)
    assert child_facts(a_child(status={"readyReplicas": 1}), PREFILL, None, NOW).starting == 0


def test_groups_that_are_not_ready_report_how_long_their_pods_wait_for_nodes() -> None:
    child, wait = a_child(LATELY), NodeWait(NOW)
    groups = [replace(group(child, index, is_ready=index == 0), waits=(wait,)) for index in (0, 1, 3)]
    assert judged(child, *groups).waits == (wait,)
