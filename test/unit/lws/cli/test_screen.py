"""lws.cli.screen: blocks of text on a terminal and in other output."""

from __future__ import annotations

import io
import json
import sys

import pytest
import yaml

from lws.cli import screen
from lws.cli.screen import Bar, Table, Text, age, plain, row, short
from lws.cli.session import Refusal
from test.unit.builders import NOW

BLOCKS = [
    Text("set [demo]", "bold"),
    Bar(1, 4, "groups ready"),
    Table(("GROUP", "WHY"), (row("0", Text("its turn", "yellow")),)),
    Table(("old", "new"), (row("a", ""),), is_even=True),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stdout a terminal of 130 columns, and return it.

    This is not a fixture, because pytest would replace stdout again before the test runs.
    """
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "130")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_output_without_a_terminal_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
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


HOSTILE = "a\x1b[2Jb\rc\x9b1m\u202ed"
HARMLESS = r"a\x1b[2Jb\rc\x9b1m\u202ed"


def test_control_characters_do_not_reach_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container may write its termination message, and with it what `lws status` shows."""
    blocks = [Text(HOSTILE), Table(("WHY",), (row(HOSTILE),)), Bar(1, 2, HOSTILE)]
    assert list(plain(blocks)) == [HARMLESS, "WHY", HARMLESS, f"{HARMLESS}: 1 of 2"]
    screen.warn(HOSTILE)
    Refusal(f"{HOSTILE}\nsecond line").show()
    assert capsys.readouterr().err == f"Warning: {HARMLESS}\nerror: {HARMLESS}\nsecond line\n"
    for form in ("json", "yaml"):
        screen.dump({"why": HOSTILE}, form)
        text = capsys.readouterr().out
        assert yaml.safe_load(text) == {"why": HOSTILE}
        assert not {"\x1b", "\x9b", "\r"} & set(text)
    terminal = terminal_of(monkeypatch)
    screen.show(blocks)
    assert terminal.getvalue().count(HARMLESS) == 3


def test_output_on_a_terminal_has_colours_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    screen.show(BLOCKS)
    output = terminal.getvalue()
    assert "\x1b[1mset [demo]\x1b[0m" in output
    assert "\x1b[33m━━━━━━━━━━\x1b[0m" in output
    assert "\x1b[33mits turn\x1b[0m" in output
    assert "1 of 4" in output
    assert screen.is_wide()


def test_no_color_disables_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    screen.show([Text("calm", "bold red"), *BLOCKS[1:3]])
    assert terminal.getvalue() == "calm\ngroups ready: 1 of 4\nGROUP   WHY\n0       its turn\n"
    assert not screen.is_wide()


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_output_without_colours_is_not_wrapped(
    variable: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    screen.show([Table(("WHY",), (row("a" * 50),))])
    assert terminal.getvalue() == f"WHY\n{'a' * 50}\n"


@pytest.mark.parametrize(
    ("no_color", "expected"), [("", "\x1b[33mWarning: a\x1b[0m\n"), ("1", "Warning: a\n")]
)
def test_warnings_on_a_terminal(no_color: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of(monkeypatch)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    screen.warn("a")
    assert terminal.getvalue() == expected


def test_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal_of(monkeypatch)
    monkeypatch.setenv("COLUMNS", "119")
    assert not screen.is_wide()


def test_the_number_of_free_rows_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert screen.room_for(10) is None
    terminal_of(monkeypatch)
    monkeypatch.setenv("LINES", "40")
    assert (screen.room_for(10), screen.room_for(39)) == (30, 5)


def test_a_live_picture_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with screen.live() as draw:
        draw([Text("one")])
        draw([Text("two")])
    assert "one" in terminal.getvalue()
    assert "two" in terminal.getvalue()


def test_only_changes_are_printed_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_columns_fit_their_widest_text() -> None:
    table = Table(("NAME", "WHY"), (row("a", "x" * 200), row(Text("longer", "red"), "")))
    assert list(table.lines()) == ["NAME     WHY", "a        " + "x" * 200, "longer"]


def test_plain() -> None:
    halves = Table(("old", "new"), (row(Text("a: 1", "red"), "a: 2"), row("", "b: 3")), is_even=True)
    blocks = [Text("head", "bold"), Bar(2, 4, "groups ready"), halves]
    assert list(plain(blocks)) == ["head", "groups ready: 2 of 4", "old    new", "a: 1   a: 2", "       b: 3"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3599, "59m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600 + 300, "8h"),
        (47 * 3600, "47h"),
        (2 * 86400, "2d"),
        (2 * 86400 + 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (1000 * 86400, "1000d"),
    ],
)
def test_short(seconds: int, expected: str) -> None:
    assert short(seconds) == expected


def test_age() -> None:
    assert age("2026-03-01T11:59:55Z", NOW) == "5s"
    assert age("2026-03-01T12:59:55+01:00", NOW) == "5s"
    assert (age(None, NOW), age("", NOW)) == ("<unknown>", "<unknown>")
    assert (age("garbage", NOW), age("0001-01-01T00:00:00+14:00", NOW)) == ("<unknown>", "<unknown>")
