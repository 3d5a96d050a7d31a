"""The local cluster behaves like a cluster, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from test.bench.paced.startups import Startup
from test.harness.following import Following
from tools.localcluster import COMPONENTS, ApiError, ComponentError, LocalCluster, Options
from tools.localcluster.nodes import POOL_LABEL, ZONE_LABEL

pytestmark = pytest.mark.local_only

_SECONDS = 120.0
REPOSITORY = Path(__file__).resolve().parents[2]

STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}
  ownerReferences: {owners}
spec:
  replicas: 3
  serviceName: none
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata:
      labels: {{app: {name}}}
      annotations: {{{annotations}}}
    spec:
      initContainers: [{{name: before, image: before:1}}]
      containers: [{{name: main, image: main:1}}, {{name: side, image: side:1}}]
"""


def manifest(name: str, annotations: str = "", owners: str = "[]") -> str:
    return STATEFUL_SET.format(name=name, annotations=annotations, owners=owners)


def eventually(is_true: Callable[[], bool], description: str) -> None:
    """Return when `is_true` returns true; fail after a time that is long enough for any machine."""
    began = time.monotonic()
    while not is_true():
        assert time.monotonic() - began < _SECONDS, f"not within {_SECONDS:g} s: {description}"
        time.sleep(0.05)


def uid_of(cluster: LocalCluster, name: str) -> str | None:
    """Return the UID of a pod in the default namespace, or None if it does not exist."""
    try:
        return str(cluster.pods.get("default", name)["metadata"]["uid"])
    except ApiError as refusal:
        assert refusal.status == 404
        return None


def _pending_seconds(pod: dict[str, Any]) -> float:
    created, began = (
        datetime.fromisoformat(timestamp)
        for timestamp in (pod["metadata"]["creationTimestamp"], pod["status"]["startTime"])
    )
    return (began - created).total_seconds()


