"""Run as `python -m test.bench [SHAPE …]`: measure shapes, print a table, write results and the page.

Shapes are such as 1x400x4, ds100x2x2x2 for DisaggregatedSets, 1x40x4-uniform or paced for rollouts of slow
pods; by default all are measured. Writes test/bench/results/*.json, their report, plots, and the figures of
the pages on performance. An interrupted run is continued with --resume.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from test.bench.disaggregated.goals import paired_verdicts
from test.bench.disaggregated.measure import PairedOrder, measure_paired
from test.bench.disaggregated.page import HEAD as HEAD_OF_PAIRED
from test.bench.disaggregated.page import judged, paired_rows
from test.bench.disaggregated.shape import PairedShape, is_paired
from test.bench.disaggregated.shape import parse as parse_paired
from test.bench.goals import verdicts
from test.bench.measure import Order, Result, measure
from test.bench.paced.cases import ALL as PACED
from test.bench.paced.cases import is_paced, parse_cases
from test.bench.paced.measure import PacedOrder, measure_paced
from test.bench.paced.page import HEAD as HEAD_OF_PACED
from test.bench.paced.page import keep, paced_rows
from test.bench.page import PICTURES, RESULTS, draw_flames, keep_before, write_pages
from test.bench.progress import clocked
from test.bench.serving import HEAD as HEAD_OF_SERVING
from test.bench.serving import RESULT as RESULT_OF_SERVING
from test.bench.serving import measure_serving, serving_rows
from test.bench.shapes import DEFAULT, Shape, parse
from test.bench.surroundings import commit
from test.bench.table import HEAD, columns, rows

# The shape for which memory is judged.
_CROWDED, _CROWD = "1x400x4", 5000
SERVING = "serving"


def main() -> int:
    """Measure one shape after the other; store each result as soon as it is complete."""
    arguments = _arguments()
    directory: Path = arguments.results
    directory.mkdir(parents=True, exist_ok=True)
    if arguments.page_only:
        write_pages(directory)
        return 0
    say = clocked()
    for text in arguments.shapes or (*DEFAULT, PACED):
        if is_paced(text):
            _measure_paced(arguments, text, say)
            continue
        if text == SERVING:
            _measure_serving(arguments, say)
            continue
        if is_paired(text):
            _measure_paired(arguments, parse_paired(text), say)
            continue
        shape = parse(text)
        path = directory / f"{'against-' if arguments.against else ''}{shape.name}.json"
        if arguments.resume and path.exists() and json.loads(path.read_text())["commit"] == commit():
            say(f"shape {shape.label}: there is a result of this commit")
            continue
        say(f"shape {shape.label}")
        result = _measured(arguments, shape, say)
        # A profiled process is slower.
        if not arguments.profile:
            keep_before(path)
            path.write_text(json.dumps(result, indent=1) + "\n")
        _print(result)
        if directory == RESULTS:
            write_pages()
    return 0


def _measure_paired(arguments: argparse.Namespace, shape: PairedShape, say: Callable[[str], None]) -> None:
    path = arguments.results / f"{shape.name}.json"
    if arguments.resume and path.exists() and json.loads(path.read_text())["commit"] == commit():
        say(f"shape {shape.name}: there is a result of this commit")
        return
    say(f"shape {shape.name}")
    result = measure_paired(PairedOrder(shape, not arguments.no_floor, say))
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(columns([HEAD_OF_PAIRED, *paired_rows(result)]))
    print(columns(list(judged(paired_verdicts(result)))), flush=True)
    if arguments.results == RESULTS:
        write_pages()


def _measure_paced(arguments: argparse.Namespace, text: str, say: Callable[[str], None]) -> None:
    say(f"rollouts of slow pods: {text}")
    result = measure_paced(PacedOrder(parse_cases(text), arguments.against, say))
    keep(arguments.results, result)
    for cases in filter(None, (result["against"], result["cases"])):
        print(columns([HEAD_OF_PACED, *paced_rows(cases)]), flush=True)
    if arguments.results == RESULTS:
        write_pages()


def _measure_serving(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    path = arguments.results / RESULT_OF_SERVING
    result = json.loads(path.read_text()) if path.exists() else {}
    if arguments.real_node:
        inside = [sys.executable, "-m", "test.bench.serving_node", str(path)]
        subprocess.run([sys.executable, "-m", "tools.realnode", *inside], check=True)
        result = json.loads(path.read_text())
    else:
        result |= measure_serving(say)
        path.write_text(json.dumps(result, indent=1) + "\n")
    print(columns([HEAD_OF_SERVING, *serving_rows(result)]), flush=True)
    if arguments.results == RESULTS:
        write_pages()


def _measured(arguments: argparse.Namespace, shape: Shape, say: Callable[[str], None]) -> Result:
    phases = tuple(arguments.phases.split(",")) if arguments.phases else ()
    crowd = _CROWD if shape.name == _CROWDED else 0
    foreign = crowd if arguments.foreign is None else arguments.foreign
    order = Order(shape, arguments.against, None, phases, not arguments.no_floor, foreign, say)
    if not arguments.profile:
        return measure(order)
    with tempfile.TemporaryDirectory() as stacks:
        prefix = Path(stacks) / "stacks"
        result = measure(Order(shape, None, prefix, ("rollout",), False, say=say))
        draw_flames(prefix.parent.glob("stacks.*[0-9]"), PICTURES / "flames.svg")
    return result


def _print(result: Result) -> None:
    print(columns([HEAD, *rows([result])]))
    missed = [
        (verdict.measure, f"{verdict.figure:.3g}", f"≤ {verdict.bound:g}")
        for verdict in verdicts(result)
        if not verdict.holds
    ]
    print(columns([("missed", "", ""), *missed]) if missed else "every figure is reached", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m test.bench", description=__doc__)
    parser.add_argument(
        "shapes",
        nargs="*",
        help="sets x groups x pods, such as 1x400x4 or 400x4; ds100x2x2x2 for DisaggregatedSets; "
        "1x40x4-uniform or paced for rollouts of slow pods; serving for how long groups do not serve",
    )
    parser.add_argument("--real-node", action="store_true", help="serving: on a real node, as root")
    parser.add_argument("--against", help="another controller; {config} and {kubeconfig} are paths")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where JSON goes")
    parser.add_argument("--phases", help="only these after `create`, separated by commas")
    parser.add_argument("--no-floor", action="store_true", help="leave the floor out")
    parser.add_argument(
        "--resume", action="store_true", help="leave shapes out that this commit has results of"
    )
    parser.add_argument(
        "--foreign",
        type=int,
        help=f"so many pods, and StatefulSets, of others come in the end ({_CROWD} for {_CROWDED})",
    )
    parser.add_argument("--page-only", action="store_true", help="draw the page from the results there are")
    parser.add_argument("--profile", action="store_true", help="draw a flame graph of a rollout instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
