"""Run a cluster until Ctrl-C or SIGTERM: `python -m tools.localcluster [--nodes N]`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tools.linux import require_linux
from tools.localcluster import FAILURES
from tools.localcluster.build import find_programs
from tools.localcluster.cluster import LocalCluster
from tools.localcluster.components import AUDIT_METADATA, Options
from tools.localcluster.progress import LinePrinter
from tools.localcluster.recipe import all_programs
from tools.localcluster.versions import RELEASES, chosen_minor


def main() -> int:
    """Build, start, wait and stop. Return 1, with one message, if something is missing or does not start."""
    description = "Run a Kubernetes control plane with simulated nodes on this machine until Ctrl-C."
    parser = argparse.ArgumentParser(prog="python -m tools.localcluster", description=description)
    parser.add_argument("--nodes", type=int, default=Options.nodes, help="how many (default: %(default)s)")
    parser.add_argument("--audit", action="store_true", help="write an audit log at Metadata level")
    parser.add_argument("--build-only", action="store_true", help="build the binaries and exit")
    parser.add_argument("--known-versions", action="store_true", help="print what $K8S may be and exit")
    arguments = parser.parse_args()
    try:
        chosen_minor()
        if arguments.known_versions:
            print(*RELEASES)
            return 0
        require_linux()
        if arguments.build_only:
            for path in find_programs(all_programs(), LinePrinter()).values():
                print(path)
            return 0
        return _run(Options(nodes=arguments.nodes, audit_policy=AUDIT_METADATA if arguments.audit else None))
    except FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(options: Options) -> int:
    asked_to_end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_to_end.set())
    with LocalCluster(options) as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig}")
        print(f"export PATH={cluster.binary('kubectl').parent}:$PATH")
        print(f"# logs: {cluster.logs}   Ctrl-C ends the cluster and removes its files", flush=True)
        asked_to_end.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
