"""tools.realnode.preparation: missing requirements of a machine are reported at once, in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.realnode import preparation
from tools.realnode.kit import MissingError
from tools.realnode.preparation import Machine, can_overlay, lacks


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("cpu", "cpuset", "memory", "pids"):
        hierarchy(tmp_path / "cgroup" / name)
    (tmp_path / "kmsg").touch()
    return Machine(
        root=True,
        kernel="6.1.0-13-amd64",
        installed=lambda program: True,
        succeeds=lambda command: True,
        free=lambda path: 10**12,
        cgroups=tmp_path / "cgroup",
        kernel_log=tmp_path / "kmsg",
    )


def hierarchy(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "cgroup.procs").touch()


def test_a_machine_that_meets_all_requirements(machine: Machine, tmp_path: Path) -> None:
    assert lacks(machine, tmp_path / "new") == []
    assert sorted(path.name for path in (tmp_path / "cgroup" / "cpu").iterdir()) == ["cgroup.procs"]


LACKING: dict[str, tuple[Callable[[Machine], Machine], str]] = {
    "root": (lambda it: replace(it, root=False), "needs root: run it by sudo"),
    "ip": (lambda it: replace(it, installed=lambda name: name != "ip"), "install iproute2"),
    "kernel": (lambda it: replace(it, kernel="5.10.0-1"), "Linux 5.13 or newer, and this is 5.10.0-1"),
    "namespaces": (lambda it: replace(it, succeeds=lambda command: False), "allows no namespaces"),
    "veth": (lambda it: replace(it, succeeds=lambda command: command[-1] == "true"), "modprobe veth"),
    "log": (lambda it: replace(it, kernel_log=Path("/nowhere")), "/nowhere, and it is not there"),
    "space": (lambda it: replace(it, free=lambda path: 10**9), "has 1.0 GB free, and a node needs 4.0 GB"),
}


@pytest.mark.parametrize(("lose", "message"), LACKING.values(), ids=LACKING)
def test_missing_requirements_are_reported_with_a_remedy(
    machine: Machine, tmp_path: Path, lose: Callable[[Machine], Machine], message: str
) -> None:
    (lacking,) = lacks(lose(machine), tmp_path)
    assert message in lacking and "\n" not in lacking


def test_all_missing_requirements_are_reported_at_once(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    bare = replace(machine, root=False, installed=lambda name: name != "ip", free=lambda path: 0)
    # Failures of probes are caused by what is missing, and are not reported.
    bare = replace(bare, succeeds=lambda command: False)
    with pytest.raises(MissingError) as error:
        preparation.require_machine(tmp_path, bare)
    words = ("needs root", "ip is not installed", "GB free", "GB free", "runc nftables: not installed")
    assert [word in message for word, message in zip(words, str(error.value).split("; "), strict=False)] == [
        True
    ] * 5


@pytest.mark.parametrize(
    ("release", "enough"),
    [("5.15+", True), ("6.12-rc1", True), ("5.13", True), ("5.12.9+", False), ("4.19.0", False)],
)
def test_kernel_versions_are_compared_by_two_numbers(machine: Machine, release: str, enough: bool) -> None:
    """Custom-built kernels have other text after these numbers."""
    assert (lacks(replace(machine, kernel=release)) == []) == enough


def test_a_directory_that_cannot_be_created_is_a_missing_requirement(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (lacking,) = lacks(machine, tmp_path / "file" / "folder")
    assert "cannot be used (Not a directory)" in lacking


def test_controllers_of_cgroup_v1_that_are_not_mounted(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cgroup" / "memory" / "cgroup.procs").unlink()
    (lacking,) = lacks(machine, tmp_path)
    assert "no cgroup controller memory" in lacking


def test_controllers_that_share_a_hierarchy(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cgroup" / "cpu" / "cgroup.procs").unlink()
    hierarchy(tmp_path / "cgroup" / "cpu,cpuacct")
    assert lacks(machine, tmp_path) == []


def test_cgroup_v2(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "second"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert lacks(replace(machine, cgroups=root), tmp_path) == []
    (root / "cgroup.controllers").write_text("cpu\n")
    (lacking,) = lacks(replace(machine, cgroups=root), tmp_path)
    assert "no cgroup controller cpuset, memory, pids" in lacking


def test_overlay_support_is_probed(machine: Machine, tmp_path: Path) -> None:
    tried: list[list[str]] = []
    observed = replace(machine, succeeds=lambda command: bool(tried.append(command)))
    assert not can_overlay(tmp_path, observed)
    assert tried[0][0] == "unshare" and "overlay" in tried[0]
    assert list(tmp_path.glob("tmp*")) == []
