from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

from test.unit.tools.demo.objects import CREATED, make_view
from tools.demo.check import Check
from tools.demo.facts import time_of
from tools.demo.picture import picture_of
from tools.demo.presentation import LiveShow
from tools.demo.show import Show
from tools.localcluster import Progress

SHOW_CURSOR = "\x1b[?25h"


class Screen:
    """A terminal that records what is written to it."""

    def __init__(self) -> None:
        self.stream = StringIO()
        console = Console(
            file=self.stream, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"}
        )
        self.show = LiveShow(console)

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.stream.getvalue())


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.show.close()


def test_live_implements_the_show_protocol(screen: Screen) -> None:
    show: Show = screen.show
    show.changed()


def test_finished_steps_are_kept(screen: Screen) -> None:
    screen.show.begin("Create")
    screen.show.say("$ kubectl apply")
    screen.show.verified([Check("good", True, "", ""), Check("bad", False, "1", "2")])
    screen.show.fail("error: gone [here]")
    for line in ("1  Create", "   $ kubectl apply", "   ✓ good", "   ✗ bad", "     found:    2"):
        assert line in screen.text
    assert "error: gone [here]" in screen.text


def test_the_current_activity_is_drawn_below(screen: Screen) -> None:
    screen.show.build(Progress("compile", 1.0, 0.5))
    screen.show.watch(lambda: picture_of(make_view(), time_of(CREATED)))
    screen.show.wait_for("pods")
    assert "waiting for pods" in screen.text
    assert "compile" in screen.text and "50%" in screen.text
    assert "●●● 3/3" in screen.text


def test_a_finished_build_is_removed(screen: Screen) -> None:
    screen.show.build(Progress("compile", 1.0, 0.5))
    screen.show.wait_for("programs")
    screen.show.build(Progress("compile", 65.0, 1.0, finished=True))
    before = len(screen.text)
    screen.show.wait_for("pods")
    assert "compile: done in 1:05" in screen.text[:before]
    assert "compile" not in screen.text[before:]


def test_commands_can_be_copied(screen: Screen) -> None:
    line = "export PATH=/a/very/long/path" + "/deeper" * 20 + ":$PATH"
    screen.show.tell([line, "[bold] is no markup"])
    assert line in screen.text and "[bold] is no markup" in screen.text


def test_the_cursor_is_restored() -> None:
    screen = Screen()
    assert SHOW_CURSOR not in screen.stream.getvalue()
    screen.show.close()
    assert SHOW_CURSOR in screen.stream.getvalue()
