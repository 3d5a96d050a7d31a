"""tools.pictures.steps: parsing of golden scenarios."""

from __future__ import annotations

import pytest

from test.unit.stories.letters import letters_of
from test.unit.stories.test_golden import STORIES
from tools.pictures.steps import Chapter, Step, parse_story

TEXT = """the legend
  of letters

4 groups; a new revision:
  stored groups         told   replaced  why
  4,0    rrrr           5,4    -         there is a new revision
  5,4    rrrru          5,2    3,2       replacing groups 2 to 3; in: two steps

nothing comes of this:
  stored groups         told   replaced  why
  (nothing to do)
"""


def test_chapters_and_steps() -> None:
    story = parse_story(TEXT)
    assert story.chapters == (
        Chapter(
            "4 groups; a new revision",
            (
                Step("rrrr", 5, 4, (), "there is a new revision"),
                Step("rrrru", 5, 2, (3, 2), "replacing groups 2 to 3; in: two steps"),
            ),
        ),
        Chapter("nothing comes of this", ()),
    )
    assert (story.width, story.last) == (5, "rrRRR")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("legend\n\nno colon\n  heads\n", "no heading", id="heading"),
        pytest.param("legend\n\nheading:\n  heads\n  4,4  rrrr\n", "no step", id="step"),
    ],
)
def test_other_lines_are_errors(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_story(text)


@pytest.mark.parametrize("name", STORIES)
def test_a_parsed_story_ends_like_the_recorded_one(name: str) -> None:
    book = STORIES[name]()
    story, states = parse_story(book.text), book.story.states
    assert story.last == letters_of(states, max(state.index for state in states) + 1)
    assert all(step.why for chapter in story.chapters for step in chapter.steps)
