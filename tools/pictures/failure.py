"""Draw a failure and what becomes of its group, from a golden story. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.pictures.canvas import LINE_HEIGHT, MISSING, Canvas, draw_sign, explain, legend_place, wrapped

_WIDTH, _MARGIN = 760, 16
_PITCH, _GAP = 22, 18
_TIMES, _ROW = 44, 26
_MOMENT = re.compile(
    r"^  (?P<after>[\d.]*)\s+(?P<groups>[rRxutT-]+(?: [rRxutT-]+)*)(?:\s{2,}(?P<event>.+))?$"
)
_LEGEND = {
    "r": "ready",
    "R": "ready, another pod",
    "x": "not ready",
    "u": "not ready, another pod",
    "t": "on its way out",
    MISSING: "not there",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """after: seconds, None where it is the same as above. groups: a letter for each pod of each."""

    after: float | None
    groups: tuple[str, ...]
    event: str


def parse_failure(text: str) -> Iterator[tuple[str, list[Moment]]]:
    """Headings with their moments; raises ValueError where a line is none."""
    for block in text.partition("\n\n")[2].strip("\n").split("\n\n"):
        heading, _, *lines = block.splitlines()
        yield heading.removesuffix(":"), [_moment(line) for line in lines]


def _moment(line: str) -> Moment:
    found = _MOMENT.match(line)
    if found is None:
        raise ValueError(f"no moment: {line}")
    after = float(found["after"]) if found["after"] else None
    return Moment(after, tuple(found["groups"].split()), found["event"] or "")


def drawn_failure(text: str) -> str:
    """The picture of a failure."""
    chapters = list(parse_failure(text))
    events = [each.event for _, moments in chapters for each in moments if each.event]
    canvas = Canvas(_WIDTH, "; ".join(heading for heading, _ in chapters), ". ".join(events))
    top = 10.0
    for heading, moments in chapters:
        canvas.text(_MARGIN, top + LINE_HEIGHT, heading, "f-text b")
        top = _heads(canvas, moments[0], top + 2 * LINE_HEIGHT + 4)
        shown = -1.0
        for moment in moments:
            # Less is the pace of the cluster in memory, and says nothing.
            if moment.after is not None and moment.after >= shown + 1:
                shown = moment.after
                canvas.text(_MARGIN, top + _ROW / 2 + 4.5, f"{shown:.0f} s", "f-muted")
            top = _row(canvas, moment, top)
        top += 8
    return _legend(canvas, top)


def _heads(canvas: Canvas, moment: Moment, top: float) -> float:
    canvas.text(_MARGIN, top, "after", "f-muted")
    for index, group in enumerate(moment.groups):
        canvas.text(_left(moment, index), top, f"group {index}", "f-muted")
        canvas.add("path", "n s-rule", d=f"M{_left(moment, index)} {top + 5}h{len(group) * _PITCH}")
    canvas.text(_left(moment, len(moment.groups)), top, "Events", "f-muted")
    return top + 8


def _row(canvas: Canvas, moment: Moment, top: float) -> float:
    for index, group in enumerate(moment.groups):
        for number, letter in enumerate(group):
            x = _left(moment, index) + (number + 0.5) * _PITCH
            draw_sign(canvas, x, top + _ROW / 2, letter)
    left = _left(moment, len(moment.groups))
    lines = wrapped(moment.event, _WIDTH - _MARGIN - left)
    for number, line in enumerate(lines):
        canvas.text(left, top + _ROW / 2 + 4.5 + number * LINE_HEIGHT, line)
    return top + max(_ROW, len(lines) * LINE_HEIGHT + _ROW - LINE_HEIGHT)


def _left(moment: Moment, index: int) -> float:
    """Where a group begins; behind the last one, where the words do."""
    pods = sum(map(len, moment.groups[:index]))
    return _MARGIN + _TIMES + pods * _PITCH + index * _GAP


def _legend(canvas: Canvas, top: float) -> str:
    canvas.add("path", "n s-rule", d=f"M{_MARGIN} {top}H{_WIDTH - _MARGIN}")
    for number, (letter, meaning) in enumerate(_LEGEND.items()):
        place = legend_place(number, 3, (_MARGIN, top + 20, _WIDTH - 2 * _MARGIN))
        draw_sign(canvas, *place, letter)
        explain(canvas, place, meaning)
    return canvas.render(top + 64)
