"""Answers: how is the demo on a real node started? Run as `python -m tools.nodedemo [--once]`.

In: the command line. Out: 0 if every check held; 1 with one line where something is missing.
"""

from __future__ import annotations

import sys

from tools.realnode.__main__ import main as run_beside_node


def main() -> int:
    """The tour runs inside of the namespaces of the node."""
    tour = [sys.executable, "-m", "tools.nodedemo.tour", *sys.argv[1:]]
    return run_beside_node(["--product", *tour])


if __name__ == "__main__":
    sys.exit(main())
