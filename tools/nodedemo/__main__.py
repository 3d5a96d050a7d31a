"""Start the demo on a real node: `python -m tools.nodedemo [--once]`."""

from __future__ import annotations

import sys

from tools.realnode.__main__ import main as run_beside_node


def main() -> int:
    """The tour runs inside of the namespaces of the node."""
    tour = [sys.executable, "-m", "tools.nodedemo.tour", *sys.argv[1:]]
    return run_beside_node(["--product", *tour])


if __name__ == "__main__":
    sys.exit(main())
