"""Keep a node running for manual use, and let a second terminal into its namespaces."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tools.localcluster import FAILURES
from tools.localcluster.access import ClusterAccess
from tools.realnode import guard
from tools.realnode.cluster import RealCluster
from tools.realnode.kit import VARIABLE, NodeError, read_kit
from tools.realnode.namespaces import PID_FILE, first_process

_COMMAND = "python -m tools.realnode --enter"
_FILE = "access.json"


def invitation(cluster: ClusterAccess) -> list[str]:
    """Write a file that tells `enter` how to use the cluster, and return the commands to show to the user."""
    folder = Path(os.environ[VARIABLE]).parent
    programs = {str(cluster.binary(name).parent) for name in ("kubectl", "helm")}
    access = {"kubeconfig": str(cluster.kubeconfig), "programs": sorted(programs)}
    (folder / _FILE).write_text(json.dumps(access))
    python = os.path.relpath(sys.executable)
    return [f"sudo {python} {_COMMAND.removeprefix('python ')} kubectl get pods --all-namespaces"]


def enter(command: Sequence[str]) -> int:
    """Run `command` in the newest node, and do not return on success. Raises NodeError."""
    nodes = list(guard.state_of(guard.PREFIX).parent.glob(f"{guard.PREFIX}-*/{_FILE}"))
    nodes.sort(key=lambda path: path.stat().st_mtime)
    running = [path for path in nodes if guard.is_owned(path.parent.name)]
    if not running:
        raise NodeError("no node runs: `make demo NODE=real`")
    access = json.loads(running[-1].read_text())
    path = os.pathsep.join([*access["programs"], os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "KUBECONFIG": access["kubeconfig"], "PATH": path}
    target = first_process(int((running[-1].parent / PID_FILE).read_text()))
    entry = ["nsenter", f"--target={target}", "--net", "--mount", "--pid", *command]
    os.execvpe(entry[0], entry, environment)


def main() -> int:
    """Start a node, print how to use it, and wait for a signal."""
    asked_to_end = threading.Event()
    try:
        with RealCluster(read_kit()) as cluster:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: asked_to_end.set())
            print(
                *invitation(cluster), "# Ctrl-C ends the cluster and removes its files", sep="\n", flush=True
            )
            asked_to_end.wait()
    except (*FAILURES, NodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
