"""Create queues and queued sets, and read the Workloads of a set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from test.harness.groups import annotations_of
from test.harness.manifests import a_set, pod_template
from test.harness.waiting import eventually
from test.harness.world import World

API = "kueue.x-k8s.io/v1beta2"
QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}
INDEX_OF_WORKLOAD = "kueue.x-k8s.io/component-workload-index"
OWNER_OF_WORKLOAD = "kueue.x-k8s.io/job-owner-name"

Object = dict[str, Any]


def a_flavor(name: str, **spec: Any) -> Object:
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def make_queue(world: World, resource: str, quota: str, check: str = "", **flavor: Any) -> None:
    """Create a LocalQueue for the namespace, with a separate ClusterQueue that preempts by priority.

    check: the AdmissionCheck of the queue, if any.
    """
    name, root = world.namespace, f"/apis/{API}"
    world.api.create(f"{root}/resourceflavors", a_flavor(name, **flavor))
    granted = {"name": name, "resources": [{"name": resource, "nominalQuota": quota}]}
    queue = {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [resource], "flavors": [granted]}],
            **({"admissionChecksStrategy": {"admissionChecks": [{"name": check}]}} if check else {}),
        },
    }
    world.api.create(f"{root}/clusterqueues", queue)
    local = {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": "queue"},
        "spec": {"clusterQueue": name},
    }
    world.create(local)
    eventually(
        "the queue admits Workloads",
        lambda: world.get("LocalQueue", "queue"),
        lambda now: holds(now, "Active"),
    )


def holds(obj: Object, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any((condition["type"], condition["status"]) == (kind, "True") for condition in conditions)


def pod_requesting(amount: str, resource: str = "cpu", **template: Any) -> Object:
    """Return a pod that requests this amount."""
    pod = pod_template(**template)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: amount}, "requests": {resource: amount}}
    return pod


def queued(
    name: str,
    replicas: int = 1,
    size: int = 3,
    cpu: str = "200m",
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> Object:
    manifest = a_set(name, replicas, size, **{"workers": pod_requesting(cpu), **more})
    manifest["metadata"]["labels"] = {**QUEUE, **(labels or {})}
    return manifest


def workloads(world: World, name: str) -> dict[str, Object]:
    """Return the Workload of each group."""
    owned = (
        workload for workload in world.list("Workload") if annotations_of(workload)[OWNER_OF_WORKLOAD] == name
    )
    return {index_of(workload): workload for workload in owned}


def index_of(workload: Object) -> str:
    """Return the index of a Workload's group."""
    return annotations_of(workload)[INDEX_OF_WORKLOAD]
