"""Settings of each part of a node, and the addresses of the node, its pods and Services."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.credentials import REAL_NODE, SERVICE_RANGE
from tools.localcluster.ports import LOOPBACK
from tools.realnode.images import PAUSE
from tools.realnode.kit import Kit, NodeError

NODE_ADDRESS = "10.63.0.1"
POD_RANGE = "10.64.0.0/24"
DNS_ADDRESS = "10.96.0.10"

_KERNEL = {"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}
_COMMANDS = (
    ("link", "set", "lo", "up"),
    ("address", "add", f"{NODE_ADDRESS}/32", "dev", "lo"),
    # Nobody has these addresses: kube-proxy translates them, once there is a route that packets could take.
    ("route", "add", SERVICE_RANGE, "dev", "lo", "src", NODE_ADDRESS),
)


def set_up_network(kernel: Path = Path("/proc/sys/net")) -> None:
    """Give this network namespace its addresses. Raises NodeError."""
    for command in _COMMANDS:
        done = subprocess.run(["ip", *command], capture_output=True, text=True)
        if done.returncode:
            raise NodeError(f"ip {' '.join(command)} failed: {done.stderr.strip()}")
    for name, value in _KERNEL.items():
        (kernel / name).write_text(value)


def pod_network(addresses: Path) -> dict[str, Any]:
    """Return the CNI configuration; `addresses` is the folder that remembers which are taken."""
    ranges = [[{"subnet": POD_RANGE}]]
    assignment = {
        "type": "host-local",
        "dataDir": str(addresses),
        "ranges": ranges,
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": assignment}],
    }


SOCKET = "/run/containerd.sock"
KUBELET_HEALTH = f"http://{LOOPBACK}:10248/healthz"
PROXY_HEALTH = f"http://{LOOPBACK}:10256/healthz"
# Signals of the kubelet that evict pods; a machine that is nearly full must not evict those of a test.
_EVICTIONS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
)


@dataclass(frozen=True)
class Files:
    """Where the settings of a node are, and what they speak of."""

    kit: Kit

    @property
    def containerd(self) -> Path:
        return self.kit.folder / "containerd.toml"

    @property
    def kubelet(self) -> Path:
        return self.kit.folder / "kubelet.yaml"

    @property
    def proxy(self) -> Path:
        return self.kit.folder / "kube-proxy.yaml"

    @property
    def pod_network(self) -> Path:
        return self.kit.folder / "cni" / "10-pods.conflist"

    @property
    def resolver(self) -> Path:
        return self.kit.folder / "resolv.conf"

    @property
    def kubelet_state(self) -> Path:
        return self.kit.folder / "kubelet"

    @property
    def plugins(self) -> Path:
        return self.kit.folder / "cni-plugins"


def write_settings(files: Files, ca: Path, proxy_kubeconfig: Path) -> None:
    """Write every file that a part of the node reads."""
    for folder in (files.pod_network.parent, files.plugins):
        folder.mkdir()
    files.containerd.write_text(containerd(files))
    files.kubelet.write_text(kubelet(files, ca))
    files.proxy.write_text(kube_proxy(proxy_kubeconfig))
    files.pod_network.write_text(json.dumps(pod_network(files.kit.folder / "addresses")))
    # Pods without the cluster's DNS ask nobody: there is no way out.
    files.resolver.write_text("")


def containerd(files: Files) -> str:
    """Return containerd's configuration, TOML of version 3."""
    kit = files.kit
    return f"""version = 3
root = "{kit.folder / "containerd"}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "{kit.folder / "opt"}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter(kit)}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{files.plugins}"]
conf_dir = "{files.pod_network.parent}"
use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{kit.programs["runc"]}"
SystemdCgroup = false
"""


def snapshotter(kit: Kit) -> str:
    """Return what keeps the file systems of containers; the second copies them."""
    return "overlayfs" if kit.overlay else "native"


def kubelet(files: Files, ca: Path) -> str:
    """Return a KubeletConfiguration."""
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{files.kit.name}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "evictionHard": {signal: "0%" for signal in _EVICTIONS},
        "failCgroupV1": False,
        "failSwapOn": False,
        # Images cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(files.kit.folder / "pod-logs"),
        # It is to find the settings of the kernel right, see mounts.py, and not to change them.
        "protectKernelDefaults": True,
        "resolvConf": str(files.resolver),
        "serializeImagePulls": False,
        "volumePluginDir": str(files.kit.folder / "volume-plugins"),
    }
    return yaml.safe_dump(settings)


def kube_proxy(kubeconfig: Path) -> str:
    """Return a KubeProxyConfiguration."""
    settings = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": REAL_NODE,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": POD_RANGE,
        "detectLocalMode": "ClusterCIDR",
        # These are settings of the machine, not of a network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return yaml.safe_dump(settings)
