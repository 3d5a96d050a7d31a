"""Write the settings of a node's programs from the files beside this one, and define its addresses."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any

from tools.localcluster.credentials import REAL_NODE
from tools.localcluster.ports import LOOPBACK
from tools.realnode.images import PAUSE
from tools.realnode.kit import Kit

NODE_ADDRESS = "10.63.0.1"
POD_RANGE = "10.64.0.0/24"
DNS_ADDRESS = "10.96.0.10"
SOCKET = "/run/containerd.sock"
KUBELET_HEALTH = f"http://{LOOPBACK}:10248/healthz"
PROXY_HEALTH = f"http://{LOOPBACK}:10256/healthz"


class Files:
    """The paths of a node's settings, and paths that the settings name."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.containerd = kit.folder / "containerd.toml"
        self.kubelet = kit.folder / "kubelet.yaml"
        self.proxy = kit.folder / "kube-proxy.yaml"
        self.pod_network = kit.folder / "cni" / "10-pods.conflist"
        self.resolver = kit.folder / "resolv.conf"
        self.kubelet_state = kit.folder / "kubelet"
        self.plugins = kit.folder / "cni-plugins"


def write_settings(files: Files, ca: Path, proxy_kubeconfig: Path) -> None:
    """Write every file that a program of the node reads."""
    for folder in (files.pod_network.parent, files.plugins):
        folder.mkdir()
    for path, text in ((files.containerd, containerd(files)), (files.kubelet, kubelet(files, ca))):
        path.write_text(text)
    files.proxy.write_text(kube_proxy(proxy_kubeconfig))
    files.pod_network.write_text(json.dumps(pod_network(files.kit.folder / "addresses")))
    # Pods that do not use the cluster's DNS have no resolver, because there is no way out.
    files.resolver.write_text("")


def pod_network(addresses: Path) -> dict[str, Any]:
    """Return the CNI configuration; the folder `addresses` records which addresses are taken.

    Each pod gets a routed pair of devices, so that nothing depends on the kernel's bridge filter.
    """
    ranges, routes = [[{"subnet": POD_RANGE}]], [{"dst": "0.0.0.0/0"}]
    assignment = {"type": "host-local", "dataDir": str(addresses), "ranges": ranges, "routes": routes}
    plugins = [{"type": "ptp", "ipMasq": False, "ipam": assignment}]
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}


def snapshotter(kit: Kit) -> str:
    """Return the name of the snapshotter that stores the file systems of containers. `native` copies them."""
    return "overlayfs" if kit.overlay else "native"


def containerd(files: Files) -> str:
    """Return containerd's configuration."""
    kit = files.kit
    folders = {"state": kit.folder, "plugins": files.plugins, "networks": files.pod_network.parent}
    names = {"socket": SOCKET, "snapshotter": snapshotter(kit), "pause": PAUSE, "runc": kit.programs["runc"]}
    return _filled("containerd.toml", **folders, **names)


def kubelet(files: Files, ca: Path) -> str:
    """Return a KubeletConfiguration."""
    kit, addresses = files.kit, {"socket": SOCKET, "dns": DNS_ADDRESS}
    paths = {"ca": ca, "state": kit.folder, "resolver": files.resolver}
    return _filled("kubelet.yaml", name=kit.name, **addresses, **paths)


def kube_proxy(kubeconfig: Path) -> str:
    """Return a KubeProxyConfiguration."""
    return _filled("kube-proxy.yaml", node=REAL_NODE, kubeconfig=kubeconfig, pods=POD_RANGE)


def _filled(file: str, /, **values: str | Path) -> str:
    return Template(Path(__file__).with_name(file).read_text("utf-8")).substitute(values)
