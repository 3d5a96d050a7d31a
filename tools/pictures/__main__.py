"""Write every picture of docs/pictures: `python -m tools.pictures`, part of `make generate`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from lws.disaggregatedset.rollout.state import RoleTarget
from tools.pictures.dashboard import RECORDING as DASHBOARD
from tools.pictures.dashboard import drawn_dashboard
from tools.pictures.steps import drawn_failure, drawn_slice, drawn_story, parse_story
from tools.pictures.terminal import drawn_terminal
from tools.simulation import simulate, start

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "docs" / "pictures"
STORIES = ROOT / "test" / "unit" / "stories" / "golden"
# A screen of a real `make demo` with 100 columns, in its third step.
RECORDING = Path(__file__).parent / "recordings" / "demo.ansi"
_TERMINALS = {
    "demo": (RECORDING, "make demo: a rolling update of four groups, one at a time"),
    "status-watch": (
        ROOT / "test" / "unit" / "lws" / "cli" / "commands" / "golden" / "status-watch.ansi",
        "lws status --watch: two groups are updated, one of them cannot pull its image",
    ),
}
_SHOWN = re.compile(r"/pictures/((rollout|failure)-([\w-]+)\.svg)")


def pictures() -> dict[str, str]:
    """Return every picture by its file name. Golden stories are drawn only if a page shows them."""
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    stories: dict[str, str] = {}
    for file, kind, name in sorted(set(_SHOWN.findall(pages))):
        path = STORIES / f"{name}.txt" if kind == "rollout" else STORIES / "failures" / f"{name}.txt"
        text = path.read_text(encoding="utf-8")
        stories[file] = drawn_story(parse_story(text)) if kind == "rollout" else drawn_failure(text)
    counts = {"prefill": 4, "decode": 2}
    roles = tuple(RoleTarget(name, count, surge=1, unavailable=0) for name, count in counts.items())
    title = "4 prefill and 2 decode groups, of each one on top and none missing; a new revision"
    return {
        **stories,
        **{
            f"terminal-{name}.svg": drawn_terminal(path.read_text(encoding="utf-8"), title)
            for name, (path, title) in _TERMINALS.items()
        },
        "slice-four-and-two.svg": drawn_slice(title, simulate(start(roles, counts))),
        "dashboard.svg": drawn_dashboard(json.loads(DASHBOARD.read_text(encoding="utf-8"))),
    }


def main() -> int:
    """Write all pictures, and remove pictures that no longer exist."""
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
