"""tools.realnode.requirements: what a machine lacks is said at once, in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.realnode.errors import MissingError
from tools.realnode.requirements import Machine, can_overlay, require


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


def test_a_machine_with_everything(machine: Machine, tmp_path: Path) -> None:
    require(machine, tmp_path / "new")
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


@pytest.mark.parametrize(("lose", "told"), LACKING.values(), ids=LACKING)
def test_what_is_missing_and_what_to_do(
    machine: Machine, tmp_path: Path, lose: Callable[[Machine], Machine], told: str
) -> None:
    with pytest.raises(MissingError, match=told) as error:
        require(lose(machine), tmp_path)
    assert "\n" not in str(error.value)


def test_controllers_of_cgroup_v1_that_are_not_mounted(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cgroup" / "memory" / "cgroup.procs").unlink()
    with pytest.raises(MissingError, match="no cgroup controller memory"):
        require(machine, tmp_path)


def test_controllers_that_share_a_hierarchy(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cgroup" / "cpu" / "cgroup.procs").unlink()
    hierarchy(tmp_path / "cgroup" / "cpu,cpuacct")
    require(machine, tmp_path)


def test_cgroup_v2(machine: Machine, tmp_path: Path) -> None:
    root = tmp_path / "second"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    require(replace(machine, cgroups=root), tmp_path)
    (root / "cgroup.controllers").write_text("cpu\n")
    with pytest.raises(MissingError, match="no cgroup controller cpuset, memory, pids"):
        require(replace(machine, cgroups=root), tmp_path)


def test_whether_file_systems_can_be_laid_over_others_is_tried(machine: Machine, tmp_path: Path) -> None:
    tried: list[list[str]] = []
    told = replace(machine, succeeds=lambda command: bool(tried.append(command)))
    assert not can_overlay(tmp_path, told)
    assert tried[0][0] == "unshare" and "overlay" in tried[0]
    assert list(tmp_path.glob("tmp*")) == []
