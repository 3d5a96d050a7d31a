"""Answers: how does a test see and change the product's own pods, and what does the API server get from them?

In: a node with the chart on it. Out: its pods, `helm upgrade`, reviews asked for all the time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from test.harness.repeating import repeated
from test.harness.waiting import eventually
from test.node.groups import Groups, Pod, is_ready, manifest, member, restarts
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import ApiError
from tools.realnode.cluster import RealCluster

DEPLOYMENT = "lws-controller-manager"
SECONDS = 240.0

_MANAGERS = "control-plane=controller-manager"


def managers(cluster: RealCluster) -> dict[str, Pod]:
    """Those that run or will: of pods that were evicted, a Deployment keeps what is left."""
    found = cluster.pods.matching(NAMESPACE, _MANAGERS)
    return {
        pod["metadata"]["name"]: pod for pod in found if pod["status"]["phase"] not in ("Failed", "Succeeded")
    }


def all_ready(pods: dict[str, Pod], count: int = 2) -> bool:
    return len(pods) == count and all(map(is_ready, pods.values()))


def ready_managers(cluster: RealCluster) -> dict[str, Pod]:
    """Both, once there are no others."""
    return eventually("two managers", lambda: managers(cluster), all_ready, SECONDS)


def standing(pods: dict[str, Pod]) -> dict[str, tuple[str, dict[str, int]]]:
    """Who they are, and how often their containers were restarted."""
    return {name: (pod["metadata"]["uid"], restarts(pod)) for name, pod in pods.items()}


def get(cluster: RealCluster, *what: str) -> dict[str, Any]:
    return dict(json.loads(cluster.kubectl("get", *what, "-o", "json")))


def upgrade(cluster: RealCluster, *settings: str) -> None:
    """`helm upgrade` of the release with these settings on top of its own; returns once it is through."""
    arguments = ("upgrade", "lws", str(CHART), "-n", NAMESPACE, "--reset-then-reuse-values")
    cluster.helm(*arguments, "--wait", "--timeout", "300s", *settings)


@contextmanager
def reviewed(groups: Groups) -> Iterator[list[str]]:
    """Have a set reviewed all the time, without storing it; what was refused meanwhile, in the end."""
    answered, lost = list[str](), list[str]()

    def review() -> None:
        try:
            ask(groups)
            answered.append(time.strftime("%X"))
        except Exception as error:
            lost.append(f"{time.strftime('%X')} after {len(answered)}: {error}")

    with repeated(review, 0.05):
        yield lost
    assert answered


def ask(groups: Groups) -> None:
    """One review by all webhooks for sets. Raises ApiError."""
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{groups.namespace}/leaderworkersets?dryRun=All"
    groups.cluster.api.create(path, manifest("reviewed", {}, {"containers": [member()]}))


def is_answered(groups: Groups) -> bool:
    """Are writes of sets let through now?"""
    try:
        ask(groups)
    except ApiError:
        return False
    return True
