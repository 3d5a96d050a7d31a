"""Where do tests take place that disturb a whole control plane? On one of their own.

In: its options. Out: a local cluster that nobody else uses; on any other cluster the tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from test.cluster import LOCAL, chosen
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.localcluster import LocalCluster, Options

_FINALIZER = "finalizer-of-anything"


@contextmanager
def a_control_plane(options: Options) -> Iterator[LocalCluster]:
    """One that is thrown away, not stopped."""
    if chosen() != LOCAL:
        pytest.skip(f"plays failures of the control plane, which only CLUSTER={LOCAL} can")
    with LocalCluster(options) as cluster:
        try:
            yield cluster
        finally:
            # Asked politely it would wait for the end of every open stream, and nothing of it has to be kept.
            cluster.kill_component("kube-apiserver")


def awaken(cluster: LocalCluster) -> None:
    """Those that pods depend on would come back as late as half a minute after the API server."""
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        cluster.kill_component(name)
        cluster.start_component(name)


def let_finalize(cluster: LocalCluster) -> None:
    """Spare every run a wait of up to 30 s.

    The API server checks `blockOwnerDeletion` against the kinds that it knows (admission plugin
    OwnerReferencesPermissionEnforcement), and it learns a new kind that late, unless the writer may finalize
    anything. What the manager may do is not what such tests are about.
    """
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    cluster.kubectl("create", "clusterrole", _FINALIZER, "--verb=update", "--resource=*.*/finalizers")
    cluster.kubectl("create", "clusterrolebinding", _FINALIZER, f"--clusterrole={_FINALIZER}", account)
