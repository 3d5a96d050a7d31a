"""Answers: which addresses do a node, its pods and its Services have, in a network namespace of their own?

Pods get a pair of devices each and are routed: no bridge, so nothing depends on the kernel's bridge filter.
Nothing of it exists outside of the namespace, and there is no way out of it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tools.localcluster.credentials import SERVICE_RANGE
from tools.realnode.errors import NodeError

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


def set_up(kernel: Path = Path("/proc/sys/net")) -> None:
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
