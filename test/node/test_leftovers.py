"""What a node leaves behind: nothing, however it ends. Counted from outside, before and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.harness.waiting import eventually
from tools.linux import require_linux
from tools.realnode.errors import MissingError
from tools.realnode.guard import CGROUPS, PREFIX
from tools.realnode.mounts import KERNEL_SETTINGS
from tools.realnode.namespaces import temporary_folder
from tools.realnode.preparation import require_machine
from tools.realnode.settings import SOCKET

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900.0


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    try:
        require_linux()
        require_machine(temporary_folder())
    except MissingError as error:
        pytest.skip(str(error))


def state_of_machine() -> dict[str, object]:
    """What a node makes of every kind there is, and what it must not change."""
    return {
        "mounts": sorted(mounts()),
        "devices": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "cgroups": sorted(
            str(path) for path in (*CGROUPS.glob(f"{PREFIX}-*"), *CGROUPS.glob(f"*/{PREFIX}-*"))
        ),
        "files": sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*")),
        "folders": [
            str(path)
            for path in map(Path, ("/var/lib/cni", "/var/lib/kubelet", "/run/netns"))
            if path.exists()
        ],
        "settings": {name: Path(f"/proc/sys/{name}").read_text() for name in KERNEL_SETTINGS},
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "processes": sorted(processes()),
    }


def mounts() -> Iterator[str]:
    """Those that a node makes; others may come and go meanwhile."""
    places = {"/run", "/var/lib", "/var/log", *(f"/proc/sys/{name}" for name in KERNEL_SETTINGS)}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if PREFIX in line or line.split()[1] in places:
            yield line


def processes() -> Iterator[str]:
    """Those that belong to a node: they name its files, or its containerd."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if PREFIX.encode() in command or SOCKET.encode() in command:
            yield f"{path.name} {command[:60]!r}"


@pytest.fixture
def before() -> dict[str, object]:
    return state_of_machine()


def started() -> subprocess.Popen[str]:
    """A node that runs: it has said how it is used."""
    node = subprocess.Popen(
        [sys.executable, "-u", "-m", "tools.realnode"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert node.stdout
    told = node.stdout.readline()
    assert "tools.realnode --enter" in told, told
    return node


def test_it_is_entered_from_another_terminal_and_ends_with_ctrl_c(before: dict[str, object]) -> None:
    node = started()
    try:
        assert state_of_machine() != before
        enter = [sys.executable, "-m", "tools.realnode", "--enter"]
        command = [*enter, "kubectl", "get", "nodes", "--output=name"]
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert shown.stdout == "node/node-0\n", shown.stderr
    finally:
        node.send_signal(signal.SIGINT)
        node.communicate(timeout=SECONDS)
    assert node.returncode == 0
    assert state_of_machine() == before


def test_nothing_is_left_when_it_is_killed(before: dict[str, object]) -> None:
    node = started()
    node.kill()
    node.communicate(timeout=SECONDS)
    eventually("everything to be gone", state_of_machine, lambda now: now == before)


def test_what_a_machine_lacks_is_one_line(tmp_path: Path) -> None:
    """No apt-get and no runc: such as in a small container."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("unshare", "mount", "nsenter", "sh", "true"):
        found = next(Path(folder) / name for folder in ("/usr/bin", "/bin") if (Path(folder) / name).exists())
        (programs / name).symlink_to(found)
    done = subprocess.run(
        [sys.executable, "-m", "tools.realnode", "true"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ip is not installed: install iproute2")
