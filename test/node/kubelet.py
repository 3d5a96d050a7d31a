"""Change or disrupt a whole node: change kubelet settings, stop kubelet and containerd, or cut the power."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from test.harness.waiting import eventually
from tools.localcluster import ApiError
from tools.localcluster.credentials import REAL_NODE
from tools.realnode.cluster import RealCluster
from tools.realnode.inside import hierarchies
from tools.realnode.kit import NodeError, read_kit
from tools.realnode.settings import Files

SECONDS = 240.0

# Directories in memory, which are empty after a reboot.
_VOLATILE = (Path("/run/containerd"), Path("/run/netns"))
_PINNED = "io.cri-containerd.pinned=pinned"
_SHIM = b"containerd-shim-runc-v2\0"


@contextmanager
def other_settings(cluster: RealCluster, settings: Mapping[str, Any]) -> Iterator[None]:
    """Run the kubelet with these settings during the block."""
    path = Files(read_kit()).kubelet
    former = path.read_text()
    _restart_kubelet(cluster, path, yaml.safe_dump({**yaml.safe_load(former), **settings}))
    try:
        yield
    finally:
        _restart_kubelet(cluster, path, former)


def free_bytes() -> int:
    """Return the free bytes of the disk with the pods."""
    return shutil.disk_usage(Files(read_kit()).kubelet_state).free


@contextmanager
def filled(size: int) -> Iterator[None]:
    """Allocate `size` bytes of that disk during the block."""
    with tempfile.TemporaryFile(dir=Files(read_kit()).kubelet_state) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        yield


@contextmanager
def cordoned(cluster: RealCluster) -> Iterator[None]:
    """Cordon the node during the block."""
    cluster.kubectl("cordon", REAL_NODE)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", REAL_NODE)


def written(cluster: RealCluster) -> dict[str, int]:
    """Return, for each pod UID, the bytes in the file systems of its containers, as the kubelet counts them.

    The counts are some seconds old; they are empty if the kubelet has just started.
    """
    try:
        summary = cluster.api.get(f"/api/v1/nodes/{REAL_NODE}/proxy/stats/summary")
    except ApiError as refusal:
        if refusal.status != http.client.INTERNAL_SERVER_ERROR:
            raise
        return {}
    return {
        pod["podRef"]["uid"]: sum(
            container.get("rootfs", {}).get("usedBytes", 0) for container in pod["containers"]
        )
        for pod in summary["pods"]
    }


def pin_images(cluster: RealCluster) -> None:
    """Prevent the kubelet from deleting images, because they cannot be pulled again."""
    for name in cluster.images():
        cluster.ctr("images", "label", name, _PINNED)


def stop_programs(cluster: RealCluster) -> None:
    """Stop kubelet and containerd; containers keep running."""
    for name in ("kubelet", "containerd"):
        cluster.component(name).stop()


def start_programs(cluster: RealCluster) -> None:
    cluster.component("containerd").start()
    # A kubelet without containerd exits.
    eventually("containerd answers", lambda: _answers(cluster), seconds=SECONDS)
    cluster.component("kubelet").start()
    cluster.component("kubelet").wait_healthy(SECONDS)
    cluster.component("containerd").wait_healthy(SECONDS)


def cut_power(cluster: RealCluster) -> None:
    """Kill every process of the node, so that only data on disks is left."""
    for name in ("kubelet", "containerd"):
        cluster.component(name).kill()
    deadline = time.monotonic() + SECONDS
    while pids := [*_shims(), *_in_containers()]:
        assert time.monotonic() < deadline, pids
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    for mounted in reversed(_mounted()):
        subprocess.run(["umount", "--lazy", mounted], check=True)
    for folder in _VOLATILE:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(cluster: RealCluster) -> bool:
    try:
        return bool(cluster.images())
    except NodeError:
        return False


def _restart_kubelet(cluster: RealCluster, path: Path, text: str) -> None:
    kubelet = cluster.component("kubelet")
    kubelet.stop()
    path.write_text(text)
    kubelet.start()
    kubelet.wait_healthy(SECONDS)


def _in_containers() -> Iterator[int]:
    """Yield the processes in the cgroups of this node, in every hierarchy."""
    seen = set[int]()
    for root in hierarchies():
        for listed in (root / read_kit().name).rglob("cgroup.procs"):
            with suppress(OSError):
                # 0 stands for a process in another PID namespace, which is not of this node.
                seen |= {int(pid) for pid in listed.read_text().split()} - {0}
    yield from seen


def _shims() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if _SHIM in path.read_bytes():
                yield int(path.parent.name)


def _mounted() -> list[str]:
    """Return mount points of containers and of volumes, in the order in which they were mounted."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    folders = [*_VOLATILE, Files(read_kit()).kubelet_state]
    return [point for point in points if any(Path(point).is_relative_to(folder) for folder in folders)]
