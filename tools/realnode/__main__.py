"""Run a command beside a control plane with a real node: `python -m tools.realnode [OPTION…] [COMMAND…]`.

Without a command the cluster stays until Ctrl-C. With --or-skip the command itself reports what the machine
lacks. It never reports a failed build.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.image.steps import ImageError, LackingError
from tools.linux import require_linux
from tools.localcluster import FAILURES
from tools.localcluster.progress import LinePrinter
from tools.realnode.kit import MissingError, NodeError

MISSING = "REALNODE_MISSING"
"""The variable that tells the command what this machine lacks, with --or-skip."""

_HERE = [sys.executable, "-m", "tools.realnode.entry"]


def main(argv: Sequence[str] | None = None) -> int:
    """Check the machine, build and enter a node, and run a command. `argv` replaces the command line."""
    arguments = _parsed(argv)
    try:
        require_linux()
        return _run(arguments)
    except (*FAILURES, ImageError, NodeError) as error:
        if arguments.or_skip and isinstance(error, LackingError | MissingError):
            return subprocess.run(arguments.command, env={**os.environ, MISSING: str(error)}).returncode
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.realnode",
        description="Run a command beside a control plane with a real node, in namespaces of its own.",
    )
    parser.add_argument(
        "--or-skip", action="store_true", help=f"where there can be no node, say why in ${MISSING}"
    )
    parser.add_argument("--build-only", action="store_true", help="fetch and build what is missing, and exit")
    parser.add_argument("--product", action="store_true", help="the node has this checkout's image, too")
    parser.add_argument("--engines", action="store_true", help="the node has engines that are not ours, too")
    parser.add_argument("--enter", action="store_true", help="run the command in a node that runs already")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: a cluster until Ctrl-C")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    # These modules need Linux, so they are imported late.
    from tools.realnode.entry import enter
    from tools.realnode.namespaces import own_state, run_inside
    from tools.realnode.preparation import prepare, require_machine

    if arguments.enter:
        return enter(arguments.command or ["bash"])
    system = require_machine(Path(tempfile.gettempdir()))
    report = LinePrinter()
    archives = []
    if arguments.product:
        from tools.image.__main__ import current_archive

        archives.append(current_archive())
    if arguments.engines:
        from tools.engines import engines_archive

        archives.append(engines_archive())
    with own_state() as state:
        kit = prepare(state, system, archives, report)
        if arguments.build_only:
            return 0
        return run_inside(arguments.command or _HERE, kit)


if __name__ == "__main__":
    sys.exit(main())
