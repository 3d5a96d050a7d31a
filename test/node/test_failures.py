"""Failures as the kubelet reports them, under each restart policy, as docs/concepts/failures.md describes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from test.harness.waiting import eventually, stays
from test.node.groups import (
    HEALTHY,
    NONE,
    POLICIES,
    QUIET_SECONDS,
    RESTART,
    SECONDS,
    SHORT_NAMES,
    Groups,
    Pod,
    is_ready,
    manifest,
    member,
    restarts,
    statuses,
    uids,
    with_policy,
)
from tools.realnode.cluster import RealCluster
from tools.realnode.images import MEMBERS
from tools.realnode.members import devour, end, fill, sicken


@dataclass(frozen=True)
class Failure:
    """One way in which a container of a running pod fails, and how the kubelet reports it."""

    pod: dict[str, Any]
    strike: Callable[[Pod], None]
    exit_code: int
    reason: str
    container: str = "member"


SIDECAR = {
    "name": "side",
    "image": MEMBERS[0],
    "args": ["serve"],
    "restartPolicy": "Always",
    "env": [{"name": "MEMBER_PORT", "value": "8082"}],
}
STARTED = {**HEALTHY, "failureThreshold": 120}
FAILURES = {
    "exit": Failure({"containers": [member()]}, lambda pod: end(pod, 3), 3, "Error"),
    "memory": Failure(
        {"containers": [member(resources={"limits": {"memory": "64Mi"}})]}, devour, 137, "OOMKilled"
    ),
    "liveness": Failure(
        {"containers": [member(livenessProbe=HEALTHY, startupProbe=STARTED)]}, sicken, 0, "Completed"
    ),
    "sidecar": Failure(
        {"containers": [member()], "initContainers": [SIDECAR]},
        lambda pod: end(pod, 4, 8082),
        4,
        "Error",
        "side",
    ),
}
CASES = [(failure, policy) for failure in FAILURES for policy in POLICIES]


def name_of(failure: str, policy: str) -> str:
    return f"{failure}-{SHORT_NAMES[policy]}"


@pytest.fixture(scope="module")
def running(product: RealCluster) -> Iterator[Groups]:
    """A set for each case, all started at the same time."""
    with Groups(product, "failures").in_own_namespace() as groups:
        groups.apply(
            *(manifest(name_of(*case), with_policy(case[1]), FAILURES[case[0]].pod) for case in CASES)
        )
        for case in CASES:
            groups.ready(name_of(*case), 2)
        yield groups


@pytest.mark.parametrize(("failure", "policy"), CASES, ids=[name_of(*case) for case in CASES])
def test_a_container_of_a_worker_fails(running: Groups, failure: str, policy: str) -> None:
    name, how = name_of(failure, policy), FAILURES[failure]
    before = running.pods(name)
    how.strike(before[f"{name}-0-1"])
    if policy == NONE:
        worker = eventually(
            "the container restarts",
            lambda: running.pods(name)[f"{name}-0-1"],
            lambda pod: restarts(pod)[how.container] == 1 and is_ready(pod),
            SECONDS,
        )
        ended = statuses(worker)[how.container]["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (how.exit_code, how.reason)
        stays("no pod is replaced", lambda: uids(running.pods(name)), QUIET_SECONDS)
        assert uids(running.pods(name)) == uids(before)
        assert "RecreateGroup" not in running.event_reasons(name)
    else:
        running.recreated(name, before)
        assert "RecreateGroup" in running.event_reasons(name)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_waits_for_a_missing_image(groups: Groups, policy: str) -> None:
    """Nothing fails: the group waits, and starts once there is an image."""
    missing = member(image="localhost/missing:1", imagePullPolicy="Never")
    groups.apply(manifest("missing", with_policy(policy), {"containers": [missing]}))
    pods = eventually(
        "the kubelet reports the missing image",
        lambda: groups.pods("missing"),
        lambda pods: len(pods) == 2 and all(_waits_for(pod, "ErrImageNeverPull") for pod in pods.values()),
        SECONDS,
    )
    stays("no pod is replaced", lambda: uids(groups.pods("missing")), QUIET_SECONDS)
    groups.apply(manifest("missing", with_policy(policy), {"containers": [member()]}))
    assert not uids(groups.ready("missing", 2)) & uids(pods), (
        "the rollout replaces a group that never started"
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_failing_init_container_is_counted_under_one_policy(groups: Groups, policy: str) -> None:
    """The init container restarts before the group has started, which only one policy of three counts."""
    failing = {"name": "init", "image": MEMBERS[0], "args": ["exit", "5"]}
    worker = {
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [member()], "initContainers": [failing]}
    }
    leader = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [member()]}}
    spec = with_policy(policy, leaderTemplate=leader, workerTemplate=worker)
    groups.apply(manifest("init", spec, {}))
    first = eventually("both pods exist", lambda: groups.pods("init"), lambda pods: len(pods) == 2, SECONDS)
    if policy == RESTART:
        eventually(
            "the group is recreated",
            lambda: uids(groups.pods("init")),
            lambda now: len(now) == 2 and not now & uids(first),
            SECONDS,
        )
        return
    worker_pod = eventually(
        "the init container restarts",
        lambda: groups.pods("init")["init-0-1"],
        lambda pod: restarts(pod).get("init", 0) > 0,
        SECONDS,
    )
    assert statuses(worker_pod)["init"]["restartCount"] > 0
    stays("no pod is replaced", lambda: uids(groups.pods("init")), QUIET_SECONDS)
    assert uids(groups.pods("init")) == uids(first)


def test_a_slow_start_is_no_failure(groups: Groups) -> None:
    """The startup probe allows more time than the liveness probe would."""
    slow = member(env=[{"name": "MEMBER_WARMUP", "value": "6"}], livenessProbe=HEALTHY, startupProbe=STARTED)
    groups.apply(
        *(manifest(SHORT_NAMES[policy], with_policy(policy), {"containers": [slow]}) for policy in POLICIES)
    )
    for name in SHORT_NAMES.values():
        first = eventually(
            "both pods exist", lambda name=name: groups.pods(name), lambda pods: len(pods) == 2
        )
        pods = groups.ready(name, 2)
        assert uids(pods) == uids(first)
        assert [restarts(pod) for pod in pods.values()] == [{"member": 0}] * 2
        assert "RecreateGroup" not in groups.event_reasons(name)


def test_a_failed_startup_probe_is_a_failure(groups: Groups) -> None:
    """The kubelet kills the worker's container when its startup probe fails. Its pod is running by then."""
    never = member(env=[{"name": "MEMBER_WARMUP", "value": "100000"}], startupProbe=HEALTHY)
    bodies = {"leaderTemplate": member(), "workerTemplate": never}
    templates = {
        name: {"spec": {"terminationGracePeriodSeconds": 1, "containers": [body]}}
        for name, body in bodies.items()
    }
    groups.apply(
        *(manifest(SHORT_NAMES[policy], with_policy(policy, **templates), {}) for policy in POLICIES)
    )
    for policy, name in SHORT_NAMES.items():
        first = eventually(
            "both pods exist", lambda name=name: groups.pods(name), lambda pods: len(pods) == 2
        )
        if policy != NONE:
            eventually(
                "an Event reports the recreation",
                lambda name=name: groups.event_reasons(name),
                lambda reasons: "RecreateGroup" in reasons,
                SECONDS,
            )
            continue
        eventually(
            "the container restarts",
            lambda name=name: groups.pods(name)[f"{name}-0-1"],
            lambda pod: restarts(pod)["member"] > 0,
            SECONDS,
        )
        stays("no pod is replaced", lambda name=name: uids(groups.pods(name)), QUIET_SECONDS)
        assert uids(groups.pods(name)) == uids(first)
        assert "RecreateGroup" not in groups.event_reasons(name)


