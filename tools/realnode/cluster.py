"""Start a control plane with a real node, DNS and Services. This works only inside the namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tools.image.archive import read_image
from tools.image.steps import ImageError
from tools.localcluster import LocalCluster, Options, Report
from tools.localcluster.component import Blueprint, Component, ComponentError
from tools.localcluster.credentials import REAL_NODE
from tools.localcluster.nodes import is_ready
from tools.localcluster.progress import Step
from tools.realnode.images import CNI_PLUGINS
from tools.realnode.kit import Kit, NodeError
from tools.realnode.settings import (
    KUBELET_HEALTH,
    NODE_ADDRESS,
    PROXY_HEALTH,
    SOCKET,
    Files,
    snapshotter,
    write_settings,
)

PARTS = ("containerd", "kubelet", "kube-proxy")

_DNS = Path(__file__).with_name("dns.yaml")
_START_SECONDS = 240.0
_POLL_SECONDS = 0.1
_KUBELET_USER, _PROXY_USER = f"system:node:{REAL_NODE}", "system:kube-proxy"
# A daemon that keeps the time moves the clock by less than this in a day.
_JUMP_SECONDS = 5.0
_FULL = "no space left on device"
# containerd keeps an imported archive and unpacks it too. Compression shrinks layers to a third of their
# size.
_TIMES = 5


class RealCluster(LocalCluster):
    """A `LocalCluster` with one real node, whose programs are components like the others."""

    def __init__(self, kit: Kit, options: Options | None = None, report: Report | None = None) -> None:
        chosen = replace(options or Options(), nodes=0, node_address=NODE_ADDRESS)
        super().__init__(chosen, report)
        self._kit = kit
        self._files = Files(kit)
        self.clock = Clock()

    def images(self) -> list[str]:
        """Return the names of the images that the node has."""
        return self.ctr("images", "list", "--quiet").split()

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own client, in containerd's namespace of the kubelet. Raises NodeError."""
        command = [self._kit.programs["ctr"], "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True)
        if done.returncode:
            raise NodeError(f"ctr {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def load(self, archive: Path) -> None:
        """Import an archive's images, as README.md recommends. Raises NodeError, e.g. if truncated."""
        # The daemon unpacks for the usual snapshotter; for any other, the client must unpack.
        options = [] if self._kit.overlay else ["--local", "--snapshotter", snapshotter(self._kit)]
        try:
            self.ctr("images", "import", *options, str(archive))
        except NodeError as error:
            raise NodeError(reason(archive, self._kit.folder, str(error))) from error

    def _bring_up(self) -> None:
        with self.clock.watched():
            super()._bring_up()
            self._bring_up_node()

    def _bring_up_node(self) -> None:
        self._prepare_node()
        self._step("start containerd", lambda: self._start_all(["containerd"]))
        self._step("load images", self._load_all)
        self._step("start kubelet and kube-proxy", lambda: self._start_all(PARTS[1:]))
        self.kubectl("apply", "-f", str(_DNS))
        self._step("wait for the node", lambda: self._wait_for(self._node_is_ready, "the node"))
        self._step("wait for DNS", lambda: self._wait_for(self._dns_answers, "CoreDNS"))

    def _prepare_node(self) -> None:
        plan = self._running
        write_settings(self._files, plan.credentials.ca, plan.kubeconfig(_PROXY_USER))
        for plugin in CNI_PLUGINS:
            (self._files.plugins / plugin).symlink_to(self._kit.programs[plugin])
        assert self._guard is not None
        for blueprint in self._node_blueprints(plan.kubeconfig(_KUBELET_USER)):
            self._components[blueprint.name] = Component(blueprint, self._guard)

    def _node_blueprints(self, kubeconfig: Path) -> list[Blueprint]:
        files, health = self._files, dict(zip(PARTS, ("", KUBELET_HEALTH, PROXY_HEALTH), strict=True))
        arguments = {
            "containerd": [f"--config={files.containerd}"],
            "kubelet": [
                f"--config={files.kubelet}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={REAL_NODE}",
                f"--node-ip={NODE_ADDRESS}",
                f"--root-dir={files.kubelet_state}",
                f"--cert-dir={files.kubelet_state / 'pki'}",
            ],
            "kube-proxy": [f"--config={files.proxy}"],
        }
        settings = [f"{name}={value}" for name, value in self._variables().items()]
        commands = {name: ["env", *settings, self._kit.programs[name], *arguments[name]] for name in PARTS}
        return [Blueprint(name, commands[name], self.logs / f"{name}.log", health[name]) for name in PARTS]

    def _variables(self) -> dict[str, str]:
        folders = [
            str(Path(self._kit.programs[name]).parent) for name in ("containerd-shim-runc-v2", "runc", "nft")
        ]
        path = [*folders, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]
        libraries = [*self._kit.libraries, os.environ.get("LD_LIBRARY_PATH", "")]
        paths = {"PATH": os.pathsep.join(path), "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}
        return {name: value for name, value in paths.items() if value}

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._variables(), "CONTAINERD_ADDRESS": SOCKET}

    def _load_all(self) -> None:
        self._wait_for(self._containerd_answers, "containerd")
        for archive in self._kit.archives:
            self.load(Path(archive))

    def _containerd_answers(self) -> bool:
        try:
            self.images()
        except NodeError:
            return False
        return True

    def _node_is_ready(self) -> bool:
        nodes = self.api.get("/api/v1/nodes")["items"]
        return bool(nodes) and all(is_ready(node) for node in nodes)

    def _dns_answers(self) -> bool:
        deployment = self.api.get("/apis/apps/v1/namespaces/kube-system/deployments/coredns")
        return bool(deployment.get("status", {}).get("readyReplicas"))

    def _wait_for(self, is_true: Callable[[], bool], subject: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_true():
            for name in PARTS:
                part = self._components[name]
                if part.pid is None and part.last_words():
                    raise ComponentError(f"{name} ended while starting{part.last_words()}")
            if time.monotonic() > deadline:
                words = "".join(f"\n{name}{self.component(name).last_words()}" for name in PARTS)
                raise ComponentError(f"{subject} is not ready after {_START_SECONDS:g} s{words}")
            time.sleep(_POLL_SECONDS)

    def _step(self, name: str, act: Callable[[], None]) -> None:
        with Step(name, self._report):
            act()


class Clock:
    """Detects jumps of the wall clock since this object was created."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._steady = wall, steady
        self._first = self._difference()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise NodeError in place of an error of the block if the clock has jumped since."""
        try:
            yield
        except Exception as error:
            jump = self._difference() - self._first
            if abs(jump) <= _JUMP_SECONDS:
                raise
            raise NodeError(f"the clock jumped by {jump:.0f} s: start again") from error

    def _difference(self) -> float:
        return self._wall() - self._steady()


def reason(archive: Path, folder: Path, message: str) -> str:
    """Explain why importing `archive` into `folder` failed with `message`, and what to do."""
    if _FULL in message.lower():
        free, needed = shutil.disk_usage(folder).free, _TIMES * archive.stat().st_size
        return (
            f"{folder} has {_gigabytes(free)} free, and the images of {archive} need about "
            f"{_gigabytes(needed)}: free some, and start again"
        )
    try:
        read_image(archive)
    except ImageError:
        # Caches are checked before a node starts, but not afterwards.
        return f"{archive} is truncated or no archive of an image: start again, and it is made anew"
    return f"{archive} could not be imported: {' '.join(message.split())}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
