"""Run as `python -m test.bench.scale`: compute the cost of a fleet from that of a few sets.

Reads test/bench/results/scale/*.json, measured with `--measure SHAPE SHAPE` (two shapes of one kind). Writes
the model into docs/operations/performance.md, between its marks. Everything is linear in the sets; the page
has formulas.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test.bench.shapes import parse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations" / "performance.md"
MEASURED = Path(__file__).parent / "results" / "scale"
BEGIN, END = "<!-- model: written by python -m test.bench.scale -->", "<!-- end of model -->"

FLEETS = (1_000, 10_000)
WINDOWS = {"an hour": 3_600.0, "10 minutes": 600.0}
# The interval of passes over everything, as in the product.
_RESYNC_SECONDS = 600.0
# A manager that uses more of a core than this answers webhooks late.
_FULL = 0.5
_MOST_MANAGERS = 64

_UNMEASURED = "Not measured yet: `python -m test.bench.scale --measure 20x2x5 80x2x5` writes it here."

_FLEET_HEAD = (
    "sets",
    "all rolled out in",
    "core, acting alone",
    "core, following",
    "managers",
    "core, each of them",
    "memory, each",
)


@dataclass(frozen=True)
class Costs:
    """The costs of one set, for its creation or its rollout.

    stream_…: to each manager. events: Events written. acting, following: CPU seconds of the active manager,
    and of a standby.
    """

    stream_events: float
    stream_bytes: float
    writes: float
    events: float
    acting: float
    following: float


@dataclass(frozen=True)
class Model:
    """The costs of one set.

    look: CPU seconds of passes without work. memory: bytes of all its objects. base_memory: bytes of a
    manager without sets.
    """

    create: Costs
    rollout: Costs
    look: float
    memory: float
    base_memory: float
    pods: float


@dataclass(frozen=True)
class Load:
    """Cores that a manager uses during the rollout of a fleet: as the only active one, and as a standby."""

    acting: float
    following: float

    def core(self, managers: int) -> float:
        """Return the cores of each of `managers`: all follow, and each is active for its share."""
        return self.following + (self.acting - self.following) / managers

    @property
    def managers(self) -> int | None:
        """Return the smallest sufficient number of managers, or None if following alone exceeds one core."""
        counts = (count for count in range(1, _MOST_MANAGERS + 1) if self.core(count) <= _FULL)
        return next(counts, None)


def model_of(small: dict[str, Any], large: dict[str, Any]) -> Model:
    """Compute the model from two measurements of one kind of set.

    Costs are from the larger one, memory is from the difference.
    """
    sets = large["sets"]
    more = sets - small["sets"]
    # The memory of the standby, which is not affected by passes.
    grown = large["created"]["pss"][1] - small["created"]["pss"][1]
    memory = grown / more
    return Model(
        create=_costs(large, "create"),
        rollout=_costs(large, "rollout"),
        look=large["look"]["cpu"] / sets,
        memory=memory,
        base_memory=large["created"]["pss"][1] - memory * sets,
        pods=large["pods"] / sets,
    )


def _costs(measured: dict[str, Any], phase: str) -> Costs:
    figures, sets = measured["phases"][phase], measured["sets"]
    streams = figures["streams"].values()
    acting, following = figures["cpu"]
    return Costs(
        stream_events=sum(stream["events"] for stream in streams) / sets,
        stream_bytes=sum(stream["bytes"] for stream in streams) / sets,
        writes=figures["writes"] / sets,
        events=figures["events"] / sets,
        acting=acting / sets,
        following=following / sets,
    )


def load_of(model: Model, sets: int, seconds: float) -> Load:
    """Return the load of rolling out all sets within `seconds`."""
    rate, costs = sets / seconds, model.rollout
    return Load(
        acting=rate * costs.acting + sets * model.look / _RESYNC_SECONDS,
        following=rate * costs.following,
    )


def page_of(small: dict[str, Any], large: dict[str, Any]) -> str:
    """Return the text between the marks."""
    model = model_of(small, large)
    parts = [
        [_origin(small, large)],
        _table(("of one set", "symbol", "created", "rolled out"), _unit_rows(model)),
        _formulas(model),
        _table(_FLEET_HEAD, _fleet_rows(model)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _origin(small: dict[str, Any], large: dict[str, Any]) -> str:
    machine = large["machine"]
    return (
        f"Measured: {parse(large['shape']).label} (sets × groups × pods), memory by the difference to "
        f"{parse(small['shape']).label}; {machine['cores']} cores shared with the control plane, "
        f"Python {machine['python']}, commit {large['commit'][:10]}."
    )


def _unit_rows(model: Model) -> Iterator[Sequence[str]]:
    create, rollout = model.create, model.rollout
    yield "watch events, to each manager", "e", f"{create.stream_events:.0f}", f"{rollout.stream_events:.0f}"
    yield "bytes of them", "b", f"{create.stream_bytes / 1e3:.0f} kB", f"{rollout.stream_bytes / 1e3:.0f} kB"
    yield (
        "writes (Events)",
        "w (n)",
        f"{create.writes:.1f} ({create.events:.1f})",
        f"{rollout.writes:.1f} ({rollout.events:.1f})",
    )
    yield "CPU s of the manager that acts", "a", f"{create.acting:.4f}", f"{rollout.acting:.4f}"
    yield "CPU s of one that follows", "f", f"{create.following:.4f}", f"{rollout.following:.4f}"
    yield "CPU s of passes that find nothing to do", "l", f"{model.look:.4f}", ""
    yield f"memory of its objects ({model.pods:.0f} pods)", "m", f"{model.memory / 1e3:.0f} kB", ""


def _formulas(model: Model) -> list[str]:
    return [
        "With N sets of this kind, rolled out within T seconds, by M managers that share:",
        "",
        "```",
        "watch events /s       N e / T          to each manager; b in place of e for bytes",
        "API writes /s         N w / T          and N n / T Events",
        f"core, acting alone    N a / T + N l / {_RESYNC_SECONDS:g}",
        "core, following       N f / T",
        "core, each of M       following + (acting alone - following) / M",
        f"memory, each          {model.base_memory / 1e6:.0f} MB + N m",
        "```",
        "",
        f"*managers* is the smallest M for which each uses {_FULL:g} of a core at most; – where following "
        "alone takes more.",
    ]


def _fleet_rows(model: Model) -> Iterator[Sequence[str]]:
    for sets in FLEETS:
        for window, seconds in WINDOWS.items():
            load = load_of(model, sets, seconds)
            managers = load.managers
            yield (
                f"{sets:,}",
                window,
                f"{load.acting:.3f}",
                f"{load.following:.3f}",
                f"{managers}" if managers else "–",
                f"{load.core(managers):.3f}" if managers else "–",
                f"{(model.base_memory + sets * model.memory) / 1e6:,.0f} MB",
            )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def write_page(page: Path, directory: Path) -> None:
    """Update the model in the page; text outside the marks stays."""
    results = sorted(
        (json.loads(path.read_text()) for path in directory.glob("*.json")), key=lambda result: result["sets"]
    )
    text = page_of(results[0], results[-1]) if len(results) > 1 else _UNMEASURED
    before, _, remainder = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = remainder.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Measure if requested, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m test.bench.scale", description=__doc__)
    parser.add_argument("--measure", nargs="+", default=(), metavar="SHAPE", help="measure these first")
    for shape in map(parse, parser.parse_args().measure):
        # Imported here, because only measurements need a cluster.
        from test.bench.unit_costs import measure

        MEASURED.mkdir(exist_ok=True)
        (MEASURED / f"{shape.name}.json").write_text(json.dumps(measure(shape), indent=1) + "\n")
    write_page(PAGE, MEASURED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
