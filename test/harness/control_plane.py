"""Start a separate control plane for tests that disrupt it. These tests are skipped unless the cluster is
local.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from test.cluster import LOCAL, chosen
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.localcluster import LocalCluster, Options

_FINALIZER = "any-finalizer"


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
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        cluster.kill_component(name)
        cluster.start_component(name)


def allow_finalizers(cluster: LocalCluster) -> None:
    """Let the manager update finalizers of every kind, which saves each run a wait of up to 30 s.

    The API server checks `blockOwnerDeletion` against the kinds that it knows (admission plugin
    OwnerReferencesPermissionEnforcement). It needs up to 30 s to learn of a new kind, unless the writer may
    update finalizers of everything. These tests are not about the permissions of the manager.
    """
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    cluster.kubectl("create", "clusterrole", _FINALIZER, "--verb=update", "--resource=*.*/finalizers")
    cluster.kubectl("create", "clusterrolebinding", _FINALIZER, f"--clusterrole={_FINALIZER}", account)
