"""tools.realnode.guard: what a node leaves is removed by its name, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tools.realnode import guard


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def cgroup(path: Path, *children: str) -> None:
    """Create a folder like a cgroup of the kernel, whose files do not prevent its removal."""
    for folder in (path, *(path / child for child in children)):
        folder.mkdir(parents=True)


@pytest.fixture
def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove only folders: plain folders lack the file that lists the processes of a cgroup."""
    monkeypatch.setattr(
        guard,
        "_remove_cgroups",
        lambda top: [os.rmdir(folder) for folder, _, _ in os.walk(top, topdown=False)],
    )


def test_a_name_is_owned_as_long_as_its_process_runs() -> None:
    name = guard.node_name(os.getpid())
    assert guard.is_owned(name)
    assert not guard.is_owned(f"{name}0"), "another process reuses the pid"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not guard.is_owned(f"lws-node-{ended.pid}-1")
    assert not guard.is_owned("lws-node-")


def test_only_nodes_without_an_owner_are_remnants(temporary: Path) -> None:
    living, dead = guard.node_name(os.getpid()), "lws-node-1-0"
    for name in (living, dead, "somebody-else"):
        (temporary / name).mkdir()
        cgroup(temporary / "cgroup" / "cpu" / name)
    assert list(guard.remains(temporary / "cgroup")) == [dead]


@pytest.mark.usefixtures("without_processes")
def test_cgroups_of_all_hierarchies_and_files_are_removed(temporary: Path) -> None:
    root, name = temporary / "cgroup", "lws-node-1-0"
    for hierarchy in (root, root / "cpu", root / "memory"):
        cgroup(hierarchy / name, "kubepods/pod1/container", "kubepods/burstable")
        cgroup(hierarchy / "other")
    (guard.state_of(name) / "containerd").mkdir(parents=True)
    guard.remove(name, root)
    remaining = sorted(str(path.relative_to(temporary)) for path in temporary.rglob("*"))
    assert remaining == [
        "cgroup",
        "cgroup/cpu",
        "cgroup/cpu/other",
        "cgroup/memory",
        "cgroup/memory/other",
        "cgroup/other",
    ]


def test_failed_removals_are_an_error(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_SECONDS", 0.0)
    name = "lws-node-1-0"
    (temporary / "cgroup" / name).mkdir(parents=True)
    (temporary / "cgroup" / name / "cgroup.procs").write_text("")
    (temporary / "cgroup" / name / "file").touch()
    with pytest.raises(OSError, match="not empty"):
        guard.remove(name, temporary / "cgroup")


def test_the_guard_cleans_up_when_its_owner_ends(temporary: Path) -> None:
    keeper = subprocess.Popen(
        [sys.executable, "-I", guard.__file__],
        stdin=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    state = temporary / "lws-node-1-0"
    state.mkdir()
    keeper.communicate(b"lws-node-1-0\n", timeout=60)
    assert keeper.returncode == 0
    assert not state.exists()
