"""Draw the rollout of a slice step by step, from a simulation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lws.disaggregatedset.rollout.simulation import Row
from tools.pictures.canvas import LINE_HEIGHT, Canvas, draw_sign, explain, legend_place

_WIDTH, _MARGIN = 760, 16
_PITCH, _GAP = 26, 30
_ROW = 28
_LEGEND = {"r": "ready, old revision", "R": "ready, new revision"}


def drawn_slice(title: str, rows: Sequence[Row]) -> str:
    """One line for each row: the groups of each role, old ones first, and what has changed."""
    steps = [_said(before, after) for before, after in pairwise(rows)]
    canvas = Canvas(_WIDTH, title, ". ".join(steps))
    most = {role: max(sum(_counts(row, role)) for row in rows) for role in rows[0].new}
    places, left = {}, float(_MARGIN)
    for role, groups in most.items():
        places[role] = left
        left += groups * _PITCH + _GAP
    top = 10.0 + LINE_HEIGHT
    canvas.text(_MARGIN, top - 3, title, "f-text b")
    top += LINE_HEIGHT + 2
    for role, place in places.items():
        canvas.text(place, top, role, "f-muted")
    canvas.text(left, top, "what has changed", "f-muted")
    top += 8
    for row, words in zip(rows, ("before the rollout", *steps), strict=True):
        for role, place in places.items():
            _draw_groups(canvas, (place, top), _counts(row, role))
        canvas.text(left, top + _ROW / 2 + 4.5, words)
        top += _ROW
    return _with_legend(canvas, top)


def _draw_groups(canvas: Canvas, place: tuple[float, float], counts: tuple[int, int]) -> None:
    left, top = place
    old, new = counts
    for index, letter in enumerate("r" * old + "R" * new):
        draw_sign(canvas, left + (index + 0.5) * _PITCH, top + _ROW / 2, letter)


def _with_legend(canvas: Canvas, top: float) -> str:
    canvas.add("path", "n s-rule", d=f"M{_MARGIN} {top + 8}H{_WIDTH - _MARGIN}")
    area = (_MARGIN, top + 28, _WIDTH - 2 * _MARGIN)
    for number, (letter, meaning) in enumerate(_LEGEND.items()):
        x, y = legend_place(number, 4, area)
        draw_sign(canvas, x, y, letter)
        explain(canvas, (x, y), meaning)
    return canvas.render(top + 50)


def _said(before: Row, after: Row) -> str:
    """Such as “new: prefill 1, decode 1”."""
    told = []
    for side, which in (("new", 1), ("old", 0)):
        changed = [
            f"{role} {_counts(after, role)[which]}"
            for role in after.new
            if _counts(after, role)[which] != _counts(before, role)[which]
        ]
        if changed:
            told.append(f"{side}: {', '.join(changed)}")
    return "; ".join(told)


def _counts(row: Row, role: str) -> tuple[int, int]:
    """Groups of all old revisions, and of the new one."""
    return sum(_of(counts, role) for counts in row.old.values()), _of(row.new, role)


def _of(counts: Mapping[str, int], role: str) -> int:
    return counts.get(role, 0)
