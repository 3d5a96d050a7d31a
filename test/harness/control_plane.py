"""Start a separate control plane for tests that disrupt it. These tests are skipped unless the cluster is
local.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from test.cluster import LOCAL, chosen
from test.harness.waiting import eventually
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.localcluster import LocalCluster, Options
from tools.localcluster.api import Api, tolerating
from tools.localcluster.simulation import NODES

_FINALIZER = "any-finalizer"
_NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_NOT_FOUND = 404


@contextmanager
def a_control_plane(options: Options) -> Iterator[LocalCluster]:
    """Start a local cluster, and kill it at the end of the block instead of stopping it."""
    if chosen() != LOCAL:
        pytest.skip(f"plays failures of the control plane, which only CLUSTER={LOCAL} can")
    with LocalCluster(options) as cluster:
        try:
            yield cluster
        finally:
            # A graceful stop would wait for every open stream, and none of the data is needed any more.
            cluster.kill_component("kube-apiserver")


def restart_controllers(cluster: LocalCluster) -> None:
    """Restart the components on which pods depend, because they back off for up to half a minute after an
    outage.
    """
    for name in ("kube-controller-manager", "kube-scheduler"):
        cluster.kill_component(name)
        cluster.start_component(name)
    _restart_kwok(cluster)


def _restart_kwok(cluster: LocalCluster) -> None:
    """Restart kwok, and return when it has started the pods that wait for it.

    Each kwok has a new identity, and would wait until the Leases of the killed one expire. When it gets the
    Lease of a node, it lists the node's pods once. If it has not observed its own Lease by then, it ignores
    them, so pods that two reads in a row find waiting are changed until it starts them.
    """
    api = cluster.api
    cluster.kill_component("kwok")
    api.delete(_NODE_LEASES)
    cluster.start_component("kwok")
    nodes = {node["metadata"]["name"] for node in api.get(NODES)["items"]}
    eventually(
        "kwok has the Lease of every node",
        lambda: nodes - {lease["metadata"]["name"] for lease in api.get(_NODE_LEASES)["items"]},
        lambda missing: not missing,
    )
    last_seen: set[str] | None = None

    def change_forgotten() -> list[str] | None:
        nonlocal last_seen
        waiting = {pod["metadata"]["uid"]: pod["metadata"] for pod in _waiting_pods(api)}
        forgotten = None if last_seen is None else [waiting[uid] for uid in waiting if uid in last_seen]
        for pod in forgotten or ():
            with tolerating(_NOT_FOUND):
                path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}"
                api.merge(path, {"metadata": {"annotations": {"example.com/changed": str(time.monotonic())}}})
        last_seen = set(waiting)
        return None if forgotten is None else [pod["name"] for pod in forgotten]

    eventually("kwok has started the pods that waited for it", change_forgotten, lambda pods: pods == [])


def _waiting_pods(api: Api) -> list[dict[str, Any]]:
    """Return the pods that are bound to a node and have not been started."""
    pods: list[dict[str, Any]] = api.get(
        "/api/v1/pods?fieldSelector=status.phase%3DPending,spec.nodeName!%3D"
    )["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def allow_finalizers(cluster: LocalCluster) -> None:
    """Let the manager update finalizers of every kind, which saves each run a wait of up to 30 s.

    The API server checks `blockOwnerDeletion` against the kinds that it knows (admission plugin
    OwnerReferencesPermissionEnforcement). It needs up to 30 s to learn of a new kind, unless the writer may
    update finalizers of everything. These tests are not about the permissions of the manager.
    """
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    cluster.kubectl("create", "clusterrole", _FINALIZER, "--verb=update", "--resource=*.*/finalizers")
    cluster.kubectl("create", "clusterrolebinding", _FINALIZER, f"--clusterrole={_FINALIZER}", account)
