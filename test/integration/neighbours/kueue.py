"""Run Kueue on a cluster: its own manifests, and its manager as a process of this host.

The Service of its webhooks points at this host. Kueue creates its certificates itself, as on any cluster; the
Secret that Kubernetes would mount into its pod is copied.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from test.harness.waiting import eventually
from tools.deployment import ManagerProcess
from tools.localcluster import LocalCluster
from tools.localcluster.build import find_module, find_programs
from tools.localcluster.ports import LOOPBACK, pick_ports
from tools.localcluster.progress import LinePrinter
from tools.localcluster.recipe import KUEUE, KUEUE_MODULE

NAMESPACE = "kueue-system"
ACCOUNT = "kueue-controller-manager"
WEBHOOKS, CERTIFICATE = "kueue-webhook-service", "kueue-webhook-server-cert"
# Kueue does not run in pods here, and an unreachable APIService would block deletions of namespaces.
_LEFT_OUT = ("APIService", "Deployment")
# Kinds that the test clusters serve; MultiKueue connects to no cluster if one is missing.
_FRAMEWORKS = ("batch/job", "pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")

Object = dict[str, Any]


@contextmanager
def running_kueue(cluster: LocalCluster, workspace: Path) -> Iterator[ManagerProcess]:
    """Install Kueue and run it during the block, with the permissions of its ServiceAccount."""
    manifests = find_module(KUEUE, KUEUE_MODULE, LinePrinter()) / "config" / "default"
    webhooks, health = pick_ports(2)
    objects = [
        pointed_here(manifest, webhooks)
        for manifest in yaml.safe_load_all(cluster.kubectl("kustomize", str(manifests)))
        if manifest["kind"] not in _LEFT_OUT
    ]
    # These CRDs are too large for the annotation of a client-side apply.
    cluster.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(objects))
    manager = a_manager(cluster, workspace, published_configuration(objects), (webhooks, health))
    manager.start()
    try:
        copy_certificate(cluster, workspace / "certificates")
        yield manager.wait_ready()
    finally:
        manager.stop()
        for kind in ("mutating", "validating"):
            name = f"kueue-{kind}-webhook-configuration"
            cluster.kubectl("delete", f"{kind}webhookconfiguration", name)


def pointed_here(manifest: Object, port: int) -> Object:
    """Return the manifest, with the Service of the webhooks pointing at a port of this host."""
    if (manifest["kind"], manifest["metadata"]["name"]) == ("Service", WEBHOOKS):
        return {**manifest, "spec": {"type": "ExternalName", "externalName": LOOPBACK}}
    if manifest["kind"].endswith("WebhookConfiguration"):
        for webhook in manifest["webhooks"]:
            webhook["clientConfig"]["service"]["port"] = port
    conversion = manifest.get("spec", {}).get("conversion", {})
    if "webhook" in conversion:
        conversion["webhook"]["clientConfig"]["service"]["port"] = port
    return manifest


def published_configuration(objects: list[Object]) -> Object:
    """Return the configuration file that would be mounted into its pod."""
    (text,) = (obj["data"]["controller_manager_config.yaml"] for obj in objects if obj["kind"] == "ConfigMap")
    return dict(yaml.safe_load(text))


def a_manager(
    cluster: LocalCluster, workspace: Path, configuration: Mapping[str, Any], ports: tuple[int, int]
) -> ManagerProcess:
    webhooks, health = ports
    overrides = {
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhooks, "certDir": str(workspace / "certificates")},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
        # This feature is a separate API server, which no test uses.
        "featureGates": {"VisibilityOnDemand": False},
    }
    path = workspace / "kueue.yaml"
    path.write_text(yaml.safe_dump({**configuration, **overrides}))
    program = find_programs(["kueue"], LinePrinter())["kueue"]
    kubeconfig = cluster.kubeconfig_for_service_account(NAMESPACE, ACCOUNT)
    return ManagerProcess(
        command=[str(program), f"--config={path}", "--zap-log-level=2"],
        log_path=workspace / "kueue.log",
        health_port=health,
        webhook_port=webhooks,
        environment={"KUBECONFIG": str(kubeconfig)},
    )


def copy_certificate(cluster: LocalCluster, directory: Path) -> None:
    """Copy the Secret of the certificate as a kubelet would mount it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{CERTIFICATE}"
    data = eventually(
        "Kueue has created a certificate",
        lambda: cluster.api.get(path).get("data") or {},
        lambda data: "tls.crt" in data,
    )
    directory.mkdir()
    # Kueue waits for tls.crt, so it comes last.
    for name in ("ca.crt", "tls.key", "tls.crt"):
        (directory / name).write_bytes(base64.b64decode(data[name]))
