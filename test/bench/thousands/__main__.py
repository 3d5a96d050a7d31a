"""Run as `python -m test.bench.thousands [SHAPE …]`: measure thousands of groups, by one or more managers.

Shapes are such as 10x500x4; `--managers 1 2 4` says how many managers share each, in a cluster of its own.
Writes test/bench/results/thousands/*.json, the flame graph of the largest rollout by one manager, and the
report. By default it measures 400 groups, to which others are compared, and 5,000.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from test.bench.page import PICTURES, RESULTS, draw_flames, write_pages
from test.bench.progress import clocked
from test.bench.shapes import parse
from test.bench.thousands.measure import Task, measure

_RESULTS = RESULTS / "thousands"


def main() -> int:
    """Measure one number of managers after the other; store each result as soon as it is complete."""
    arguments, say = _arguments(), clocked()
    arguments.results.mkdir(parents=True, exist_ok=True)
    for shape in map(parse, arguments.shapes):
        for managers in arguments.managers:
            say(f"{shape.label}, {managers} acting")
            with tempfile.TemporaryDirectory() as directory:
                profiles = Path(directory)
                result = measure(Task(shape, managers, profiles, say))
                if managers == 1 and shape.sets > 1:
                    draw_flames(profiles.glob("manager-0.*[0-9]"), PICTURES / "flames-thousands.svg")
            path = arguments.results / f"{shape.name}-{managers}.json"
            path.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.results == _RESULTS:
        write_pages()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m test.bench.thousands", description=__doc__)
    parser.add_argument("shapes", nargs="*", default=["1x400x4", "10x500x4"], help="sets x groups x pods")
    parser.add_argument("--managers", nargs="+", type=int, default=[1], help="how many share the work")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="where JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
