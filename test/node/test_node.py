"""Events of a whole node under each restart policy: programs restart, it reboots, its disk is full.

Its name makes this file run after the tests of managers, because it restarts their managers too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from test.harness.waiting import eventually, stays
from test.node import kubelet
from test.node.groups import (
    AFTER_START,
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
    uids,
    with_policy,
)
from test.node.managers import get, ready_managers, upgraded
from tools.realnode.cluster import RealCluster
from tools.realnode.members import fill, given_to

_MEGABYTES = 64
# Other programs write to the same disk meanwhile.
_MARGIN = 2 << 30
# The allocated space, and as much again for other programs: no other test needs so much.
_FREE = 4 * _MARGIN
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "goes-first"},
    "value": -1,
    "description": "What is evicted before anything else on the node.",
}


@pytest.fixture(scope="module")
def running(product: RealCluster) -> Iterator[Groups]:
    """A set for each policy.

    Managers are not evicted, because a pod that is deleted while no manager runs counts as a failure.
    """
    critical = upgraded(product, "--set=priorityClassName=system-cluster-critical")
    with critical, Groups(product, "node").in_own_namespace() as groups:
        groups.apply(PRIORITY)
        pod = {"containers": [member()], "priorityClassName": PRIORITY["metadata"]["name"]}
        groups.apply(*(manifest(SHORT_NAMES[policy], with_policy(policy), pod) for policy in POLICIES))
        all_ready(groups)
        yield groups


def all_ready(groups: Groups) -> dict[str, dict[str, Pod]]:
    """Wait until all pods are ready, the product's included; return the pods of each policy's set."""
    ready_managers(groups.cluster)
    return {policy: groups.ready(SHORT_NAMES[policy], 2) for policy in POLICIES}


def states_of(pods: Mapping[str, Mapping[str, Pod]]) -> dict[str, tuple[set[str], list[dict[str, int]]]]:
    return {
        policy: (uids(members), [restarts(pod) for pod in members.values()])
        for policy, members in pods.items()
    }


def test_a_restart_of_kubelet_and_containerd_affects_no_group(running: Groups) -> None:
    before = all_ready(running)
    kubelet.stop_programs(running.cluster)
    try:
        # Processes keep running without kubelet and containerd.
        assert [given_to(pod).hostname for pod in before[RESTART].values()] == list(before[RESTART])
    finally:
        kubelet.start_programs(running.cluster)
    former = _renewed(running.cluster)
    eventually("the kubelet renews its Lease", lambda: _renewed(running.cluster), lambda now: now != former)
    stays("no pod is replaced or restarted", lambda: states_of(_pods(running)), QUIET_SECONDS)
    assert states_of(all_ready(running)) == states_of(before)


def test_a_full_disk_evicts_workers(running: Groups) -> None:
    """The kubelet evicts workers, the largest first, and taints the node; no group restart is counted."""
    if (free := kubelet.free_bytes()) < _FREE:
        pytest.skip(
            f"{free / 1e9:.1f} GB are free where pods are, and this wants {_FREE / 1e9:.1f} GB: free some"
        )
    before = all_ready(running)
    workers = [pods[max(pods)] for pods in before.values()]
    for pod in workers:
        fill(pod, _MEGABYTES)
    kubelet.pin_images(running.cluster)
    least = kubelet.free_bytes() - _MARGIN
    limit = {"evictionHard": {"nodefs.available": str(least)}}
    # Before the taint, the kubelet rejects new pods; a kubelet that starts rejects its own pods too.
    with kubelet.cordoned(running.cluster), kubelet.other_settings(running.cluster, limit):
        # Without these counts it would evict any pod. In a terminating group, it evicts no worker.
        eventually(
            "the kubelet counts the written bytes",
            lambda: kubelet.written(running.cluster),
            lambda sizes: all(sizes.get(pod["metadata"]["uid"], 0) >= _MEGABYTES << 20 for pod in workers),
            SECONDS,
        )
        with kubelet.filled(2 * _MARGIN):
            _evict_workers(running, before)
    # In a group that had started, a replaced worker counts once it has left Pending.
    for policy in (RESTART, AFTER_START):
        running.recreated(SHORT_NAMES[policy], before[policy])
        assert not running.status(SHORT_NAMES[policy]).get("restarts"), policy
    all_ready(running)


def test_a_reboot_counts_as_a_failure_under_two_policies(running: Groups) -> None:
    """Every container starts again, which two policies treat as a failure of the group."""
    before = all_ready(running)
    kubelet.cut_power(running.cluster)
    kubelet.start_programs(running.cluster)
    for policy in (RESTART, AFTER_START):
        running.recreated(SHORT_NAMES[policy], before[policy])
        # Unlike an eviction, this is counted.
        assert running.status(SHORT_NAMES[policy])["restarts"], policy
    alone = eventually(
        "the containers restart",
        lambda: running.pods(SHORT_NAMES[NONE]),
        lambda pods: all(is_ready(pod) and restarts(pod)["member"] for pod in pods.values()),
        SECONDS,
    )
    assert uids(alone) == uids(before[NONE])
    all_ready(running)


def _evict_workers(running: Groups, before: Mapping[str, Mapping[str, Pod]]) -> None:
    """Wait until the node is tainted, and a worker of each set is gone."""
    eventually(
        "the node is tainted",
        lambda: get(running.cluster, "nodes")["items"][0]["spec"].get("taints", []),
        lambda taints: any(taint["key"] == "node.kubernetes.io/disk-pressure" for taint in taints),
        SECONDS,
    )
    eventually(
        "a worker of each set is evicted",
        lambda: _evicted(running),
        lambda names: {f"{SHORT_NAMES[policy]}-0-1" for policy in POLICIES} <= names,
        SECONDS,
    )
    # The Event comes first, and a kubelet that ends then forgets the eviction.
    eventually(
        "the evicted workers are gone", lambda: _serving(running, before), lambda names: not names, SECONDS
    )


def _evicted(groups: Groups) -> set[str]:
    """Return the pods that the kubelet reports as evicted."""
    chosen = ("--field-selector", "involvedObject.kind=Pod,reason=Evicted")
    events = get(groups.cluster, "events", "-n", groups.namespace, *chosen)["items"]
    return {event["involvedObject"]["name"] for event in events}


def _serving(groups: Groups, before: Mapping[str, Mapping[str, Pod]]) -> list[str]:
    """Return the former workers that have neither failed nor been deleted."""
    now = {uid: pod for pods in _pods(groups).values() for uid, pod in _by_uid(pods).items()}
    former = [pods[max(pods)]["metadata"] for pods in before.values()]
    return [
        metadata["name"]
        for metadata in former
        if metadata["uid"] in now and now[metadata["uid"]]["status"]["phase"] != "Failed"
    ]


def _by_uid(pods: Mapping[str, Pod]) -> dict[str, Pod]:
    return {pod["metadata"]["uid"]: pod for pod in pods.values()}


def _renewed(cluster: RealCluster) -> str:
    """Return the time of the kubelet's last heartbeat."""
    (lease,) = get(cluster, "leases", "-n", "kube-node-lease")["items"]
    return str(lease["spec"]["renewTime"])


def _pods(groups: Groups) -> dict[str, dict[str, Pod]]:
    return {policy: groups.pods(SHORT_NAMES[policy]) for policy in POLICIES}
