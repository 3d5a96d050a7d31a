from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from test.unit.tools.demo.objects import CREATED, make_event, make_group, make_set, make_view
from tools.demo.check import Check
from tools.demo.facts import time_of
from tools.demo.picture import Picture, picture_of
from tools.demo.presentation import draw_build, draw_checks, draw_picture
from tools.localcluster import Progress

NOW = time_of(CREATED) + timedelta(seconds=5)


def drawn(renderable: RenderableType, width: int = 80) -> list[str]:
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        console.print(renderable)
    return [line.rstrip() for line in captured.get().splitlines()]


def picture(events: int = 0, size: int = 4, **status: Any) -> Picture:
    notes = [make_event("GroupsProgressing", f"note {n} " + "long " * 40) for n in range(events)]
    pods = [pod for index in range(4) for pod in make_group(index, size=size)]
    lws = make_set(size=size, **status)
    return picture_of(make_view(pods, lws, events=notes), NOW)


def test_passed_and_failed_checks() -> None:
    lines = drawn(draw_checks([Check("good", True, "1", "1"), Check("bad", False, "2", "3 [red]")]))
    assert lines == ["✓ good", "✗ bad", "  expected: 2", "  found:    3 [red]"]


def test_long_claims_are_indented() -> None:
    lines = drawn(draw_checks([Check("word " * 20, True, "", "")]))
    assert len(lines) == 2 and lines[1].startswith("  word")


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        pytest.param(Progress("compile", 65.0, 0.42), "42% 1:05", id="known"),
        pytest.param(Progress("find", 3.0, None), " 0:03", id="unknown"),
    ],
)
def test_builds_show_step_progress_and_time(progress: Progress, text: str) -> None:
    (line,) = drawn(draw_build(progress))
    assert line.startswith(progress.step) and line.endswith(text)


def test_a_picture_of_a_set() -> None:
    lines = drawn(draw_picture(picture(updatedReplicas=1, true=["Progressing", "UpdateInProgress"]), 40))
    assert lines[0].split() == ["group", "revision", "leader", "workers", "age"]
    assert lines[1].split() == ["0", "old", "ready", "●●●", "3/3", "5s"]
    assert len([line for line in lines if "●●●" in line]) == 4
    assert "conditions  ○ Available  ● Progressing  ● UpdateInProgress  ProgressingReason" in lines
    (bars,) = [line for line in lines if line.startswith("ready")]
    assert [word for word in bars.split() if "/" in word] == ["4/4", "1/4", "16/16"]


def test_many_workers_are_only_counted() -> None:
    lines = drawn(draw_picture(picture(size=30), 40))
    assert lines[1].split() == ["0", "old", "ready", "29/29", "5s"]


def test_a_picture_without_set_and_conditions() -> None:
    assert drawn(draw_picture(Picture(None, (), 0, (), NOW), 40)) == ["no LeaderWorkerSet here"]
    assert any(line == "conditions  none yet" for line in drawn(draw_picture(picture(conditions=[]), 40)))


@pytest.mark.parametrize(
    ("height", "events"),
    [
        pytest.param(24, 2, id="a small terminal shows the newest two"),
        pytest.param(27, 3, id="one more line if there is space"),
        pytest.param(80, 5, id="never more than five"),
    ],
)
def test_events_fill_the_remaining_rows(height: int, events: int) -> None:
    lines = drawn(draw_picture(picture(events=8), height))
    assert len([line for line in lines if "GroupsProgressing" in line]) == events


@pytest.mark.parametrize("width", [80, 140])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    lines = drawn(draw_picture(picture(events=8), 24), width)
    assert max(map(len, lines)) <= width
    (first, *_) = [line for line in lines if "note" in line]
    assert first.startswith("   5s GroupsProgressing note") and first.endswith("…")
