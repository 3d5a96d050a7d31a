"""A node leaves nothing behind, however it ends: counted from outside, before and after."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from test.harness.waiting import eventually
from test.node.remains import namespaces_below, state_of_machine, users_of
from tools.image.__main__ import current_archive
from tools.image.steps import LackingError
from tools.linux import require_linux
from tools.realnode.kit import MissingError
from tools.realnode.preparation import SystemPrograms, require_machine
from tools.realnode.settings import NODE_ADDRESS, POD_RANGE

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900.0
NODE = (sys.executable, "-u", "-m", "tools.realnode")
# Another network namespace, in which a device has the addresses of pods and of the node. Kernels that can run
# a node support veth devices, but not all of them dummies.
ELSEWHERE = ("unshare", "--net", "sh", "-c")
ADDRESSES_TAKEN = f"""set -e
ip link set lo up
ip link add taken type veth peer name other
ip address add {ipaddress.ip_network(POD_RANGE)[1]}/24 dev taken
ip address add {NODE_ADDRESS}/32 dev taken
ip link set taken up
exec "$@"
"""
# Ports of kubelet (health, API) and kube-proxy (health). The next program inherits the listeners.
PORTS_TAKEN = """
import os, socket, sys
listeners = [socket.create_server(("", port)) for port in (10248, 10250, 10256)]
for each in listeners:
    each.set_inheritable(True)
os.execv(sys.argv[1], sys.argv[1:])
"""
ALL_TAKEN = (*ELSEWHERE, ADDRESSES_TAKEN, "sh", sys.executable, "-c", PORTS_TAKEN)


@pytest.fixture(scope="module")
def system() -> SystemPrograms:
    """A machine that can run a node, with everything built for it."""
    try:
        require_linux()
        programs = require_machine(Path(tempfile.gettempdir()))
    except MissingError as error:
        pytest.skip(str(error))
    # In the namespace with the taken addresses, no module proxy can be reached.
    subprocess.run([*NODE, "--build-only"], cwd=ROOT, check=True)
    return programs


@pytest.fixture
def before(system: SystemPrograms) -> dict[str, object]:
    return state_of_machine(system)


def started(*wrapper: str) -> subprocess.Popen[str]:
    """Start a node, and wait until it prints how to use it."""
    node = subprocess.Popen([*wrapper, *NODE], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert node.stdout
    line = node.stdout.readline()
    assert "tools.realnode --enter" in line, line
    return node


def test_a_node_is_entered_from_another_terminal_and_ends_with_ctrl_c(
    system: SystemPrograms, before: dict[str, object]
) -> None:
    """Outside, the ports and addresses of the node are taken, which does not affect the ones inside."""
    node = started(*ALL_TAKEN)
    try:
        assert state_of_machine(system) != before
        namespaces = namespaces_below(node.pid)
        enter = [sys.executable, "-m", "tools.realnode", "--enter"]
        command = [*enter, "kubectl", "get", "pods", "--all-namespaces", "--output=json"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        (dns,) = (pod["status"] for pod in json.loads(result.stdout)["items"])
        assert dns["hostIP"] == NODE_ADDRESS and dns["phase"] == "Running"
        assert ipaddress.ip_address(dns["podIP"]) in ipaddress.ip_network(POD_RANGE)
    finally:
        node.send_signal(signal.SIGINT)
        node.communicate(timeout=SECONDS)
    assert node.returncode == 0
    assert state_of_machine(system) == before
    assert users_of(namespaces) == []


def test_nothing_is_left_of_a_killed_node(system: SystemPrograms, before: dict[str, object]) -> None:
    node = started()
    namespaces = namespaces_below(node.pid)
    assert {namespace.partition(":")[0] for namespace in namespaces} >= {"mnt", "net", "pid"}
    assert users_of(namespaces)
    node.kill()
    node.communicate(timeout=SECONDS)
    eventually("nothing of the node is left", lambda: state_of_machine(system), lambda now: now == before)
    eventually("the namespaces have no users", lambda: users_of(namespaces), lambda users: users == [])


def test_the_demo_succeeds_and_leaves_nothing(
    system: SystemPrograms, before: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        current_archive()
    except LackingError as error:
        pytest.skip(str(error))
    began = time.monotonic()
    tour = [sys.executable, "-m", "tools.nodedemo", "--once"]
    command = [sys.executable, "-u", "-m", "tools.realnode", "--product", *tour]
    demo = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, namespaces = list[str](), set[str]()
    assert demo.stdout
    for line in demo.stdout:
        lines.append(line)
        namespaces |= namespaces_below(demo.pid)
    demo.communicate(timeout=SECONDS)
    with capsys.disabled():
        print(f"\nmake demo NODE=real ONCE=1, with all that is built: {time.monotonic() - began:.0f} s")
    assert demo.returncode == 0, "".join(lines)
    assert re.search(r"^All \d+ checks held\.$", "".join(lines), re.MULTILINE)
    assert state_of_machine(system) == before
    assert namespaces and users_of(namespaces) == []


def test_a_missing_program_is_reported_in_one_line(system: SystemPrograms, tmp_path: Path) -> None:
    """There is neither apt-get nor runc, as in a small container."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("unshare", "mount", "nsenter", "sh", "true"):
        program = next(
            Path(folder) / name for folder in ("/usr/bin", "/bin") if (Path(folder) / name).exists()
        )
        (programs / name).symlink_to(program)
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
