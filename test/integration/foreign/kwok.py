"""Simulate nodes with kwok as its guide describes: its own stages and nodes, no kubelet.

Pods are running and ready at once and ignore their annotations.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster import LocalCluster
from tools.localcluster.build import cache_directory, find_go, find_kwok
from tools.localcluster.component import Blueprint, Component, Guard, wait_until
from tools.localcluster.components import kwok_health
from tools.localcluster.nodes import is_ready
from tools.localcluster.ports import LOOPBACK, pick_ports
from tools.localcluster.progress import LinePrinter
from tools.localcluster.recipe import KWOK, go_environment

NODES = ("kwok-node-0", "kwok-node-1")

_ANNOTATION = "kwok.x-k8s.io/node"
_ROOM = {"cpu": "64", "memory": "512Gi", "pods": "500"}
_SECONDS = 120.0


@contextmanager
def kwok_as_in_its_guide(cluster: LocalCluster, directory: Path) -> Iterator[None]:
    """Run kwok with its nodes during the block. directory: for its files."""
    directory.mkdir()
    stages, (port,) = directory / "stages.yaml", pick_ports(1)
    stages.write_text("---\n".join(_stages(_module() / "kustomize" / "stage" / "fast")))
    flags = [
        f"--config={stages}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--manage-nodes-with-annotation-selector={_ANNOTATION}=fake",
        "--node-lease-duration-seconds=40",
        "--cidr=10.0.0.1/16",
        f"--node-ip={LOOPBACK}",
        f"--server-address={LOOPBACK}:{port}",
    ]
    command = [str(find_kwok(LinePrinter())), *flags]
    guard = Guard(directory)
    kwok = Component(Blueprint("kwok", command, directory / "kwok.log", kwok_health(port)), guard)
    try:
        kwok.start()
        kwok.wait_healthy(_SECONDS)
        with _its_nodes(cluster):
            yield
    finally:
        kwok.stop()
        guard.close()


@contextmanager
def _its_nodes(cluster: LocalCluster) -> Iterator[None]:
    for name in NODES:
        cluster.api.create("/api/v1/nodes", _node(name))
    try:
        paths = [f"/api/v1/nodes/{name}" for name in NODES]
        wait_until(lambda: all(is_ready(cluster.api.get(path)) for path in paths), "not ready", _SECONDS)
        yield
    finally:
        for name in NODES:
            cluster.api.delete(f"/api/v1/nodes/{name}")


def _node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {_ANNOTATION: "fake"}, "labels": labels},
        "status": {"capacity": _ROOM, "allocatable": _ROOM, "nodeInfo": {"kubeletVersion": "fake"}},
    }


def _module() -> Path:
    """Return the sources of the compiled kwok version; they contain its stages, its binary does not."""
    command = [str(find_go(cache_directory())), "mod", "download", "-json", "sigs.k8s.io/kwok"]
    done = subprocess.run(
        command, cwd=KWOK.module, env=go_environment(os.environ), capture_output=True, text=True, check=True
    )
    return Path(json.loads(done.stdout)["Dir"])


def _stages(directory: Path) -> Iterator[str]:
    """Yield the files of a kustomization, and of folders that it lists."""
    for name in yaml.safe_load((directory / "kustomization.yaml").read_text())["resources"]:
        path = directory / name
        if path.is_dir():
            yield from _stages(path)
        else:
            yield path.read_text()
