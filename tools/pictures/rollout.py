"""Draw a rollout step by step, from a golden story. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.pictures.canvas import (
    LINE_HEIGHT,
    MISSING,
    Canvas,
    draw_ring,
    draw_sign,
    explain,
    legend_place,
    wrapped,
)

_NOTHING = "(nothing to do)"
_HEADING = re.compile(r"^(\S.*):$")
_STEP = re.compile(
    r"^  (?:\d+|-),?\d*\s+(?P<groups>\S+)\s+(?P<told>\d+,\d+)\s+(?P<replaced>\S+)\s+(?P<why>.+)$"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One pass. groups: a letter each, before it. replicas, partition: what the leader StatefulSet gets."""

    groups: str
    replicas: int
    partition: int
    replaced: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """What the user did, and the steps that followed."""

    heading: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """chapters: in order. last: the groups when all is done, a letter each."""

    chapters: tuple[Chapter, ...]
    last: str

    @property
    def width(self) -> int:
        """As many groups as there ever are."""
        steps = [step for chapter in self.chapters for step in chapter.steps]
        return max(max(step.replicas, len(step.groups)) for step in steps)


def parse_story(text: str) -> Story:
    """The story of a text; raises ValueError where it has a line that is none."""
    chapters = tuple(_chapters(text.partition("\n\n")[2]))
    return Story(chapters, _last([step for chapter in chapters for step in chapter.steps]))


def _chapters(text: str) -> Iterator[Chapter]:
    for block in text.strip().split("\n\n"):
        heading, _, *lines = block.splitlines()
        found = _HEADING.match(heading)
        if found is None:
            raise ValueError(f"no heading of a chapter: {heading}")
        yield Chapter(found[1], tuple(_step(line) for line in lines if line.strip() != _NOTHING))


def _step(line: str) -> Step:
    found = _STEP.match(line)
    if found is None:
        raise ValueError(f"no step: {line}")
    replicas, partition = map(int, found["told"].split(","))
    replaced = () if found["replaced"] == "-" else tuple(map(int, found["replaced"].split(",")))
    groups = "" if found["groups"] == "-" else found["groups"]
    return Step(groups, replicas, partition, replaced, found["why"])


def _last(steps: list[Step]) -> str:
    # A golden story ends when its set is as the user wants it.
    end = steps[-1]
    kept = end.groups[: end.partition].ljust(min(end.partition, end.replicas), "-")
    return kept[: end.replicas] + "R" * (end.replicas - end.partition)


_WIDTH, _MARGIN = 760, 16
_PITCH = 26
_ROW = 28
_NUMBER = 66
_LEGEND = {
    "r": "ready, old revision",
    "R": "ready, new revision",
    "x": "not ready, old",
    "u": "not ready, new",
    "t": "on its way out",
    MISSING: "not there",
}
_LEGEND_COLUMNS = 4


def drawn_story(story: Story) -> str:
    """The picture of a story."""
    drawing = _Drawing(story)
    for chapter in story.chapters:
        drawing.chapter(chapter)
    drawing.end(story.last)
    drawing.legend()
    return drawing.text()


class _Drawing:
    """A picture that is drawn from the top down."""

    def __init__(self, story: Story) -> None:
        steps = [f"{each.heading}: {'; '.join(step.why for step in each.steps)}" for each in story.chapters]
        self._canvas = Canvas(_WIDTH, story.chapters[0].heading, ". ".join(steps))
        self._columns = story.width
        self._numbers = _MARGIN + story.width * _PITCH + 14
        self._words = self._numbers + 2 * _NUMBER + 12
        self._top = 10.0

    def chapter(self, chapter: Chapter) -> None:
        """A heading with the steps below it."""
        for line in wrapped(chapter.heading, 0.93 * (_WIDTH - 2 * _MARGIN)):
            self._line(_MARGIN, line, "f-text b")
        if not chapter.steps:
            self._line(_MARGIN, "nothing to do", "f-muted")
            self._top += LINE_HEIGHT / 2
            return
        self._column_heads()
        for step in chapter.steps:
            self._step(step)
        self._top += 8

    def end(self, groups: str) -> None:
        """The groups when all is done."""
        self._canvas.add("path", "n s-rule", d=f"M{_MARGIN} {self._top}H{_WIDTH - _MARGIN}")
        self._top += 6
        self._groups(groups, ())
        self._canvas.text(self._words, self._top + _ROW / 2 + 4, "done", "f-muted")
        self._top += _ROW + 6

    def legend(self) -> None:
        """What the signs mean."""
        canvas = self._canvas
        canvas.add("path", "n s-rule", d=f"M{_MARGIN} {self._top}H{_WIDTH - _MARGIN}")
        area = (_MARGIN, self._top + 20, _WIDTH - 2 * _MARGIN)
        places = [legend_place(number, _LEGEND_COLUMNS, area) for number in range(len(_LEGEND) + 2)]
        for (x, y), (letter, meaning) in zip(places, _LEGEND.items(), strict=False):
            draw_sign(canvas, x, y, letter)
            explain(canvas, (x, y), meaning)
        x, y = places[-2]
        draw_sign(canvas, x, y, "r")
        draw_ring(canvas, x, y)
        explain(canvas, places[-2], "replaced in this step")
        x, y = places[-1]
        canvas.add("rect", "f-wash", x=x - 9, y=y - 10, width=18, height=20)
        canvas.add("path", "n s-new w", d=f"M{x - 9} {y - 10}v20")
        explain(canvas, places[-1], "from the partition on")
        self._top += 64

    def text(self) -> str:
        """The whole SVG."""
        return self._canvas.render(self._top)

    def _line(self, x: float, words: str, kind: str) -> None:
        self._top += LINE_HEIGHT
        self._canvas.text(x, self._top - 3, words, kind)

    def _column_heads(self) -> None:
        self._top += LINE_HEIGHT + 2
        for index in range(self._columns):
            self._canvas.text(_centre(index), self._top, str(index), "f-muted", "middle")
        for column, head in enumerate(("replicas", "partition")):
            end = self._numbers + (column + 1) * _NUMBER
            self._canvas.text(end, self._top, head, "f-muted", "end")
        self._canvas.text(self._words, self._top, "what is done, and why", "f-muted")
        self._top += 8

    def _step(self, step: Step) -> None:
        lines = wrapped(step.why, _WIDTH - _MARGIN - self._words)
        height = max(_ROW, len(lines) * LINE_HEIGHT + _ROW - LINE_HEIGHT)
        edge, end = _MARGIN + step.partition * _PITCH, _MARGIN + step.replicas * _PITCH
        self._canvas.add("rect", "f-wash", x=edge, y=self._top, width=end - edge, height=height)
        self._canvas.add("path", "n s-new w", d=f"M{edge} {self._top}v{height}")
        self._groups(step.groups.ljust(step.replicas, MISSING), step.replaced)
        base = self._top + _ROW / 2 + 4.5
        for column, number in enumerate((step.replicas, step.partition)):
            end = self._numbers + (column + 1) * _NUMBER
            self._canvas.text(end, base, str(number), "f-text", "end")
        for number, line in enumerate(lines):
            self._canvas.text(self._words, base + number * LINE_HEIGHT, line)
        self._top += height

    def _groups(self, letters: str, replaced: tuple[int, ...]) -> None:
        for index, letter in enumerate(letters):
            x, y = _centre(index), self._top + _ROW / 2
            draw_sign(self._canvas, x, y, letter)
            if index in replaced:
                draw_ring(self._canvas, x, y)


def _centre(index: int) -> float:
    return _MARGIN + (index + 0.5) * _PITCH
