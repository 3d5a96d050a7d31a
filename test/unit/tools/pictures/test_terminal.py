"""tools.pictures.terminal: terminal output as SVG, and the recording in the README."""

from __future__ import annotations

import inspect
from xml.etree import ElementTree

from tools.demo import tour as acts
from tools.pictures.__main__ import RECORDING
from tools.pictures.terminal import drawn_terminal

TEXT = (
    "\x1b[1;36m2  \x1b[0m\x1b[1mCreate it\x1b[0m\n   \x1b[2m$ run\x1b[0m  a <b>\n\n"
    "\x1b[33m●● 2/3   \x1b[0m9s\n"
)


def _words() -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(drawn_terminal(TEXT, "a title"))
    return {element.text or "": element for element in root.iter() if element.tag.endswith("}text")}


def test_words_keep_their_positions_and_styles() -> None:
    words = _words()
    assert {text: element.get("class") for text, element in words.items()} == {
        "2": "m f-new b",
        "Create it": "m f-text b",
        "$ run": "m f-muted",
        "a <b>": "m f-text",
        "●● 2/3": "m f-amber",
        "9s": "m f-text",
    }
    columns = {text: round((float(element.get("x", "")) - 16) / 7.2) for text, element in words.items()}
    assert columns == {"2": 0, "Create it": 3, "$ run": 3, "a <b>": 10, "●● 2/3": 0, "9s": 9}


def test_empty_lines_take_space() -> None:
    rows = {text: float(element.get("y", "")) for text, element in _words().items()}
    assert rows["9s"] - rows["$ run"] == 2 * (rows["$ run"] - rows["2"]) > 0


def test_the_width_is_that_of_the_longest_line() -> None:
    root = ElementTree.fromstring(drawn_terminal("x" * 100, "a title"))
    assert root.get("width") == "752"


def test_the_recording_matches_the_current_demo() -> None:
    text, source = RECORDING.read_text(encoding="utf-8"), inspect.getsource(acts)
    for words in ("A new image: rolling update, one group at a time", "groups to move to the new revision"):
        assert words in text and words in source
    assert f"registry.k8s.io/pause:{acts.NEW_TAG}" in text
