"""lws.cli.blocks: blocks as plain text."""

from __future__ import annotations

from lws.cli.blocks import Bar, SideBySide, Table, Text, plain, row


def test_columns_are_as_wide_as_their_widest_text_and_nothing_is_cut() -> None:
    table = Table(("NAME", "WHY"), (row("a", "x" * 200), row(Text("longer", "red"), "")))
    assert list(table.lines()) == ["NAME     WHY", "a        " + "x" * 200, "longer"]


def test_plain() -> None:
    halves = SideBySide(("old", "new"), ((Text("a: 1", "red"), Text("a: 2")), (None, Text("b: 3"))))
    blocks = [Text("head", "bold"), Bar(2, 4, "groups ready"), halves]
    assert list(plain(blocks)) == ["head", "groups ready: 2 of 4", "old    new", "a: 1   a: 2", "       b: 3"]
