"""Answers: how does a second terminal get into the namespaces of a node that runs?

In: the states of nodes. Out: a command runs there, with kubectl, helm and the admin's kubeconfig.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.localcluster.access import ClusterAccess
from tools.realnode import guard
from tools.realnode.errors import NodeError
from tools.realnode.kit import VARIABLE
from tools.realnode.namespaces import PID_FILE, first_process

_COMMAND = "python -m tools.realnode --enter"
_FILE = "access.json"


def invitation(cluster: ClusterAccess) -> list[str]:
    """Leave behind how the cluster is used, and return how to get there."""
    folder = Path(os.environ[VARIABLE]).parent
    programs = {str(cluster.binary(name).parent) for name in ("kubectl", "helm")}
    access = {"kubeconfig": str(cluster.kubeconfig), "programs": sorted(programs)}
    (folder / _FILE).write_text(json.dumps(access))
    python = os.path.relpath(sys.executable)
    return [f"sudo {python} {_COMMAND.removeprefix('python ')} kubectl get pods --all-namespaces"]


def enter(command: Sequence[str]) -> int:
    """Run `command` in the newest node; does not return where that works. Raises NodeError."""
    nodes = sorted(guard.state_of(guard.PREFIX).parent.glob(f"{guard.PREFIX}-*/{_FILE}"), key=_age)
    running = [path for path in nodes if guard.is_owned(path.parent.name)]
    if not running:
        raise NodeError("no node runs: `make demo NODE=real`")
    access = json.loads(running[-1].read_text())
    path = os.pathsep.join([*access["programs"], os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "KUBECONFIG": access["kubeconfig"], "PATH": path}
    target = first_process(int((running[-1].parent / PID_FILE).read_text()))
    entry = ["nsenter", f"--target={target}", "--net", "--mount", "--pid", *command]
    os.execvpe(entry[0], entry, environment)


def _age(path: Path) -> float:
    return path.stat().st_mtime
