"""Kueue's MultiKueue dispatches sets to another cluster: two control planes, each with a real Kueue.

Kueue 0.17.0 copies neither the status of a set nor edits of it, and deletes the copy when `replicas` changes.
So a client of the test copies the status, as Kueue does for Jobs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from test.harness.audit import AuditLog
from test.harness.groups import annotations_of, labels_of, name_of, names_of, pods_of, settle, unsettled
from test.harness.manifests import a_set
from test.harness.product import running_product
from test.harness.waiting import eventually
from test.harness.world import SET, World, a_namespace
from test.integration.neighbours.kueue import NAMESPACE, running_kueue
from test.integration.neighbours.queues import API, holds, make_queue, queued, workloads
from tools.localcluster import LocalCluster, Options
from tools.localcluster.api import Call

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
ORIGIN = "kueue.x-k8s.io/multikueue-origin"
ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"
WORKLOAD_OF_POD = "kueue.x-k8s.io/pod-group-name"
ADMISSION = "kueue.x-k8s.io/admission"
ACCOUNT = "multikueue"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Another cluster with its own product and Kueue."""
    workspace = tmp_path_factory.mktemp("worker")
    (workspace / "kueue").mkdir()
    with (
        LocalCluster(Options(nodes=2)) as cluster,
        running_product(cluster, workspace / "product"),
        running_kueue(cluster, workspace / "kueue"),
    ):
        cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(dispatcher()))
        yield cluster


def dispatcher() -> list[Object]:
    """Return the account of the manager cluster's Kueue on the worker cluster, as Kueue documents it."""
    everything = ["create", "delete", "get", "list", "patch", "update", "watch"]
    of = {
        "": ["pods"],
        "apps": ["statefulsets"],
        "batch": ["jobs"],
        "leaderworkerset.x-k8s.io": ["leaderworkersets"],
        "kueue.x-k8s.io": ["workloads", "workloads/status"],
    }
    rules = [{"apiGroups": [group], "resources": of[group], "verbs": everything} for group in of]
    metadata, rbac = {"name": ACCOUNT}, "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": NAMESPACE}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [account],
        },
    ]


@pytest.fixture
def remote(worker: LocalCluster, world: World) -> Iterator[World]:
    """The namespace of the test on the worker cluster, with a queue."""
    with a_namespace(worker, world.namespace) as worker_world:
        make_queue(worker_world, "cpu", "5")
        yield worker_world


@pytest.fixture
def queue(world: World, remote: World, worker: LocalCluster) -> World:
    """The namespace on the manager cluster, with a queue that dispatches to the worker cluster."""
    name, root = world.namespace, f"/apis/{API}"
    kubeconfig = worker.kubeconfig_for_service_account(NAMESPACE, ACCOUNT).read_bytes()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
    }
    world.api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
    source = {"kubeConfig": {"locationType": "Secret", "location": name}}
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    for kind, spec in (
        ("MultiKueueCluster", {"clusterSource": source}),
        ("MultiKueueConfig", {"clusters": [name]}),
        ("AdmissionCheck", {"controllerName": MULTIKUEUE, "parameters": parameters}),
    ):
        manifest = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        world.api.create(f"{root}/{kind.lower()}s", manifest)
    eventually(
        "the worker cluster is connected",
        lambda: world.api.get(f"{root}/admissionchecks/{name}"),
        lambda now: holds(now, "Active"),
    )
    make_queue(world, "cpu", "5", check=name)
    return world


def wait_until_dispatched(local: World, remote: World, name: str) -> Object:
    """Wait until the set runs on the worker cluster, with each group admitted on both; return its copy."""
    eventually(
        f"{name} is settled on the worker cluster",
        lambda: unsettled(remote, name) if remote.find(SET, name) else "it is not there",
        lambda why: not why,
    )
    admitted = eventually(
        f"the Workloads of {name} are admitted on the manager cluster",
        lambda: workloads(local, name),
        lambda now: (
            now.keys() == {"0", "1"} and all(holds(workload, "Admitted") for workload in now.values())
        ),
    )
    assert {workload["status"]["clusterName"] for workload in admitted.values()} == {local.namespace}
    assert {labels_of(pod)[WORKLOAD_OF_POD] for pod in pods_of(remote, name)} == names_of(admitted.values())
    copy = remote.get(SET, name)
    assert labels_of(copy)[ORIGIN] == "multikueue"
    assert annotations_of(copy)[ORIGIN_UID] == local.uid(SET, name)
    return copy


def delete_and_wait(local: World, remote: World, name: str) -> None:
    """Delete the set, and wait until nothing is left on either cluster."""
    local.delete(SET, name)
    eventually(
        f"nothing of {name} is left",
        lambda: [remaining for world in (local, remote) for remaining in remains_of(world, name)],
        lambda remaining: not remaining,
    )


def remains_of(world: World, name: str) -> list[str]:
    sets = [SET] if world.find(SET, name) else []
    return [*sets, *names_of(pods_of(world, name)), *names_of(workloads(world, name).values())]


def after_another_set(world: World, name: str) -> None:
    """Create another set and wait for it, so that the manager has seen everything before."""
    world.create(a_set(name, 1, 1))
    settle(world, name)


def test_a_dispatched_set_is_not_reconciled_on_the_manager_cluster(
    queue: World, remote: World, audit: AuditLog
) -> None:
    queue.create(queued("sent", replicas=2, managedBy=MULTIKUEUE, maxGroupRestarts=3))
    copy = wait_until_dispatched(queue, remote, "sent")
    lws = queue.get(SET, "sent")
    # Kueue 0.17.0 knows the fields of upstream 0.8.
    assert lws["spec"] == {**copy["spec"], "managedBy": MULTIKUEUE, "maxGroupRestarts": 3}
    after_another_set(queue, "first")
    assert "status" not in queue.get(SET, "sent")

    status = copy["status"]
    queue.api.send(Call("PUT", f"{queue.path(SET, 'sent')}/status", {**lws, "status": status}))
    after_another_set(queue, "second")
    assert queue.get(SET, "sent")["status"] == status
    written = [
        str(request) for request in audit.requests() if request.is_write and request.name.startswith("sent")
    ]
    assert written == [] and pods_of(queue, "sent") == []
    delete_and_wait(queue, remote, "sent")


def test_pods_of_a_set_without_managed_by_are_gated_on_the_manager_cluster(
    queue: World, remote: World
) -> None:
    queue.create(queued("both", replicas=2))
    wait_until_dispatched(queue, remote, "both")
    waiting = eventually(
        "the pods exist on the manager cluster", lambda: pods_of(queue, "both"), lambda now: len(now) == 6
    )
    for pod in waiting:
        assert ADMISSION in [gate["name"] for gate in pod["spec"]["schedulingGates"]], name_of(pod)
    delete_and_wait(queue, remote, "both")
