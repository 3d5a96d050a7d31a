"""lws.cli.views.screen: blocks on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import sys

import pytest

from lws.cli.blocks import Bar, SideBySide, Table, Text, row
from lws.cli.views import screen

BLOCKS = [
    Text("set [demo]", "bold"),
    Bar(1, 4, "groups ready"),
    Table(("GROUP", "WHY"), (row("0", Text("its turn", "yellow")),)),
    SideBySide(("old", "new"), ((Text("a"), None),)),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """From here on stdout is a terminal of 130 columns. pytest takes back what a fixture sets."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "130")
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    return found


def test_without_a_terminal_it_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    screen.show(BLOCKS)
    assert capsys.readouterr().out.splitlines() == [
        "set [demo]",
        "groups ready: 1 of 4",
        "GROUP   WHY",
        "0       its turn",
        "old   new",
        "a",
    ]
    assert not screen.is_wide()


def test_on_a_terminal_there_is_colour_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    screen.show(BLOCKS)
    shown = terminal.getvalue()
    assert "\x1b[1mset [demo]\x1b[0m" in shown
    assert "\x1b[33m━━━━━━━━━━\x1b[0m" in shown
    assert "\x1b[33mits turn\x1b[0m" in shown
    assert "1 of 4" in shown
    assert screen.is_wide()


def test_no_colour_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    screen.show([Text("calm", "bold red"), *BLOCKS[1:3]])
    assert terminal.getvalue() == "calm\ngroups ready: 1 of 4\nGROUP   WHY\n0       its turn\n"
    assert not screen.is_wide()


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_what_is_not_coloured_is_as_wide_as_its_text(
    variable: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    screen.show([Table(("WHY",), (row("a" * 50),))])
    assert terminal.getvalue() == f"WHY\n{'a' * 50}\n"


@pytest.mark.parametrize(("no_color", "shown"), [("", "\x1b[33mWarning: a\x1b[0m\n"), ("1", "Warning: a\n")])
def test_warnings_on_a_terminal(no_color: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of(monkeypatch)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    screen.warn("a")
    assert terminal.getvalue() == shown


def test_a_narrow_terminal_is_not_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of(monkeypatch)
    monkeypatch.setenv("COLUMNS", "119")
    assert not screen.is_wide()


def test_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert screen.room_for(10) is None
    terminal_of(monkeypatch)
    monkeypatch.setenv("LINES", "40")
    assert (screen.room_for(10), screen.room_for(39)) == (30, 5)


def test_a_picture_that_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with screen.live() as draw:
        draw([Text("one")])
        draw([Text("two")])
    assert "one" in terminal.getvalue()
    assert "two" in terminal.getvalue()


def test_without_a_terminal_only_news_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with screen.live() as draw:
        for text in ("one", "one", "two"):
            draw([Text(text)])
    assert capsys.readouterr().out == "one\ntwo\n"


def test_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    screen.warn("look out")
    assert capsys.readouterr() == ("", "Warning: look out\n")


def test_data(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": "ä", "a": [1, None]}
    screen.dump(value, "yaml")
    assert capsys.readouterr().out == "name: ä\na:\n- 1\n- null\n"
    screen.dump(value, "json")
    assert json.loads(capsys.readouterr().out) == value
