"""Which pictures does the documentation show, and from which text is each drawn?

In: golden stories, recorded terminals, rows of questions, simulated rollouts. Out: file names with the text
of an SVG each.
"""

from __future__ import annotations

import json
from pathlib import Path

from lws.disaggregatedset.rollout.simulation import simulate, start
from lws.disaggregatedset.rollout.state import RoleTarget
from tools.pictures.dashboard import RECORDING as DASHBOARD
from tools.pictures.dashboard import drawn_dashboard
from tools.pictures.failure import drawn_failure
from tools.pictures.flow import drawn_flow
from tools.pictures.rollout import drawn_story
from tools.pictures.slices import drawn_slice
from tools.pictures.story import parse_story
from tools.pictures.terminal import drawn_terminal

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "docs" / "pictures"
STORIES = ROOT / "test" / "unit" / "stories" / "golden"
# A screen of a real `make demo`, of 100 columns, in its third step.
RECORDING = Path(__file__).parent / "recordings" / "demo.ansi"
_FLOWS = Path(__file__).parent / "flows"
_STATUS = ROOT / "test" / "unit" / "lws" / "cli" / "views" / "golden" / "status-watch.ansi"
_TERMINALS = {
    "demo": (RECORDING, "make demo: a rolling update of four groups, one at a time"),
    "status-watch": (
        _STATUS,
        "lws status --watch: two groups are updated, one of them cannot pull its image",
    ),
}
_SHOWN_STORIES = (
    "four",
    "four-two-missing",
    "four-with-surge",
    "set-of-one",
    "canary",
    "bad-then-good",
    "broken-at-the-bottom",
    "stuck-at-the-top",
    "scaled-while-rolling",
    "changed-back",
    "paused",
)
_SHOWN_FAILURES = ("worker-restarts", "leader-deleted", "policy-none", "evicted", "again-and-again")


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    rollouts = {f"rollout-{name}.svg": _rollout(name) for name in _SHOWN_STORIES}
    terminals = {
        f"terminal-{name}.svg": drawn_terminal(path.read_text(encoding="utf-8"), title)
        for name, (path, title) in _TERMINALS.items()
    }
    failures = {
        f"failure-{name}.svg": drawn_failure(
            (STORIES / "failures" / f"{name}.txt").read_text(encoding="utf-8")
        )
        for name in _SHOWN_FAILURES
    }
    flows = {
        f"flow-{path.stem}.svg": drawn_flow(path.read_text(encoding="utf-8")) for path in _FLOWS.glob("*.txt")
    }
    return (
        rollouts
        | failures
        | flows
        | terminals
        | {"slice-four-and-two.svg": _slice(), "dashboard.svg": _dashboard()}
    )


def _rollout(name: str) -> str:
    return drawn_story(parse_story((STORIES / f"{name}.txt").read_text(encoding="utf-8")))


def _dashboard() -> str:
    return drawn_dashboard(json.loads(DASHBOARD.read_text(encoding="utf-8")))


def _slice() -> str:
    counts = {"prefill": 4, "decode": 2}
    roles = tuple(RoleTarget(name, count, surge=1, unavailable=0) for name, count in counts.items())
    title = "4 prefill and 2 decode groups, of each one on top and none missing; a new revision"
    return drawn_slice(title, simulate(start(roles, counts)))
