"""Which pictures does the documentation show, and from which text is each drawn?

In: golden stories. Out: file names with the text of an SVG each.
"""

from __future__ import annotations

from pathlib import Path

from tools.pictures.rollout import drawn_story
from tools.pictures.story import parse_story

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "docs" / "pictures"
STORIES = ROOT / "test" / "unit" / "stories" / "golden"
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


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    return {f"rollout-{name}.svg": _rollout(name) for name in _SHOWN_STORIES}


def _rollout(name: str) -> str:
    return drawn_story(parse_story((STORIES / f"{name}.txt").read_text(encoding="utf-8")))
