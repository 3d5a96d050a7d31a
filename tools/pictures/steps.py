"""Draw rollouts and failures step by step, from golden stories and simulations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tools.pictures.canvas import (
    LINE_HEIGHT,
    MARGIN,
    MISSING,
    Canvas,
    draw_legend,
    draw_ring,
    draw_sign,
    explain,
    wrapped,
)
from tools.simulation import Row

_WIDTH = 760
_PITCH, _ROW = 26, 28
_NUMBER = 66
# Distances of pods and groups in a picture of a failure.
_POD, _GAP, _TIMES, _LINE = 22, 18, 44, 26
_BETWEEN_ROLES = 30
_OF_SLICES = {"r": "ready, old revision", "R": "ready, new revision"}
_LEAVING = {"t": "on its way out", MISSING: "not there"}
_OF_STORIES = {**_OF_SLICES, "x": "not ready, old", "u": "not ready, new", **_LEAVING}
_OF_PODS = {
    "r": "ready",
    "R": "ready, another pod",
    "x": "not ready",
    "u": "not ready, another pod",
    **_LEAVING,
}
_MOMENT = re.compile(
    r"^  (?P<after>[\d.]*)\s+(?P<groups>[rRxutT-]+(?: [rRxutT-]+)*)(?:\s{2,}(?P<event>.+))?$"
)
_NOTHING = "(nothing to do)"
_HEADING = re.compile(r"^(\S.*):$")
_STEP = re.compile(
    r"^  (?:\d+|-),?\d*\s+(?P<groups>\S+)\s+(?P<told>\d+,\d+)\s+(?P<replaced>\S+)\s+(?P<why>.+)$"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One pass: a letter for each group before it, and the values that the leader StatefulSet gets."""

    groups: str
    replicas: int
    partition: int
    replaced: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """An action of the user, and the steps that followed."""

    heading: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """The chapters of a story, and a letter for each group at the end."""

    chapters: tuple[Chapter, ...]
    last: str

    @property
    def width(self) -> int:
        """The largest number of groups that ever exist."""
        steps = [step for chapter in self.chapters for step in chapter.steps]
        return max(max(step.replicas, len(step.groups)) for step in steps)


def parse_story(text: str) -> Story:
    """Parse the text of a story. Raises ValueError if a line cannot be parsed."""
    chapters = tuple(_chapters(text.partition("\n\n")[2]))
    return Story(chapters, _last([step for chapter in chapters for step in chapter.steps]))


def _chapters(text: str) -> Iterator[Chapter]:
    for block in text.strip().split("\n\n"):
        heading, _, *lines = block.splitlines()
        match = _HEADING.match(heading)
        if match is None:
            raise ValueError(f"no heading of a chapter: {heading}")
        yield Chapter(match[1], tuple(_step(line) for line in lines if line.strip() != _NOTHING))


def _step(line: str) -> Step:
    match = _STEP.match(line)
    if match is None:
        raise ValueError(f"no step: {line}")
    replicas, partition = map(int, match["told"].split(","))
    replaced = () if match["replaced"] == "-" else tuple(map(int, match["replaced"].split(",")))
    groups = "" if match["groups"] == "-" else match["groups"]
    return Step(groups, replicas, partition, replaced, match["why"])


def _last(steps: list[Step]) -> str:
    # A golden story ends when its set is in the state that the user wants.
    end = steps[-1]
    old = end.groups[: end.partition].ljust(min(end.partition, end.replicas), "-")
    return old[: end.replicas] + "R" * (end.replicas - end.partition)


