"""Failures as the kubelet shows them, under each restart policy: what docs/concepts/failures.md promises."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from test.harness.waiting import eventually, stays
from test.node.groups import (
    HEALTHY,
    SECONDS,
    Groups,
    Pod,
    is_ready,
    manifest,
    member,
    restarts,
    statuses,
    uids,
)
from tools.realnode.cluster import RealCluster
from tools.realnode.images import MEMBERS
from tools.realnode.members import devour, end, sicken

RESTART, AFTER_START, NONE = "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"
POLICIES = (RESTART, AFTER_START, NONE)
# Long enough for a wrong deletion to be seen: a group is recreated at once, the first time.
QUIET_SECONDS = 5.0


@dataclass(frozen=True)
class Failure:
    """One way in which a container of a running pod fails, and how the kubelet tells it."""

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
    return f"{failure}-{ {RESTART: 'restart', AFTER_START: 'after', NONE: 'none'}[policy] }"


def with_policy(policy: str, **template: Any) -> dict[str, Any]:
    return {"leaderWorkerTemplate": {"restartPolicy": policy, **template}}


@pytest.fixture(scope="module")
def running(product: RealCluster) -> Iterator[Groups]:
    """A set for each case, all started side by side."""
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
            "the container to restart",
            lambda: running.pods(name)[f"{name}-0-1"],
            lambda pod: restarts(pod)[how.container] == 1 and is_ready(pod),
            SECONDS,
        )
        ended = statuses(worker)[how.container]["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (how.exit_code, how.reason)
        stays("the group", lambda: uids(running.pods(name)), QUIET_SECONDS)
        assert uids(running.pods(name)) == uids(before)
        assert "RecreateGroup" not in running.told(name)
    else:
        running.recreated(name, before)
        assert "RecreateGroup" in running.told(name)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_image_that_does_not_exist(groups: Groups, policy: str) -> None:
    """Nothing fails: the group waits, and starts once there is an image."""
    missing = member(image="localhost/missing:1", imagePullPolicy="Never")
    groups.apply(manifest("missing", with_policy(policy), {"containers": [missing]}))
    pods = eventually(
        "the kubelet to miss the image",
        lambda: groups.pods("missing"),
        lambda pods: len(pods) == 2 and all(_waits_for(pod, "ErrImageNeverPull") for pod in pods.values()),
        SECONDS,
    )
    stays("the group", lambda: uids(groups.pods("missing")), QUIET_SECONDS)
    groups.apply(manifest("missing", with_policy(policy), {"containers": [member()]}))
    assert not uids(groups.ready("missing", 2)) & uids(pods), (
        "the rollout replaces a group that never started"
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_an_init_container_that_fails(groups: Groups, policy: str) -> None:
    """It restarts before the group has started, which counts for one policy of three."""
    failing = {"name": "init", "image": MEMBERS[0], "args": ["exit", "5"]}
    worker = {
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [member()], "initContainers": [failing]}
    }
    leader = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [member()]}}
    spec = with_policy(policy, leaderTemplate=leader, workerTemplate=worker)
    groups.apply(manifest("init", spec, {}))
    first = eventually("both pods", lambda: groups.pods("init"), lambda pods: len(pods) == 2, SECONDS)
    if policy == RESTART:
        eventually(
            "a new group",
            lambda: uids(groups.pods("init")),
            lambda now: len(now) == 2 and not now & uids(first),
            SECONDS,
        )
        return
    worker_pod = eventually(
        "the init container to restart",
        lambda: groups.pods("init")["init-0-1"],
        lambda pod: restarts(pod).get("init", 0) > 0,
        SECONDS,
    )
    assert statuses(worker_pod)["init"]["restartCount"] > 0
    stays("the group", lambda: uids(groups.pods("init")), QUIET_SECONDS)
    assert uids(groups.pods("init")) == uids(first)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_process_has_its_time_to_end(groups: Groups, policy: str) -> None:
    """It takes 8 of its 30 seconds; its group is made anew afterwards, or it alone."""
    slow = member(env=[{"name": "MEMBER_GRACE", "value": "8"}])
    groups.apply(
        manifest("slow", with_policy(policy), {"containers": [slow], "terminationGracePeriodSeconds": 30})
    )
    before = groups.ready("slow", 2)
    following = [str(groups.cluster.binary("kubectl")), "--kubeconfig", str(groups.cluster.kubeconfig)]
    following += ["logs", "--follow", "-n", groups.namespace, "slow-0-1"]
    with subprocess.Popen(following, stdout=subprocess.PIPE, text=True) as log:
        groups.cluster.kubectl("delete", "pod", "-n", groups.namespace, "slow-0-1", "--wait=false")
        said, _ = log.communicate(timeout=SECONDS)
    assert said.splitlines()[-2:] == ["SIGTERM", "ended in its own time"]
    if policy == NONE:
        after = eventually(
            "another worker",
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
