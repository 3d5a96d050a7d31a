"""Change or disrupt a whole node: other kubelet settings, kubelet and containerd stopped, or a power cut."""

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

# What is in memory, and so gone when a machine starts again.
_VOLATILE = (Path("/run/containerd"), Path("/run/netns"))
_PINNED = "io.cri-containerd.pinned=pinned"
_SHIM = b"containerd-shim-runc-v2\0"


@contextmanager
def other_settings(cluster: RealCluster, settings: Mapping[str, Any]) -> Iterator[None]:
    """The kubelet runs with these settings meanwhile."""
    path = Files(read_kit()).kubelet
    former = path.read_text()
    _restart_kubelet(cluster, path, yaml.safe_dump({**yaml.safe_load(former), **settings}))
    try:
        yield
    finally:
        _restart_kubelet(cluster, path, former)


def free_bytes() -> int:
    """Of the disk that pods are on."""
    return shutil.disk_usage(Files(read_kit()).kubelet_state).free


@contextmanager
def filled(size: int) -> Iterator[None]:
    """So many bytes of that disk are taken meanwhile."""
    with tempfile.TemporaryFile(dir=Files(read_kit()).kubelet_state) as taken:
        os.posix_fallocate(taken.fileno(), 0, size)
        yield


@contextmanager
def cordoned(cluster: RealCluster) -> Iterator[None]:
    """No new pod comes to the node meanwhile."""
    cluster.kubectl("cordon", REAL_NODE)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", REAL_NODE)


def written(cluster: RealCluster) -> dict[str, int]:
    """UID -> bytes in the file systems of a pod's containers, as the kubelet counts them: seconds late.

    Nothing from a kubelet that has just started and has not counted yet.
    """
    try:
        found = cluster.api.get(f"/api/v1/nodes/{REAL_NODE}/proxy/stats/summary")
    except ApiError as refusal:
        if refusal.status != http.client.INTERNAL_SERVER_ERROR:
            raise
        return {}
    return {
        pod["podRef"]["uid"]: sum(each.get("rootfs", {}).get("usedBytes", 0) for each in pod["containers"])
        for pod in found["pods"]
    }


def pin_images(cluster: RealCluster) -> None:
    """Have the kubelet keep them all, whatever it lacks: they cannot be pulled again."""
    for name in cluster.images():
        cluster.ctr("images", "label", name, _PINNED)


def stop_programs(cluster: RealCluster) -> None:
    """Without kubelet and containerd: containers go on."""
    for name in ("kubelet", "containerd"):
        cluster.component(name).stop()


def start_programs(cluster: RealCluster) -> None:
    cluster.component("containerd").start()
    # A kubelet that meets no containerd ends.
    eventually("containerd", lambda: _answers(cluster), seconds=SECONDS)
    cluster.component("kubelet").start()
    cluster.component("kubelet").wait_healthy(SECONDS)
    cluster.component("containerd").wait_healthy(SECONDS)


def cut_power(cluster: RealCluster) -> None:
    """Nothing runs any more, and nothing is left but what is on disks."""
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
    """Processes below the cgroup of this node, in whichever hierarchy."""
    seen = set[int]()
    for root in hierarchies():
        for listed in (root / read_kit().name).rglob("cgroup.procs"):
            with suppress(OSError):
                # 0 is one of another process namespace: none of this node's is.
                seen |= {int(pid) for pid in listed.read_text().split()} - {0}
    yield from seen


def _shims() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if _SHIM in path.read_bytes():
                yield int(path.parent.name)


def _mounted() -> list[str]:
    """Mount points of containers and of volumes, in the order in which they were mounted."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    folders = [*_VOLATILE, Files(read_kit()).kubelet_state]
    return [point for point in points if any(Path(point).is_relative_to(each) for each in folders)]
