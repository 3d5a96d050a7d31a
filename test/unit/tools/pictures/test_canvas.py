"""tools.pictures.canvas: SVG as text."""

from __future__ import annotations

from xml.etree import ElementTree

from tools.pictures.canvas import Canvas, wrapped


def test_text_is_escaped_and_numbers_are_short() -> None:
    canvas = Canvas(100, "a < b", "what it shows")
    canvas.text(1.25, 10.0, "<&>", "f-muted", "end")
    canvas.add("path", "n s-rule", d="M0 0H9", stroke_width=2)
    text = canvas.render(20.4)
    root = ElementTree.fromstring(text)
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("100", "20", "0 0 100 20")
    assert '<text class="f-muted" x="1.2" y="10" text-anchor="end">&lt;&amp;&gt;</text>' in text
    assert 'stroke-width="2"' in text


def test_the_canvas_has_colours_for_light_and_dark_mode() -> None:
    text = Canvas(100, "title", "description").render(10)
    light, dark = text.split("@media(prefers-color-scheme:dark)")
    assert ".f-page{fill:#ffffff}" in light and ".f-page{fill:#0d1117}" in dark


def test_lines_are_wrapped_at_words() -> None:
    assert wrapped("one two three four", 80) == ["one two", "three four"]
