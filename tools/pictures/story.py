"""What does a golden story say?

In: the text of a file of test/unit/stories/golden. Out: its chapters, step by step. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