def test_a_worker_that_fills_its_disk_is_evicted(groups: Groups) -> None:
    """The worker is evicted without the condition DisruptionTarget, so the eviction counts as a failure."""
    small = member(resources={"limits": {"ephemeral-storage": "16Mi"}})
    groups.apply(
        *(manifest(SHORT_NAMES[policy], with_policy(policy), {"containers": [small]}) for policy in POLICIES)
    )
    before = {name: groups.ready(name, 2) for name in SHORT_NAMES.values()}
    for name, pods in before.items():
        fill(pods[f"{name}-0-1"], 64)
    for policy, name in SHORT_NAMES.items():
        if policy != NONE:
            groups.recreated(name, before[name])
            assert "RecreateGroup" in groups.event_reasons(name)
            assert groups.status(name)["restarts"]
            continue
        after = eventually(
            "the worker is replaced",
            lambda name=name: groups.pods(name),
            lambda pods, name=name: (
                len(pods) == 2 and uids(pods) != uids(before[name]) and all(map(is_ready, pods.values()))
            ),
            SECONDS,
        )
        assert after[f"{name}-0"]["metadata"]["uid"] == before[name][f"{name}-0"]["metadata"]["uid"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_process_has_its_grace_period(groups: Groups, policy: str) -> None:
    """The process takes 8 of its 30 seconds; only then is the group recreated, or the worker alone."""
    slow = member(env=[{"name": "MEMBER_GRACE", "value": "8"}])
    groups.apply(
        manifest("slow", with_policy(policy), {"containers": [slow], "terminationGracePeriodSeconds": 30})
    )
    before = groups.ready("slow", 2)
    following = [str(groups.cluster.binary("kubectl")), "--kubeconfig", str(groups.cluster.kubeconfig)]
    following += ["logs", "--follow", "-n", groups.namespace, "slow-0-1"]
    with subprocess.Popen(following, stdout=subprocess.PIPE, text=True) as log:
        groups.cluster.kubectl("delete", "pod", "-n", groups.namespace, "slow-0-1", "--wait=false")
        output, _ = log.communicate(timeout=SECONDS)
    assert output.splitlines()[-2:] == ["SIGTERM", "ended in its own time"]
    if policy == NONE:
        after = eventually(
            "the worker is replaced",
            lambda: groups.pods("slow"),
            lambda pods: len(pods) == 2 and uids(pods) != uids(before) and all(map(is_ready, pods.values())),
            SECONDS,
        )
        assert after["slow-0"]["metadata"]["uid"] == before["slow-0"]["metadata"]["uid"]
    else:
        groups.recreated("slow", before)


def _waits_for(pod: Pod, reason: str) -> bool:
    return any(
        status.get("state", {}).get("waiting", {}).get("reason") == reason
        for status in statuses(pod).values()
    )
