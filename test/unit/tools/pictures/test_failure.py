"""tools.pictures.steps: golden failure scenarios, parsed and drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import STORIES
from tools.pictures.steps import Moment, drawn_failure, parse_failure

LONG = "RecreateGroup: Worker pod demo-0-1 failed, deleted leader pod demo-0 to recreate group 0: it went"
TEXT = f"""the legend
  of letters

a worker <fails>:
  after    groups   events
  0.0      rx rr
  0.3      tr rr    {LONG}
           tr rr    Other: said at the same time

and again:
  after    nodes    events
  9.6      Ru -r
"""


def test_moments() -> None:
    assert list(parse_failure(TEXT)) == [
        (
            "a worker <fails>",
            "group",
            [
                Moment(0.0, ("rx", "rr"), ""),
                Moment(0.3, ("tr", "rr"), LONG),
                Moment(None, ("tr", "rr"), "Other: said at the same time"),
            ],
        ),
        ("and again", "node", [Moment(9.6, ("Ru", "-r"), "")]),
    ]


def test_other_lines_are_errors() -> None:
    with pytest.raises(ValueError, match="no moment"):
        list(parse_failure("legend\n\nheading:\n  after groups\n  0.0   what\n"))


@pytest.mark.parametrize("path", sorted((STORIES / "failures").glob("*.txt")), ids=lambda path: path.stem)
def test_every_story_is_read(path: object) -> None:
    text = path.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert all(moments[0].after == 0.0 for *_, moments in parse_failure(text))


def test_the_picture_shows_pods_events_and_seconds_that_matter() -> None:
    root = ElementTree.fromstring(drawn_failure(TEXT))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("}text")]
    assert LONG in " ".join(texts) and {"a worker <fails>", "group 1", "node 1", "0 s", "10 s"} <= set(texts)
    assert texts.count("0 s") == 1, "the same second is shown once"
    kinds = [element.get("class") for element in root.iter() if element.tag.endswith("}circle")]
    in_legend = 1
    assert kinds.count("f-new s-new") == 1 + in_legend and kinds.count("f-old") == 1 + in_legend
