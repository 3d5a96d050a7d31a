"""tools.pictures.steps: the picture of a rollout scenario."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.pictures.steps import Chapter, Step, Story, drawn_story

WHY = "group 1 may move to the new revision: 2 groups are ready, 1 must stay; replacing group 1"
STORY = Story(
    (
        Chapter("2 groups; a <new> revision", (Step("rx", 2, 1, (1,), WHY), Step("rT", 3, 0, (0,), "on"))),
        Chapter("paused", ()),
    ),
    "RR-",
)


def _drawn() -> ElementTree.Element:
    return ElementTree.fromstring(drawn_story(STORY))


def _texts() -> list[str]:
    return [element.text or "" for element in _drawn().iter() if element.tag.endswith("}text")]


def _circles(kind: str) -> int:
    return sum(
        element.tag.endswith("}circle") and element.get("class") == kind for element in _drawn().iter()
    )


def test_words() -> None:
    texts = _texts()
    assert {"2 groups; a <new> revision", "paused", "nothing to do", "done", "partition"} <= set(texts)
    assert WHY in " ".join(texts), "in several lines, none of which is lost"


def test_every_group_has_a_sign() -> None:
    in_legend = 1
    assert _circles("n s-alert w") == 2 + in_legend, "replaced"
    assert _circles("f-new s-new") == 2 + in_legend, "new and ready"
    assert _circles("f-page s-new w d") == 1 + in_legend, "new and not ready"
    assert _circles("f-old") == 2 + in_legend, "not there"


def test_everything_is_inside_the_picture() -> None:
    root = _drawn()
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for element in root.iter():
        if element.get("y"):
            assert 0 < float(element.get("y", "")) < height
        for across in ("x", "cx"):
            assert 0 <= float(element.get(across, 0)) < width


def test_the_picture_has_a_description() -> None:
    description = next(element.text or "" for element in _drawn().iter() if element.tag.endswith("}desc"))
    assert WHY in description and "paused" in description
