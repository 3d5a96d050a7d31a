"""tools.pictures.flow: questions in a row, and what the picture of failures says of Events and policies."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tools.pictures.catalogue import ROOT
from tools.pictures.flow import Question, drawn_flow, parse_flow

TEXT = """What becomes of it

begin\tit <begins>
end\tIs it over?\tnothing
skip 1\tIs it in a hurry?\tnot asked
wait\tIs it early?\twait
last\tdone
"""


def test_questions() -> None:
    title, questions = parse_flow(TEXT)
    assert title == "What becomes of it"
    assert questions[1:3] == [
        Question("end", 0, "Is it over?", "nothing"),
        Question("skip", 1, "Is it in a hurry?", "not asked"),
    ]
    with pytest.raises(ValueError, match="no kind"):
        parse_flow("title\n\nmaybe\tIs it?\tperhaps\n")


def test_every_question_has_its_yes_and_no_and_waiting_comes_back() -> None:
    root = ElementTree.fromstring(drawn_flow(TEXT))
    texts = [found.text for found in root.iter() if found.tag.endswith("}text")]
    assert {"it <begins>", "Is it early?", "nothing", "done"} <= set(texts)
    assert (texts.count("yes"), texts.count("no")) == (3, 3)
    kinds = [found.get("class") for found in root.iter() if found.tag.endswith("}rect")]
    assert kinds.count("n s-amber w") == 1 and kinds.count("n s-new w") == 1


def test_what_is_skipped_is_passed_by() -> None:
    root = ElementTree.fromstring(drawn_flow(TEXT))
    tops = [float(found.get("y", "")) for found in root.iter() if found.tag.endswith("}rect")]
    (course,) = (
        found.get("d", "") for found in root.iter() if "third" in found.get("class", "") and found.get("d")
    )
    assert float(re.findall(r"V([\d.]+)", course)[-1]) == max(tops), "at the last box, past one question"


def test_the_events_that_the_picture_of_failures_names_exist() -> None:
    text = (ROOT / "tools" / "pictures" / "flows" / "failure.txt").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lws").rglob("*.py"))
    events = re.findall(r"Event (\w+)", text)
    assert len(events) == 3 and [event for event in events if f'"{event}"' not in code] == []
