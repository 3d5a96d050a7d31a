"""Read and change the product's own pods, run `helm upgrade` and back, and send reviews meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from test.harness.repeating import repeated
from test.harness.waiting import eventually
from test.node.groups import NAME_LABEL, Groups, Pod, is_ready, manifest, member, restarts
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import ApiError
from tools.realnode.cluster import RealCluster
from tools.realnode.images import MEMBERS

DEPLOYMENT = "lws-controller-manager"
SECONDS = 240.0

_MANAGERS = "control-plane=controller-manager"
SETS = "apis/leaderworkerset.x-k8s.io/v1"
# A leader pod as a StatefulSet creates it.
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "reviewed-0",
        "labels": {NAME_LABEL: "reviewed", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
        "annotations": {"leaderworkerset.sigs.k8s.io/size": "2"},
    },
    "spec": {"containers": [{"name": "member", "image": MEMBERS[0]}]},
}


@dataclass(frozen=True)
class Installed:
    """The state right after `helm install`, before any test changes it."""

    managers: dict[str, Pod]
    holder: str
    """The first holder of the Lease."""


def managers(cluster: RealCluster) -> dict[str, Pod]:
    """Return the managers' pods, without the evicted ones that a Deployment keeps."""
    pods = cluster.pods.matching(NAMESPACE, _MANAGERS)
    return {
        pod["metadata"]["name"]: pod for pod in pods if pod["status"]["phase"] not in ("Failed", "Succeeded")
    }


def all_ready(pods: dict[str, Pod], count: int = 2) -> bool:
    return len(pods) == count and all(map(is_ready, pods.values()))


def ready_managers(cluster: RealCluster) -> dict[str, Pod]:
    """Wait until exactly two managers exist and are ready, and return their pods."""
    return eventually("two managers are ready", lambda: managers(cluster), all_ready, SECONDS)


def standing(pods: dict[str, Pod]) -> dict[str, tuple[str, dict[str, int]]]:
    """Return the UID of each pod, and the restarts of its containers."""
    return {name: (pod["metadata"]["uid"], restarts(pod)) for name, pod in pods.items()}


def get(cluster: RealCluster, *what: str) -> dict[str, Any]:
    return dict(json.loads(cluster.kubectl("get", *what, "-o", "json")))


def upgrade(cluster: RealCluster, *settings: str) -> None:
    """Run `helm upgrade` with these settings in addition to the release's, and wait until it is complete."""
    arguments = ("upgrade", "lws", str(CHART), "-n", NAMESPACE, "--reset-then-reuse-values")
    cluster.helm(*arguments, "--wait", "--timeout", "300s", *settings)


@contextmanager
def upgraded(cluster: RealCluster, *settings: str) -> Iterator[None]:
    """Upgrade the release to these settings during the block, and to the chart's own afterwards."""
    upgrade(cluster, *settings)
    ready_managers(cluster)
    try:
        yield
    finally:
        to_defaults(cluster)


def to_defaults(cluster: RealCluster) -> None:
    """Upgrade the release to the chart's own settings, which other tests expect."""
    arguments = ("upgrade", "lws", str(CHART), "-n", NAMESPACE, "--reset-values")
    cluster.helm(*arguments, "--wait", "--timeout", "300s")
    ready_managers(cluster)


@contextmanager
def reviewed(groups: Groups) -> Iterator[list[str]]:
    """Have a set and a pod reviewed all the time, as dry runs, and collect the rejections."""
    answered, lost = list[str](), list[str]()

    def review() -> None:
        try:
            request_reviews(groups)
            answered.append(time.strftime("%X"))
        except Exception as error:
            lost.append(f"{time.strftime('%X')} after {len(answered)}: {error}")

    with repeated(review, 0.05):
        yield lost
    assert answered


def request_reviews(groups: Groups) -> None:
    """Have a set and a pod reviewed. Raise ApiError, or AssertionError if the pod was not changed."""
    namespace_path = f"namespaces/{groups.namespace}"
    api, lws = groups.cluster.api, manifest("reviewed", {}, {"containers": [member()]})
    api.create(f"/{SETS}/{namespace_path}/leaderworkersets?dryRun=All", lws)
    pod = api.create(f"/api/v1/{namespace_path}/pods?dryRun=All", _POD)
    names = {variable["name"] for variable in pod["spec"]["containers"][0].get("env", [])}
    assert "LWS_LEADER_ADDRESS" in names, f"{sorted(names)} in a pod: its webhook was not called"


def is_answered(groups: Groups) -> bool:
    """Report whether writes of sets and pods are admitted now."""
    try:
        request_reviews(groups)
    except (ApiError, AssertionError):
        return False
    return True
