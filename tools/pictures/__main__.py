"""Write every picture of docs/pictures: `python -m tools.pictures`, part of `make generate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lws.disaggregatedset.rollout.simulation import simulate, start
from lws.disaggregatedset.rollout.state import RoleTarget
from tools.pictures.plots import RECORDING as DASHBOARD
from tools.pictures.plots import drawn_dashboard
from tools.pictures.steps import drawn_failure, drawn_slice, drawn_story, parse_story
from tools.pictures.terminal import drawn_terminal

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "docs" / "pictures"
STORIES = ROOT / "test" / "unit" / "stories" / "golden"
# A screen of a real `make demo`, of 100 columns, in its third step.
RECORDING = Path(__file__).parent / "recordings" / "demo.ansi"
_TERMINALS = {
    "demo": (RECORDING, "make demo: a rolling update of four groups, one at a time"),
    "status-watch": (
        ROOT / "test" / "unit" / "lws" / "cli" / "commands" / "golden" / "status-watch.ansi",
        "lws status --watch: two groups are updated, one of them cannot pull its image",
    ),
}
_SHOWN_STORIES = [
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
]
_SHOWN_FAILURES = ("worker-restarts", "leader-deleted", "policy-none", "evicted", "again-and-again")


def pictures() -> dict[str, str]:
    """Every picture by its file name."""

    def story(name: str) -> str:
        return (STORIES / f"{name}.txt").read_text(encoding="utf-8")

    counts = {"prefill": 4, "decode": 2}
    roles = tuple(RoleTarget(name, count, surge=1, unavailable=0) for name, count in counts.items())
    title = "4 prefill and 2 decode groups, of each one on top and none missing; a new revision"
    return {
        **{f"rollout-{name}.svg": drawn_story(parse_story(story(name))) for name in _SHOWN_STORIES},
        **{f"failure-{name}.svg": drawn_failure(story(f"failures/{name}")) for name in _SHOWN_FAILURES},
        **{
            f"terminal-{name}.svg": drawn_terminal(path.read_text(encoding="utf-8"), title)
            for name, (path, title) in _TERMINALS.items()
        },
        "slice-four-and-two.svg": drawn_slice(title, simulate(start(roles, counts))),
        "dashboard.svg": drawn_dashboard(json.loads(DASHBOARD.read_text(encoding="utf-8"))),
    }


def main() -> int:
    """Write what there is, and remove what there no longer is."""
    drawn = pictures()
    DIRECTORY.mkdir(exist_ok=True)
    for path in DIRECTORY.glob("*.svg"):
        if path.name not in drawn:
            path.unlink()
    for name, text in drawn.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
