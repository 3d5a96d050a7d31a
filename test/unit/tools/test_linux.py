"""Tools that need Linux report that before any long step, with what to do instead."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.linux import NotLinuxError, require_linux
from tools.localcluster import LocalCluster, cluster

REPOSITORY = Path(__file__).resolve().parents[3]


def test_linux_is_accepted() -> None:
    require_linux("linux")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_rejected_with_a_remedy(platform: str) -> None:
    with pytest.raises(NotLinuxError, match=rf"Linux only, and this is {platform}: use a Linux machine"):
        require_linux(platform)


def test_windows_without_sigkill_is_rejected_with_the_same_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGKILL")
    module = runpy.run_path(str(REPOSITORY / "tools/linux.py"))
    with pytest.raises(module["NotLinuxError"], match="Linux only, and this is win32"):
        module["require_linux"]("win32")


def test_a_local_cluster_is_not_built_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(cluster, "find_programs", lambda *_: pytest.fail("it builds"))
    with pytest.raises(NotLinuxError):
        LocalCluster().start()


@pytest.mark.parametrize("target", ["demo", "test", "bench", "cluster"])
def test_make_checks_the_system_first(target: str, tmp_path: Path) -> None:
    uname = tmp_path / "uname"
    uname.write_text("#!/bin/sh\necho Darwin\n")
    uname.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    for name in ("CLUSTER", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        environment.pop(name, None)
    done = subprocess.run(
        ["make", target, f"VENV={tmp_path / 'venv'}"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "runs on Linux only, and this is Darwin: use a Linux machine" in done.stdout
    assert not (tmp_path / "venv").exists()
