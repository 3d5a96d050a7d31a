"""tools.pictures.canvas: one sign for each state, distinguishable without colours."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.pictures.canvas import Canvas, draw_legend, draw_ring, draw_sign, explain


def _drawn(letter: str) -> list[tuple[str, str | None]]:
    canvas = Canvas(100, "title", "description")
    draw_sign(canvas, 10, 10, letter)
    root = ElementTree.fromstring(canvas.render(20))
    return [(element.tag.rpartition("}")[2], element.get("class")) for element in list(root)[4:]]


def test_every_state_has_a_distinct_sign() -> None:
    signs = {letter: str(_drawn(letter)) for letter in "rRxutT-"}
    assert len(set(signs.values())) == len(signs)
    assert "d'" in signs["x"] and "d'" in signs["u"] and "path" in signs["t"]


def test_the_legend_continues_in_the_next_row() -> None:
    places = draw_legend(Canvas(332, "title", "description"), 20.0, {}, 3, further=4)
    assert places[1][0] - places[0][0] == 100 and places[3] == (places[0][0], places[0][1] + 24)


def test_words_and_rings() -> None:
    canvas = Canvas(100, "title", "description")
    explain(canvas, (10, 10), "ready")
    draw_ring(canvas, 10, 10)
    text = canvas.render(20)
    assert ">ready</text>" in text and 'class="n s-alert w"' in text
