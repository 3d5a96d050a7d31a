"""Pods on a lost node are reported first, and force-deleted if the manager is configured to do so.

The test has its own control plane, in which Kubernetes waits 40 s for a silent node.
"""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lws.kube.pods import gate_of
from test.harness.control_plane import a_control_plane
from test.harness.events import Event, events_of
from test.harness.groups import condition, pods_of, settle, uids_of_group
from test.harness.manifests import a_set, pod_template
from test.harness.product import QUICK_LEASE
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World, a_namespace
from tools.deployment import Deployment, ManagerProcess
from tools.localcluster import LocalCluster, Options
from tools.localcluster.nodes import is_ready

DOOMED = "node-2"
SETS = ("leads", "works")
HELD = {"leads": "leads-0", "works": "works-0-1"}
LOST_SECONDS = 300.0
METRIC = "lws_pods_held_by_lost_nodes"


@dataclass
class Stage:
    """Two sets with one pod each on the node that is lost, and managers, one after the other."""

    cluster: LocalCluster
    deployment: Deployment
    world: World

    def manager(self, force: bool) -> ManagerProcess:
        self.deployment.stop()
        configuration = {"nodeLoss": {"after": "5s", "forceDelete": force}}
        return self.deployment.start_manager(*QUICK_LEASE, configuration=configuration)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with a_control_plane(Options(nodes=3, nodes_per_pool=1, node_grace_seconds=40)) as cluster:
        deployment = Deployment(cluster, tmp_path_factory.mktemp("product"))
        deployment.install()
        scraper = "--serviceaccount=kube-system:default"
        cluster.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=cluster-admin", scraper)
        try:
            with a_namespace(cluster, "t-node-loss") as world:
                yield Stage(cluster, deployment, world)
        finally:
            deployment.stop()


@pytest.fixture(scope="module")
def manager(stage: Stage) -> ManagerProcess:
    """Start a manager that only reports lost nodes, and stop the node."""
    manager, world = stage.manager(force=False), stage.world
    for name, leader, worker in (("leads", DOOMED, "node-0"), ("works", "node-1", DOOMED)):
        world.create(
            a_set(name, 1, 2, workers=preferring(worker), group={"leaderTemplate": preferring(leader)})
        )
    settle(world, *SETS, seconds=120)
    for name in SETS:
        doomed = [pod for pod in pods_of(world, name) if pod["spec"].get("nodeName") == DOOMED]
        assert [pod["metadata"]["name"] for pod in doomed] == [HELD[name]]
    stage.cluster.kill_node(DOOMED)
    return manager


def preferring(node: str) -> dict[str, Any]:
    """Return a pod that prefers this node, and is deleted soon after the node is lost."""
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    preferred = {"weight": 100, "preference": {"matchExpressions": [requirement]}}
    taints = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return pod_template(
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}},
        tolerations=[
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}
            for key in taints
        ],
        terminationGracePeriodSeconds=3,
    )


def failure(world: World, name: str) -> dict[str, Any]:
    return condition(world.get(SET, name), "ReplicaFailure")


def node_lost_events(world: World, name: str) -> list[Event]:
    return [event for event in events_of(world, name) if event.reason == "NodeLost"]


def held_pods(stage: Stage, manager: ManagerProcess) -> float:
    """Return the metric as Prometheus reads it, with an authorized token, or -1 if it is missing."""
    token = stage.cluster.kubectl("create", "token", "default", "-n", "kube-system").strip()
    request = urllib.request.Request(
        f"https://127.0.0.1:{manager.metrics_port}/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return -1.0
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{METRIC} ")), -1.0)


def test_pods_on_a_lost_node_are_reported_and_kept(stage: Stage, manager: ManagerProcess) -> None:
    world = stage.world
    for name, pod in HELD.items():
        condition = eventually(
            f"{name} reports the lost node",
            lambda name=name: failure(world, name),
            lambda condition: condition.get("reason") == "NodeLost",
            LOST_SECONDS,
        )
        assert condition["status"] == "True"
        assert condition["message"].startswith(f"node {DOOMED} has not been ready since ")
        assert f"cannot terminate {pod}: their groups are blocked" in condition["message"]
        events = eventually(f"{name} has an Event", lambda name=name: node_lost_events(world, name))
        assert [(event.type, event.note) for event in events] == [("Warning", condition["message"])]
    eventually("the metric counts both pods", lambda: held_pods(stage, manager), lambda count: count == 2)
    stays("the pods do not change", lambda: {name: uids_of_group(world, name, 0) for name in SETS}, 5)
    for pod in HELD.values():
        assert "deletionTimestamp" in world.get("Pod", pod)["metadata"]


def test_pods_on_a_lost_node_are_force_deleted_if_configured(stage: Stage, manager: ManagerProcess) -> None:
    world = stage.world
    for name in SETS:
        eventually(
            f"{name} reports the lost node",
            lambda name=name: failure(world, name),
            lambda condition: condition.get("reason") == "NodeLost",
            LOST_SECONDS,
        )
    # The leader of the lost worker has been replaced already, and waits at its gate.
    before = {
        name: {pod["metadata"]["uid"] for pod in pods_of(world, name) if not gate_of(pod)} for name in SETS
    }

    acting = stage.manager(force=True)
    settle(world, *SETS, seconds=120)

    for name in SETS:
        assert not set(uids_of_group(world, name, 0).values()) & before[name]
        assert all(pod["spec"].get("nodeName") != DOOMED for pod in pods_of(world, name))
        assert failure(world, name).get("status") != "True"
        note = f"Force-deleted pod {HELD[name]}: "
        eventually(
            "an Event reports the deletion",
            lambda name=name: [event.note for event in events_of(world, name) if event.action == "Delete"],
            lambda notes, note=note: any(text.startswith(note) for text in notes),
        )
    eventually("the metric counts no pod", lambda: held_pods(stage, acting), lambda count: count == 0)


def test_an_out_of_service_node_is_left_to_kubernetes(stage: Stage, manager: ManagerProcess) -> None:
    """The pod garbage collector force-deletes such pods; `nodeLoss.forceDelete` does not apply to them."""
    world, cluster = stage.world, stage.cluster
    stage.manager(force=True)
    cluster.revive_node(DOOMED)
    eventually("the node is ready again", lambda: is_ready(node_of(cluster)))
    world.create(
        a_set("rests", 1, 2, workers=preferring(DOOMED), group={"leaderTemplate": preferring("node-0")})
    )
    settle(world, "rests", seconds=120)
    lost = world.get("Pod", "rests-0-1")
    assert lost["spec"]["nodeName"] == DOOMED

    cluster.kill_node(DOOMED)
    eventually(
        "Kubernetes reports that the node is lost",
        lambda: is_ready(node_of(cluster)),
        lambda ready: not ready,
        LOST_SECONDS,
    )
    cluster.kubectl("taint", "nodes", DOOMED, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
    eventually(
        "the lost worker is replaced",
        lambda: world.uid("Pod", "rests-0-1"),
        lambda uid: uid not in ("", lost["metadata"]["uid"]),
        LOST_SECONDS,
    )
    settle(world, "rests", seconds=120)

    assert not any(event.note.startswith("Deleted pod") for event in events_of(world, "rests"))


def node_of(cluster: LocalCluster) -> dict[str, Any]:
    return cluster.api.get(f"/api/v1/nodes/{DOOMED}")