def drawn_story(story: Story) -> str:
    """Draw a rollout."""
    steps = [f"{part.heading}: {'; '.join(step.why for step in part.steps)}" for part in story.chapters]
    canvas = Canvas(_WIDTH, story.chapters[0].heading, ". ".join(steps))
    # The positions at which numbers and words begin.
    numbers = MARGIN + story.width * _PITCH + 14
    words = numbers + 2 * _NUMBER + 12
    top = 10.0
    for chapter in story.chapters:
        for line in wrapped(chapter.heading, 0.93 * (_WIDTH - 2 * MARGIN)):
            top += LINE_HEIGHT
            canvas.text(MARGIN, top - 3, line, "f-text b")
        if not chapter.steps:
            top += LINE_HEIGHT
            canvas.text(MARGIN, top - 3, "nothing to do", "f-muted")
            top += LINE_HEIGHT / 2
            continue
        top += LINE_HEIGHT + 2
        for index in range(story.width):
            canvas.text(MARGIN + (index + 0.5) * _PITCH, top, str(index), "f-muted", "middle")
        for column, head in enumerate(("replicas", "partition")):
            canvas.text(numbers + (column + 1) * _NUMBER, top, head, "f-muted", "end")
        canvas.text(words, top, "what is done, and why", "f-muted")
        top += 8
        for step in chapter.steps:
            top = _draw_step(canvas, step, top, words)
        top += 8
    canvas.add("path", "n s-rule", d=f"M{MARGIN} {top}H{_WIDTH - MARGIN}")
    top += 6
    _draw_groups(canvas, story.last, (MARGIN, top))
    canvas.text(words, top + _ROW / 2 + 4, "done", "f-muted")
    top += _ROW + 6
    replaced, behind = draw_legend(canvas, top, _OF_STORIES, 4, further=2)
    draw_sign(canvas, *replaced, "r")
    draw_ring(canvas, *replaced)
    explain(canvas, replaced, "replaced in this step")
    x, y = behind
    canvas.add("rect", "f-wash", x=x - 9, y=y - 10, width=18, height=20)
    canvas.add("path", "n s-new w", d=f"M{x - 9} {y - 10}v20")
    explain(canvas, behind, "from the partition on")
    return canvas.render(top + 64)


def _draw_step(canvas: Canvas, step: Step, top: float, words: float) -> float:
    lines = len(wrapped(step.why, _WIDTH - MARGIN - words))
    height = max(_ROW, lines * LINE_HEIGHT + _ROW - LINE_HEIGHT)
    edge, end = MARGIN + step.partition * _PITCH, MARGIN + step.replicas * _PITCH
    canvas.add("rect", "f-wash", x=edge, y=top, width=end - edge, height=height)
    canvas.add("path", "n s-new w", d=f"M{edge} {top}v{height}")
    _draw_groups(canvas, step.groups.ljust(step.replicas, MISSING), (MARGIN, top), step.replaced)
    base = top + _ROW / 2 + 4.5
    for column, number in enumerate((step.replicas, step.partition)):
        canvas.text(words - 12 - (1 - column) * _NUMBER, base, str(number), "f-text", "end")
    canvas.words(words, base, step.why, _WIDTH - MARGIN - words)
    return top + height


