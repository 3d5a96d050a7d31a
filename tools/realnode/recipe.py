"""Answers: which programs of a node are compiled, from which Go modules, and where are they afterwards?

In: the modules below go/, the cache. Out: a path for each program.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.localcluster.build import cache_directory, ensure_built
from tools.localcluster.progress import Report
from tools.localcluster.recipe import KUBERNETES_MODULE, KUBERNETES_VERSION, Target, kubernetes_linker_flags

CNI_PLUGINS = ("ptp", "host-local")

_SOURCES = Path(__file__).parent / "go"
_LINKER_FLAGS = "-s -w"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"


def _of_module(module: str, name: str, package: str = ".") -> Target:
    return Target(name, _SOURCES / module, package, _LINKER_FLAGS, (name,))


TARGETS: tuple[Target, ...] = (
    Target(
        name="node",
        # The module of the control plane: what both are made of is compiled once.
        module=KUBERNETES_MODULE,
        package="./node",
        linker_flags=kubernetes_linker_flags(KUBERNETES_VERSION),
        programs=("kubelet", "kube-proxy"),
        sources=(KUBERNETES_MODULE / "node" / "main.go",),
    ),
    *(
        _of_module("containers", name, f"{_CONTAINERD}/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    _of_module("containers", "ptp", f"{_CNI}/main/ptp"),
    _of_module("containers", "host-local", f"{_CNI}/ipam/host-local"),
    *(_of_module(name, name) for name in ("coredns", "pause", "member")),
)


def build_programs(report: Report) -> Mapping[str, Path]:
    """Return the binary of every program, built if need be. Raises BuildError or NoGoError."""
    return {
        program: ensure_built(target, cache_directory(), report) / program
        for target in TARGETS
        for program in target.programs
    }
