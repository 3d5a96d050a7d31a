"""Tests that a group is recreated after one of its pods has failed, and that the reason names the pod."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from lws.kube.pods import with_required_node
from lws.leaderworkerset.group.failures import Incident, incident_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.group_records import DELETING, KEPT, Members
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    RECREATE_GROUP_AFTER_START_ANNOTATION,
    RESTART_EXEMPT_CONTAINERS_ANNOTATION,
    RESTART_EXEMPT_SIDECARS_ANNOTATION,
    REVISION_LABEL,
)
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


def pod_with_restarts(count: int = 1, field: str = "containerStatuses", **entry: Any) -> dict[str, Any]:
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
    """Return a group of three pods.

    leader, workers: fields in which each pod differs from a healthy one.
    """
    lws = make_set(size=3, template={"restartPolicy": policy}, annotations=annotations)
    pod = make_leader_pod(lws, **(leader or {}))
    statefulset = make_worker_statefulset(pod)
    pods = tuple(make_worker_pod(statefulset, index, **fields) for index, fields in enumerate(workers, 1))
    return GroupSnapshot(lws, pod, NOW, worker_statefulset=statefulset, worker_pods=pods)


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        pytest.param(group(workers=({}, LEAVING)), "PodDeleted", id="deleted"),
        pytest.param(group(workers=({}, {"phase": "Failed"})), "PodFailed", id="failed"),
        pytest.param(group(leader=pod_with_restarts()), "ContainerRestarted", id="restarted"),
        pytest.param(
            replace(group(), replaced_workers=frozenset({"demo-0-1"})), "PodReplaced", id="replaced"
        ),
        pytest.param(
            replace(
                group(), replaced_workers=frozenset({"demo-0-1"}), disrupted_workers=frozenset({"demo-0-1"})
            ),
            "Disruption",
            id="evicted",
        ),
    ],
)
def test_failure_reason(snapshot: GroupSnapshot, reason: str) -> None:
    incident = incident_of(snapshot, 3)
    assert incident is not None and incident.reason == reason


def test_a_pod_waiting_to_return_to_its_node_is_not_lost() -> None:
    """The pod may have a finalizer of another controller, so that its deletion takes a while."""
    snapshot = group(workers=({}, {**LEAVING, **PENDING}))
    pod = snapshot.worker_pods[1]
    pod["metadata"]["annotations"][RETURNS_TO_ANNOTATION] = "node-1"
    pod["spec"]["affinity"] = with_required_node({}, "node-1")
    assert incident_of(snapshot, 3) is not None, "it was on a node"
    del pod["spec"]["nodeName"]
    assert incident_of(snapshot, 3) is None
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "x"}]
    disrupted = incident_of(snapshot, 3)
    assert disrupted is not None and disrupted.is_disruption


GONE, REPLACED = "it is being deleted", "it was replaced by another pod of that name"
RESTARTED = "container x ended and was restarted"


EVICTED = {
    "reason": "Evicted",
    "containerStatuses": [
        {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}},
        {"name": "done", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
    ],
}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({}, None, id="no failure"),
        pytest.param({"workers": (LEAVING, {})}, Incident("demo-0-1", GONE), id="a worker is deleted"),
        pytest.param(
            {"workers": ({}, pod_with_restarts())}, Incident("demo-0-2", RESTARTED), id="a worker restarted"
        ),
        pytest.param(
            {"leader": pod_with_restarts()}, Incident("demo-0", RESTARTED), id="the leader restarted"
        ),
        pytest.param(
            {"workers": (pod_with_restarts(field="initContainerStatuses"), {})},
            Incident("demo-0-1", RESTARTED),
            id="an init container restarted",
        ),
        pytest.param(
            {"leader": pod_with_restarts(), "workers": (LEAVING, {})},
            Incident("demo-0", RESTARTED),
            id="several reasons: that of the leader is reported",
        ),
        pytest.param(
            {"workers": ({"phase": "Failed"}, {})}, Incident("demo-0-1", "it failed"), id="a worker failed"
        ),
        pytest.param(
            {"workers": ({}, {"phase": "Failed", "status": EVICTED})},
            Incident("demo-0-2", "it failed (Evicted), container main exited with code 137 (Error)"),
            id="a worker was evicted",
        ),
        pytest.param(
            {"leader": {"phase": "Failed"}}, Incident("demo-0", "it failed"), id="the leader failed"
        ),
        pytest.param(
            {
                "workers": (
                    {},
                    pod_with_restarts(lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
                )
            },
            Incident("demo-0-2", "container x exited with code 137 (OOMKilled) and was restarted"),
            id="out of memory",
        ),
        pytest.param(
            {"workers": ({}, pod_with_restarts(lastState={"terminated": {"exitCode": 0}}))},
            Incident("demo-0-2", "container x exited with code 0 and was restarted"),
            id="ended without an error",
        ),
        pytest.param({"workers": ({"phase": "Succeeded"}, {})}, None, id="a worker that succeeded"),
        pytest.param({"workers": ({"ready": False}, {})}, None, id="a worker that is not ready"),
        pytest.param({"leader": LEAVING}, None, id="the leader is terminating already"),
        pytest.param(
            {"leader": LEAVING, "workers": (LEAVING, LEAVING)},
            None,
            id="the whole group is terminating already",
        ),
    ],
)
def test_failure_messages(pods: dict[str, Any], expected: Incident | None) -> None:
    incidents = {
        policy: incident_of(group(policy, **pods), 3) for policy in (ON_RESTART, AFTER_START, NONE, "Default")
    }
    assert incidents == {ON_RESTART: expected, AFTER_START: expected, NONE: None, "Default": None}


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
        pytest.param({"workers": (pod_with_restarts(), {})}, True, id="complete"),
        pytest.param({"workers": (pod_with_restarts(), {"phase": "Failed"})}, True, id="one failed"),
        pytest.param({"workers": (pod_with_restarts(), PENDING)}, False, id="another pod is pending"),
        pytest.param(
            {"workers": ({**PENDING, **pod_with_restarts()}, {})}, False, id="the failed pod is pending"
        ),
        pytest.param(
            {"workers": (pod_with_restarts(), {}), "leader": PENDING}, False, id="the leader is pending"
        ),
        pytest.param({"workers": (pod_with_restarts(),)}, False, id="one pod is missing"),
        pytest.param({"workers": (pod_with_restarts(), {}, {})}, True, id="a pod beyond the size"),
    ],
)
def test_recreate_after_start(
    policy: str,
    annotations: dict[str, str] | None,
    waits_for_start: bool,
    pods: dict[str, Any],
    has_started: bool,
) -> None:
    needed = incident_of(group(policy, annotations=annotations, **pods), 3)
    assert (needed is not None) is (has_started or not waits_for_start)


def test_the_annotation_alone_does_not_recreate_groups() -> None:
    assert incident_of(group(NONE, annotations=ANNOTATION, workers=(LEAVING, {})), 3) is None


def test_the_size_is_that_of_the_groups_own_revision() -> None:
    lost = group(AFTER_START, workers=(LEAVING, {}))
    assert incident_of(lost, 3) is not None
    assert incident_of(lost, 5) is None, "complete by its own revision would be five"


def test_lost_workers_of_another_revision_are_ignored() -> None:
    lost = group(workers=(LEAVING, {}))
    outdated = copy.deepcopy(dict(lost.worker_pods[0]))
    outdated["metadata"]["labels"][REVISION_LABEL] = "another"
    assert incident_of(replace(lost, worker_pods=(outdated, lost.worker_pods[1])), 3) is None


def test_workers_of_a_former_leader_are_ignored() -> None:
    lost = group(workers=(LEAVING, LEAVING))
    assert incident_of(replace(lost, leader=make_leader_pod(uid="u-new")), 3) is None


def test_a_replaced_worker_counts_as_lost() -> None:
    replaced = replace(group(), replaced_workers=("demo-0-2",))
    assert incident_of(replaced, 3) == Incident("demo-0-2", REPLACED)
    assert incident_of(replace(group(NONE), replaced_workers=("demo-0-2",)), 3) is None


def test_a_group_of_one() -> None:
    lws = make_set(size=1)
    alone = GroupSnapshot(lws, make_leader_pod(lws, **pod_with_restarts()), NOW)
    assert incident_of(alone, 1) == Incident("demo-0", RESTARTED)


# --- Restarts that do not count -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restarts", "of_start", "fails"),
    [
        pytest.param(1, 1, False, id="during the start"),
        pytest.param(2, 1, True, id="once more"),
        pytest.param(1, 0, True, id="after the start"),
    ],
)
def test_only_restarts_after_the_start_count_if_those_of_the_start_are_spared(
    restarts: int, of_start: int, fails: bool
) -> None:
    """The times of the restarts differ by what the clocks of two nodes may differ, in both directions."""
    for ended in ("2026-03-01T08:00:00Z", "2026-03-01T16:00:00Z", None):
        last = {"lastState": {"terminated": {"exitCode": 1, "finishedAt": ended}}} if ended else {}
        lost = group(AFTER_START, leader=pod_with_restarts(restarts, **last))
        at_start = {(lost.leader["metadata"]["uid"], "x"): of_start, ("another", "x"): 9}
        assert (incident_of(replace(lost, restarts_at_start=at_start), 3) is not None) is fails


def with_exempt_containers(containers: str = "", sidecars: str = "") -> dict[str, str]:
    return {RESTART_EXEMPT_CONTAINERS_ANNOTATION: containers, RESTART_EXEMPT_SIDECARS_ANNOTATION: sidecars}


def test_restarts_of_exempt_containers_do_not_count() -> None:
    lws = {"workers": (pod_with_restarts(), pod_with_restarts(field="initContainerStatuses"))}
    for listed, counts in (("x", False), (" a , x,", False), ("a,y", True), ("", True), (",", True)):
        assert (
            incident_of(group(annotations=with_exempt_containers(listed), **lws), 3) is not None
        ) is counts, listed


def test_a_container_that_is_not_exempt_counts_beside_one_that_is() -> None:
    status = {"containerStatuses": [{"name": name, "restartCount": 1} for name in ("log", "server")]}
    incident = incident_of(
        group(annotations=with_exempt_containers("log"), workers=({"status": status}, {})), 3
    )
    assert incident == Incident("demo-0-1", "container server ended and was restarted")


def test_failure_of_a_pod_with_an_exempt_container_counts() -> None:
    for special in (LEAVING, {"phase": "Failed"}):
        workers = ({**pod_with_restarts(), **special}, {})
        assert incident_of(group(annotations=with_exempt_containers("x"), workers=workers), 3) is not None


def test_restarts_of_exempt_sidecars_do_not_count() -> None:
    def with_init_container(value: str, restart_policy: str | None) -> GroupSnapshot:
        lost = group(
            annotations=with_exempt_containers(sidecars=value),
            workers=(pod_with_restarts(field="initContainerStatuses"), {}),
        )
        pod = copy.deepcopy(dict(lost.worker_pods[0]))
        pod["spec"]["initContainers"] = [{"name": "x", "restartPolicy": restart_policy}]
        return replace(lost, worker_pods=(pod, lost.worker_pods[1]))

    for value, counts in (("true", False), ("True", False), ("", True), ("false", True), ("1", True)):
        assert (incident_of(with_init_container(value, "Always"), 3) is not None) is counts, value
        assert incident_of(with_init_container(value, None), 3) is not None


# --- Records in the status ----------------------------------------------------------------------------------


def with_members(snapshot: GroupSnapshot, members: Any, index: str = "0") -> GroupSnapshot:
    lws = {**snapshot.lws, "status": {"members": {index: members} if isinstance(members, str) else members}}
    return replace(snapshot, lws=lws)


def uids(snapshot: GroupSnapshot) -> list[str]:
    return [pod["metadata"]["uid"] for pod in snapshot.worker_pods]


def members_in(snapshot: GroupSnapshot, *workers: str) -> str:
    return str(Members.of(snapshot.leader["metadata"]["uid"], workers or uids(snapshot)))


def of_an_earlier_release(workers: str) -> str:
    """Return a record of the leader as earlier releases wrote it, without a hash of both parts."""
    return f"{hashlib.sha256(b'uid-of-pod-demo-0').hexdigest()[:8]}-{workers}"


@pytest.mark.parametrize("policy", [ON_RESTART, AFTER_START, NONE])
def test_a_worker_replaced_while_no_manager_ran(policy: str) -> None:
    snapshot = group(policy, workers=({}, {"uid": "u-again"}))
    young = copy.deepcopy(dict(snapshot.worker_pods[1]))
    young["metadata"]["creationTimestamp"] = "2026-02-02T00:00:00Z"
    snapshot = replace(snapshot, worker_pods=(snapshot.worker_pods[0], young))
    before = with_members(snapshot, members_in(snapshot, uids(snapshot)[0], "u-before"))
    assert incident_of(before, 3) == (None if policy == NONE else Incident("demo-0-2", REPLACED))
    assert incident_of(with_members(snapshot, members_in(snapshot)), 3) is None


def test_a_replacement_among_workers_of_equal_age_is_reported_as_ambiguous() -> None:
    snapshot = group(workers=({}, {"uid": "u-again"}))
    incident = incident_of(with_members(snapshot, members_in(snapshot, uids(snapshot)[0], "u-before")), 3)
    why = "it, or another worker as young as it, was replaced by another pod of that name"
    assert incident == Incident("demo-0-2", why)


def test_a_worker_evicted_before_the_first_pass_is_not_a_failure() -> None:
    """The status records that there was another worker; the store knows how it ended."""
    snapshot = group(workers=({}, {"uid": "u-again"}))
    before = with_members(snapshot, members_in(snapshot, uids(snapshot)[0], "u-before"))
    incident = incident_of(replace(before, disrupted_workers=frozenset({"demo-0-2"})), 3)
    assert incident == Incident("demo-0-2", f"{REPLACED} after a disruption", True)


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(with_members(group(), None), id="nothing"),
        pytest.param(with_members(group(), members_in(group(), "other"), index="1"), id="another group"),
        pytest.param(with_members(group(), f"{'0' * 8}-{'1' * 8}"), id="a former leader"),
        pytest.param(with_members(group(), of_an_earlier_release("")), id="truncated"),
        pytest.param(with_members(group(), of_an_earlier_release("XXXXXXXX")), id="no hash"),
        pytest.param(with_members(group(), of_an_earlier_release("11111111 ")), id="trailing text"),
        pytest.param(with_members(group(), [of_an_earlier_release("11111111")]), id="a list"),
        pytest.param(with_members(group(), {"0": 7, "x": "y"}), id="numbers"),
        pytest.param(replace(group(), lws={**group().lws, "status": None}), id="no status"),
        pytest.param(with_members(group(workers=({},)), members_in(group())), id="a worker is missing"),
        pytest.param(
            with_members(group(workers=({}, {}, {}, {})), members_in(group())),
            id="scaled up by hand",
        ),
        pytest.param(
            with_members(group(workers=({}, {}, LEAVING)), members_in(group())),
            id="scaled back down",
        ),
        pytest.param(
            with_members(
                replace(group(), leader=make_leader_pod(uid="u-new"), worker_pods=()), members_in(group())
            ),
            id="rebuilt in a rollout",
        ),
    ],
)
def test_missing_invalid_or_foreign_members_restart_nothing(snapshot: GroupSnapshot) -> None:
    assert incident_of(snapshot, 3) is None


def test_a_decision_to_delete_a_leader_is_kept() -> None:
    for mark in (DELETING, KEPT):
        for record in (str(Members.sealed("uid-of-pod-demo-0", mark)), of_an_earlier_release(mark)):
            marked = with_members(group(), record)
            assert incident_of(marked, 3) == Incident("demo-0", "its group had failed before")
            assert incident_of(replace(marked, leader=make_leader_pod(uid="u-new")), 3) is None
            assert incident_of(with_members(group(NONE), record), 3) is None


@pytest.mark.parametrize("workers", ["deadbeef", DELETING, KEPT])
def test_an_edited_record_restarts_nothing(workers: str) -> None:
    leader, recorded = members_in(group()).split("-")
    assert incident_of(with_members(group(), f"{leader}-{workers}"), 3) is None
    assert incident_of(with_members(group(), f"{workers}-{recorded}"), 3) is None


def test_records_of_earlier_releases_show_replaced_workers() -> None:
    snapshot = group()
    _, same = members_in(snapshot).split("-")
    _, other = members_in(snapshot, "u-before", "u-other").split("-")
    assert incident_of(with_members(snapshot, of_an_earlier_release(same)), 3) is None
    assert incident_of(with_members(snapshot, of_an_earlier_release(other)), 3) is not None


def test_observed_replacements_of_other_pods_are_ignored() -> None:
    assert incident_of(replace(group(), replaced_workers=("demo-0-5",)), 3) is None


# --- Disruptions --------------------------------------------------------------------------------------------

BY_API = "EvictionByEvictionAPI"
TARGET = {"type": "DisruptionTarget", "status": "True", "reason": BY_API}


def disrupted(**pod: Any) -> dict[str, Any]:
    return {**pod, "status": {**pod.get("status", {}), "conditions": [TARGET]}}


EVICTED_BY_API = Incident("demo-0-1", f"it is being deleted ({BY_API})", is_disruption=True)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({"workers": (disrupted(terminating=True), {})}, EVICTED_BY_API, id="a worker"),
        pytest.param(
            {"workers": (disrupted(phase="Failed", status=EVICTED), {})},
            Incident("demo-0-1", "it failed (Evicted), container main exited with code 137 (Error)", True),
            id="a worker, by its kubelet",
        ),
        pytest.param(
            {"leader": disrupted(phase="Failed")}, Incident("demo-0", "it failed", True), id="the leader"
        ),
        pytest.param({"workers": (disrupted(), {})}, None, id="not terminating yet"),
        pytest.param(
            {"leader": pod_with_restarts(), "workers": (disrupted(terminating=True), pod_with_restarts())},
            EVICTED_BY_API,
            id="others failed after the disruption",
        ),
        pytest.param(
            {"workers": (disrupted(**pod_with_restarts()), {})},
            Incident("demo-0-1", RESTARTED),
            id="restart of a container",
        ),
    ],
)
def test_a_disrupted_pod_is_not_a_failure(pods: dict[str, Any], expected: Incident | None) -> None:
    assert incident_of(group(**pods), 3) == expected


def test_a_pod_deleted_by_a_disruption_is_not_a_failure() -> None:
    snapshot = replace(
        group(), replaced_workers=("demo-0-1", "demo-0-2"), disrupted_workers=frozenset({"demo-0-2"})
    )
    assert incident_of(snapshot, 3) == Incident("demo-0-2", f"{REPLACED} after a disruption", True)
    assert incident_of(replace(snapshot, disrupted_workers=frozenset()), 3) == Incident("demo-0-1", REPLACED)


def test_size_annotations_of_any_number_cause_no_error() -> None:
    assert incident_of(group(), 10**10) is None