def _draw_groups(
    canvas: Canvas, letters: str, corner: tuple[float, float], replaced: tuple[int, ...] = ()
) -> None:
    for index, letter in enumerate(letters):
        x, y = corner[0] + (index + 0.5) * _PITCH, corner[1] + _ROW / 2
        draw_sign(canvas, x, y, letter)
        if index in replaced:
            draw_ring(canvas, x, y)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of all pods at one moment.

    after: seconds since the start; None if it is the same as in the line above.
    groups: for each group, a letter for each pod.
    """

    after: float | None
    groups: tuple[str, ...]
    event: str


def parse_failure(text: str) -> Iterator[tuple[str, str, list[Moment]]]:
    """Yield headings, the place of pods (“group” or “node”) and moments. Raises ValueError for a bad line."""
    for block in text.partition("\n\n")[2].strip("\n").split("\n\n"):
        heading, columns, *lines = block.splitlines()
        yield heading.removesuffix(":"), columns.split()[1].rstrip("s"), [_moment(line) for line in lines]


def _moment(line: str) -> Moment:
    match = _MOMENT.match(line)
    if match is None:
        raise ValueError(f"no moment: {line}")
    after = float(match["after"]) if match["after"] else None
    return Moment(after, tuple(match["groups"].split()), match["event"] or "")


def drawn_failure(text: str) -> str:
    """Draw a failure and the recovery of its group."""
    chapters = list(parse_failure(text))
    events = [moment.event for *_, moments in chapters for moment in moments if moment.event]
    canvas = Canvas(_WIDTH, "; ".join(heading for heading, *_ in chapters), ". ".join(events))
    top = 10.0
    for heading, unit, moments in chapters:
        canvas.text(MARGIN, top + LINE_HEIGHT, heading, "f-text b")
        top += 2 * LINE_HEIGHT + 4
        canvas.text(MARGIN, top, "after", "f-muted")
        for index, group in enumerate(moments[0].groups):
            canvas.text(_left(moments[0], index), top, f"{unit} {index}", "f-muted")
            canvas.add("path", "n s-rule", d=f"M{_left(moments[0], index)} {top + 5}h{len(group) * _POD}")
        canvas.text(_left(moments[0], len(moments[0].groups)), top, "Events", "f-muted")
        top += 8
        printed = -1.0
        for moment in moments:
            # Smaller differences only show the pace of the simulated cluster.
            if moment.after is not None and moment.after >= printed + 1:
                printed = moment.after
                canvas.text(MARGIN, top + _LINE / 2 + 4.5, f"{printed:.0f} s", "f-muted")
            top = _draw_moment(canvas, moment, top)
        top += 8
    draw_legend(canvas, top, _OF_PODS, 3)
    return canvas.render(top + 64)


def _draw_moment(canvas: Canvas, moment: Moment, top: float) -> float:
    for index, group in enumerate(moment.groups):
        for number, letter in enumerate(group):
            draw_sign(canvas, _left(moment, index) + (number + 0.5) * _POD, top + _LINE / 2, letter)
    left = _left(moment, len(moment.groups))
    lines = canvas.words(left, top + _LINE / 2 + 4.5, moment.event, _WIDTH - MARGIN - left)
    return top + max(_LINE, lines * LINE_HEIGHT + _LINE - LINE_HEIGHT)


def _left(moment: Moment, index: int) -> float:
    """Return the position at which a group begins. After the last group, the words begin there."""
    pods = sum(map(len, moment.groups[:index]))
    return MARGIN + _TIMES + pods * _POD + index * _GAP


def drawn_slice(title: str, rows: Sequence[Row]) -> str:
    """Draw the rollout of a slice: for each row the groups of each role, old ones first, and the changes."""
    steps = [_changes(before, after) for before, after in pairwise(rows)]
    canvas = Canvas(_WIDTH, title, ". ".join(steps))
    places, left = {}, float(MARGIN)
    for role in rows[0].new:
        places[role] = left
        left += max(sum(_counts(row, role)) for row in rows) * _PITCH + _BETWEEN_ROLES
    top = 10.0 + LINE_HEIGHT
    canvas.text(MARGIN, top - 3, title, "f-text b")
    top += LINE_HEIGHT + 2
    for role, x in places.items():
        canvas.text(x, top, role, "f-muted")
    canvas.text(left, top, "what has changed", "f-muted")
    top += 8
    for row, words in zip(rows, ("before the rollout", *steps), strict=True):
        for role, x in places.items():
            old, new = _counts(row, role)
            _draw_groups(canvas, "r" * old + "R" * new, (x, top))
        canvas.text(left, top + _ROW / 2 + 4.5, words)
        top += _ROW
    draw_legend(canvas, top + 8, _OF_SLICES, 4)
    return canvas.render(top + 50)


def _changes(before: Row, after: Row) -> str:
    """Describe the changes, such as “new: prefill 1, decode 1”."""
    sides = []
    for side, which in (("new", 1), ("old", 0)):
        counts = ((role, _counts(before, role)[which], _counts(after, role)[which]) for role in after.new)
        if changed := [f"{role} {now}" for role, former, now in counts if now != former]:
            sides.append(f"{side}: {', '.join(changed)}")
    return "; ".join(sides)


def _counts(row: Row, role: str) -> tuple[int, int]:
    """Return the number of groups on all old revisions, and on the new one."""
    return sum(counts.get(role, 0) for counts in row.old.values()), row.new.get(role, 0)