def is_alive(pid: int) -> bool:
    """Report whether a process is alive; a zombie is not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.fixture
def apply(local_cluster: LocalCluster) -> Iterator[Callable[..., None]]:
    """A function that applies a StatefulSet of three pods and waits; it is deleted after the test."""
    names = []

    def apply_and_wait(name: str, **settings: str) -> None:
        names.append(name)
        local_cluster.kubectl("apply", "-f", "-", input=manifest(name, **settings))
        local_cluster.pods.wait_ready("default", f"app={name}", 3)

    yield apply_and_wait
    for name in names:
        local_cluster.kubectl("delete", "statefulset", name, "--ignore-not-found")


def test_nodes_are_ready_and_labelled(local_cluster: LocalCluster) -> None:
    nodes = local_cluster.api.get("/api/v1/nodes")["items"]
    assert len(nodes) == Options.nodes
    for label, count in ((ZONE_LABEL, 2), (POOL_LABEL, 4), ("kubernetes.io/hostname", 8)):
        assert len({node["metadata"]["labels"][label] for node in nodes}) == count
    for node in nodes:
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"


def test_deployment_gets_ready(local_cluster: LocalCluster) -> None:
    local_cluster.kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
    local_cluster.kubectl("rollout", "status", "deployment/web", "--timeout=180s")
    local_cluster.kubectl("delete", "deployment", "web")


def test_deleted_pod_with_grace_period_ends_soon(
    local_cluster: LocalCluster, apply: Callable[..., None]
) -> None:
    apply("graceful")
    before = uid_of(local_cluster, "graceful-0")
    local_cluster.kubectl("delete", "pod", "graceful-0", "--wait=false")
    eventually(lambda: uid_of(local_cluster, "graceful-0") not in (None, before), "the pod is replaced")
    local_cluster.pods.wait_ready("default", "app=graceful", 3)
    replacement = uid_of(local_cluster, "graceful-0")
    # A late deletion by name would hit the replacement.
    time.sleep(1)
    assert uid_of(local_cluster, "graceful-0") == replacement


def test_pod_terminates_after_the_time_in_its_annotation(
    local_cluster: LocalCluster, apply: Callable[..., None]
) -> None:
    apply("slow", annotations='localcluster/stops-after: "2"')
    before, began = uid_of(local_cluster, "slow-0"), time.monotonic()
    local_cluster.kubectl("delete", "pod", "slow-0", "--wait=false")
    eventually(lambda: uid_of(local_cluster, "slow-0") != before, "the pod ends")
    assert time.monotonic() - began > 1.5


def test_pods_start_after_the_delay_of_their_names(
    local_cluster: LocalCluster, apply: Callable[..., None]
) -> None:
    startup = Startup("test", "at once, or late", (0.0, 6.0))
    annotations = ", ".join(f'{key}: "{value}"' for key, value in startup.annotations.items())
    apply("named", annotations=annotations)
    pods = [local_cluster.pods.get("default", f"named-{index}") for index in range(3)]
    late = [pod for pod in pods if startup.of(pod["metadata"]["name"])]
    assert 0 < len(late) < 3
    # Timestamps are in whole seconds.
    assert all(_pending_seconds(pod) >= 5.0 for pod in late)
    others = [pod for pod in pods if pod not in late]
    assert max(map(_pending_seconds, others)) < min(map(_pending_seconds, late))


def test_foreground_deletion_waits_for_dependents(
    local_cluster: LocalCluster, apply: Callable[..., None]
) -> None:
    apply("leader")
    leader = uid_of(local_cluster, "leader-0")
    owner = f"{{apiVersion: v1, kind: Pod, name: leader-0, uid: {leader}, blockOwnerDeletion: true}}"
    apply("worker", owners=f"[{owner}]", annotations='localcluster/stops-after: "2"')
    ended = threading.Event()
    leaders, workers = (
        Following(local_cluster.api, "/api/v1/namespaces/default/pods", f"app={app}", ended)
        for app in ("leader", "worker")
    )
    local_cluster.kubectl("delete", "pod", "leader-0", "--cascade=foreground", "--wait=false")
    eventually(lambda: uid_of(local_cluster, "leader-0") != leader, "the leader is deleted")
    states = [(version, pods.get("leader-0")) for version, pods in leaders.moments()]
    deleted_at = next(version for version, pod in states if pod is None or pod["metadata"]["uid"] != leader)
    phases = [pod["status"]["phase"] for version, pod in states if pod is not None and version < deleted_at]
    assert phases[-1] == "Failed", "the leader has stopped and waits for its dependents"
    assert next(version for version, pods in workers.moments() if not pods) < deleted_at
    ended.set()


def test_restarted_container_is_reported(local_cluster: LocalCluster, apply: Callable[..., None]) -> None:
    apply("restarts")
    local_cluster.pods.restart_container("default", "restarts-1", "side", exit_code=137)
    local_cluster.pods.restart_container("default", "restarts-1", "before", exit_code=3)
    status = local_cluster.pods.get("default", "restarts-1")["status"]
    main, side = status["containerStatuses"]
    assert (main["restartCount"], side["restartCount"]) == (0, 1)
    assert side["lastState"]["terminated"]["exitCode"] == 137
    assert side["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert status["initContainerStatuses"][0]["restartCount"] == 1
    local_cluster.pods.wait_ready("default", "app=restarts", 3)


def test_unready_and_failed_pods_are_simulated(
    local_cluster: LocalCluster, apply: Callable[..., None]
) -> None:
    apply("fails")
    local_cluster.pods.set_ready("default", "fails-0", False)
    eventually(lambda: ready_replicas(local_cluster, "fails") == 2, "one pod is not ready")
    local_cluster.pods.set_ready("default", "fails-0", True)
    eventually(lambda: ready_replicas(local_cluster, "fails") == 3, "all pods are ready again")
    before = uid_of(local_cluster, "fails-1")
    local_cluster.pods.fail("default", "fails-1")
    eventually(lambda: uid_of(local_cluster, "fails-1") not in (None, before), "a failed pod is replaced")


def test_pod_may_never_get_ready(local_cluster: LocalCluster) -> None:
    text = manifest("never", annotations='localcluster/ready: "false"')
    local_cluster.kubectl("apply", "-f", "-", input=text)

    def phases() -> list[str]:
        return [pod["status"]["phase"] for pod in local_cluster.pods.matching("default", "app=never")]

    eventually(lambda: phases() == ["Running"] * 3, "all pods run")
    assert ready_replicas(local_cluster, "never") == 0
    local_cluster.kubectl("delete", "statefulset", "never")


def test_claims_get_volumes_and_leave_none_behind(local_cluster: LocalCluster) -> None:
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    stateful_set = yaml.safe_load(manifest("keeps"))
    stateful_set["spec"]["volumeClaimTemplates"] = [template]
    local_cluster.kubectl("apply", "-f", "-", input=json.dumps(stateful_set))
    local_cluster.pods.wait_ready("default", "app=keeps", 3)
    local_cluster.kubectl("delete", "statefulset", "keeps", "--cascade=foreground")
    local_cluster.kubectl("delete", "persistentvolumeclaim", "-l", "app=keeps")

    def volumes() -> list[Any]:
        return list(local_cluster.api.get("/api/v1/persistentvolumes")["items"])

    eventually(lambda: volumes() == [], "the volumes are gone")


def test_service_account_has_its_own_permissions(local_cluster: LocalCluster) -> None:
    local_cluster.kubectl("create", "serviceaccount", "nobody")
    kubeconfig = local_cluster.kubeconfig_for_service_account("default", "nobody")
    kubectl = str(local_cluster.binary("kubectl"))
    command = [kubectl, "--kubeconfig", str(kubeconfig), "auth", "can-i", "get", "pods"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (1, "no")
    assert '"verb":"create"' in local_cluster.audit_log.read_text()


def test_restarted_components_keep_their_data(
    local_cluster: LocalCluster, apply: Callable[..., None]
) -> None:
    apply("survives")
    for name in ("kube-apiserver", "etcd"):
        local_cluster.kill_component(name)
        local_cluster.start_component(name)
    assert len(local_cluster.pods.wait_ready("default", "app=survives", 3)) == 3
    pid = local_cluster.component("kube-scheduler").pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(
        lambda: local_cluster.component("kube-scheduler").pid not in (None, pid), "the component is restarted"
    )


def test_nothing_remains_after_stop() -> None:
    with LocalCluster(Options(nodes=1)) as second:
        pids = [second.component(name).pid for name in COMPONENTS]
        state = second.workspace
        assert all(pid is not None and is_alive(pid) for pid in pids)
    assert not any(pid is not None and is_alive(pid) for pid in pids)
    assert not state.exists()


def test_nothing_remains_after_a_failed_start() -> None:
    broken = LocalCluster(Options(extra_flags={"kube-scheduler": ["--no-such-flag"]}))
    with pytest.raises(ComponentError, match=r"(?s)kube-scheduler ended while starting.*no-such-flag"):
        broken.start()
    with pytest.raises(ComponentError, match="not running"):
        _ = broken.server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed parent"])
def test_nothing_remains_of_the_command(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tools.localcluster", "--nodes", "1"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        kubeconfig = child.stdout.readline().strip().partition("KUBECONFIG=")[2]
        child.stdout.readline()
        child.stdout.readline()
        state = Path(kubeconfig).parents[1]
        assert state.exists()
        pids = processes_naming(str(state))
        assert len(pids) == len(COMPONENTS)
        child.send_signal(number)
    eventually(lambda: not any(map(is_alive, pids)), "all components have ended")
    eventually(lambda: not state.exists(), "the state directory is gone")


def ready_replicas(cluster: LocalCluster, name: str) -> int:
    path = f"/apis/apps/v1/namespaces/default/statefulsets/{name}"
    status: dict[str, Any] = cluster.api.get(path)["status"]
    return int(status.get("readyReplicas", 0))


def processes_naming(text: str) -> list[int]:
    """Return the ids of the processes that have `text` on their command line."""
    pids = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (directory / "cmdline").read_bytes():
                pids.append(int(directory.name))
        except OSError:
            continue
    return pids
