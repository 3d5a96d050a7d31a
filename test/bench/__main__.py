"""Run as `python -m test.bench [SHAPE …]`: measure shapes, print a table, write results and the page.

In: shapes such as 1x400x4; all default ones without any. Out: JSON per shape, plots, docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from test.bench.measure import Order, measure
from test.bench.shapes import DEFAULT, parse
from test.bench.table import table

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "performance"


def main() -> int:
    """Measure one shape after the other; each result is kept as soon as it is there."""
    arguments = _arguments()
    directory: Path = arguments.results
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:6.0f} s] {line}", file=sys.stderr, flush=True)

    for shape in map(parse, arguments.shapes or DEFAULT):
        say(f"shape {shape.label}")
        phases = tuple(arguments.phases.split(",")) if arguments.phases else ()
        order = Order(shape, arguments.against, arguments.profile, phases, not arguments.no_floor, say)
        result = measure(order)
        path = directory / f"{arguments.prefix}{shape.name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(table([result]), flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m test.bench", description=__doc__)
    parser.add_argument("shapes", nargs="*", help="sets x groups x pods, such as 1x400x4 or 400x4")
    parser.add_argument("--against", help="another controller; {config} and {kubeconfig} are paths")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where JSON goes")
    parser.add_argument("--prefix", default="", help="of the names of the JSON files")
    parser.add_argument("--phases", help="only these after `create`, separated by commas")
    parser.add_argument("--no-floor", action="store_true", help="leave the floor out")
    parser.add_argument("--profile", type=Path, help="where stacks of our manager go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
