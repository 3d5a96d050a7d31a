"""How does a row of questions look, each with what follows from a yes?

In: a title and, line by line, what a question is followed by, the question, and the outcome, separated by
tabs. Out: the text of an SVG. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.pictures.canvas import LINE_HEIGHT, Canvas, wrapped

_WIDTH, _MARGIN = 760, 16
_QUESTION, _OUTCOME, _ACROSS, _DOWN = 400, 220, 60, 30
_PADDING = 10
_LINES = {"begin": "s-rule", "last": "s-new w", "end": "s-old w", "wait": "s-amber w", "skip": "s-third w"}
_RIGHT = _MARGIN + _QUESTION + _ACROSS


@dataclass(frozen=True, slots=True)
class Question:
    """kind: `begin` and `last` are no questions; a yes ends, waits and asks again, or skips some."""

    kind: str
    skips: int
    words: str
    outcome: str


@dataclass(slots=True)
class _Place:
    question: Question
    top: float
    height: float

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def parse_flow(text: str) -> tuple[str, list[Question]]:
    """The title, and the questions in order."""
    title, _, *lines = text.splitlines()
    return title, [_question(line) for line in lines]


def _question(line: str) -> Question:
    kind, words, *outcome = line.split("\t")
    name, _, skips = kind.partition(" ")
    if name not in _LINES:
        raise ValueError(f"no kind of question: {kind}")
    return Question(name, int(skips or 0), words, outcome[0] if outcome else "")


def drawn_flow(text: str) -> str:
    """The picture of all questions, from the top down."""
    title, questions = parse_flow(text)
    told = (f"{each.words} {f'Yes: {each.outcome}.' if each.outcome else ''}".strip() for each in questions)
    canvas = Canvas(_WIDTH, title, " ".join(told))
    canvas.text(_MARGIN, 28, title, "f-text b")
    places, top = [], 44.0
    for question in questions:
        height = max(_height(question.words, _QUESTION), _height(question.outcome, _OUTCOME))
        places.append(_Place(question, top, height))
        top += height + _DOWN
    for number, place in enumerate(places):
        _box(canvas, place, (_MARGIN, _QUESTION), place.question.words)
        if number:
            above = places[number - 1]
            _down(canvas, above.top + above.height, place.top, "no" if above.question.outcome else "")
        if place.question.outcome:
            _yes(canvas, place)
        if place.question.skips:
            _skip(canvas, place, places[number + place.question.skips + 1])
    return canvas.render(top - _DOWN + _MARGIN)


def _height(words: str, width: float) -> float:
    return len(wrapped(words, width - 2 * _PADDING)) * LINE_HEIGHT + 2 * _PADDING - 4


def _box(canvas: Canvas, place: _Place, across: tuple[float, float], words: str) -> None:
    left, width = across
    is_question = left == _MARGIN
    line = "s-rule" if is_question and place.question.outcome else _LINES[place.question.kind]
    corner = 4 if is_question else 12
    canvas.add("rect", f"n {line}", x=left, y=place.top, width=width, height=place.height, rx=corner)
    lines = wrapped(words, width - 2 * _PADDING)
    first = place.middle - (len(lines) - 1) * LINE_HEIGHT / 2 + 4.5
    for number, line in enumerate(lines):
        canvas.text(left + _PADDING, first + number * LINE_HEIGHT, line)


def _down(canvas: Canvas, start: float, end: float, word: str) -> None:
    x = _MARGIN + _QUESTION / 2
    canvas.add("path", "n s-old", d=f"M{x} {start}V{end}m-4 -6l4 6l4 -6")
    canvas.text(x + 8, (start + end) / 2 + 3, word, "f-muted")


def _yes(canvas: Canvas, place: _Place) -> None:
    start, y = _MARGIN + _QUESTION, place.middle
    heads = f"M{_RIGHT - 6} {y - 4}l6 4l-6 4"
    if place.question.kind == "wait":
        heads += f"M{start + 6} {y - 4}l-6 4l6 4"
    canvas.add("path", "n s-old", d=f"M{start} {y}H{_RIGHT}{heads}")
    canvas.text(start + _ACROSS / 2, y - 6, "yes", "f-muted", "middle")
    _box(canvas, place, (_RIGHT, _OUTCOME), place.question.outcome)


def _skip(canvas: Canvas, place: _Place, target: _Place) -> None:
    """A line past the outcomes between, to the question at which it goes on."""
    start, side, arrow = _RIGHT + _OUTCOME, _RIGHT + _OUTCOME + 20, _MARGIN + _QUESTION - 20
    course = f"M{start} {place.middle}H{side}V{target.top - _DOWN / 2}H{arrow}V{target.top}m-4 -6l4 6l4 -6"
    canvas.add("path", "n s-third w", d=course)
