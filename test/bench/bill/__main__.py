"""Run as `python -m test.bench.bill [SHAPE]`: measure what a group of a rollout costs the control plane.

The shape is 1x100x4 unless another is given; `--settings` tries settings of the control plane instead (see
`settings.py`). Results go to test/bench/results/bill/*.json and into the report.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from test.bench.bill.measure import Task, measure
from test.bench.bill.settings import SETTINGS, USUAL
from test.bench.page import RESULTS, write_pages
from test.bench.progress import clocked
from test.bench.shapes import Shape, parse

_RESULTS = RESULTS / "bill"


def main() -> int:
    """Measure the shape and its baselines, or only the shape with each of the settings."""
    arguments, say = _arguments(), clocked()
    arguments.results.mkdir(parents=True, exist_ok=True)
    for setting in arguments.settings or (USUAL,):
        say(f"{arguments.shape.label}, settings: {setting}")
        _measure(arguments.shape, setting, not arguments.settings, arguments.results, say)
    if arguments.results == _RESULTS:
        write_pages()
    return 0


def _measure(
    shape: Shape, setting: str, has_floors: bool, directory: Path, say: Callable[[str], None]
) -> None:
    result = measure(Task(shape, SETTINGS[setting], has_floors, say))
    name = shape.name if has_floors else f"{shape.name}-{setting}"
    (directory / f"{name}.json").write_text(json.dumps({"setting": setting, **result}, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m test.bench.bill", description=__doc__)
    parser.add_argument("shape", nargs="?", type=parse, default="1x100x4", help="sets x groups x pods")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=(), help="try these, without the floors"
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="where JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
