from __future__ import annotations

from io import StringIO

from test.unit.tools.demo.objects import CREATED, make_event, make_set, make_view
from tools.demo.check import Check
from tools.demo.facts import time_of
from tools.demo.picture import Picture, picture_of
from tools.demo.show import Show
from tools.localcluster import Progress

NOW = time_of(CREATED)


def lines_of(stream: StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_plain_implements_the_show_protocol() -> None:
    show: Show = Show(StringIO())
    show.close()


def test_every_line_has_a_time() -> None:
    stream = StringIO()
    show = Show(stream)
    show.begin("Create")
    show.say("$ kubectl apply")
    show.wait_for("pods")
    show.wait_for("")
    show.verified([Check("good", True, "", ""), Check("bad", False, "1", "2")])
    show.fail("error: gone")
    show.begin("Delete")
    assert lines_of(stream) == [
        " 0:00  == 1. Create",
        " 0:00  $ kubectl apply",
        " 0:00  waiting for pods",
        " 0:00  ok      good",
        " 0:00  FAILED  bad",
        " 0:00            expected: 1",
        " 0:00            found:    2",
        " 0:00  error: gone",
        " 0:00  == 2. Delete",
    ]


def test_commands_are_printed_on_separate_lines() -> None:
    stream = StringIO()
    Show(stream).tell(["", "export A=b"])
    assert lines_of(stream) == ["", "export A=b"]


def test_builds_are_printed_as_lines() -> None:
    stream = StringIO()
    show = Show(stream)
    show.build(Progress("compile", 0.0, 0.0))
    show.build(Progress("compile", 0.2, 0.1))
    show.build(Progress("compile", 65.0, 1.0, finished=True))
    assert [line.split() for line in lines_of(stream)] == [
        ["compile", "0%", "0:00"],
        ["compile", "done", "1:05"],
    ]


def test_only_changed_pictures_and_new_events_are_printed() -> None:
    stream = StringIO()
    show = Show(stream)
    show.changed()
    pictures: list[Picture] = []
    show.watch(lambda: pictures[-1])
    first = make_event("First", "a")
    pictures.append(picture_of(make_view(lws=make_set(true=["Progressing"]), events=[first]), NOW))
    show.changed()
    show.changed()
    second = make_event("Second", "b", type="Warning", at="2026-01-01T00:00:10Z")
    pictures.append(picture_of(make_view(events=[first, second]), NOW))
    show.changed()
    show.close()
    show.changed()
    assert lines_of(stream) == [
        " 0:00    event First: a",
        " 0:00    groups ready 4/4, up to date 4/4, Progressing",
        " 0:00    warning Second: b",
        " 0:00    groups ready 4/4, up to date 4/4, Available",
    ]


def test_output_has_no_control_codes() -> None:
    stream = StringIO()
    show = Show(stream)
    show.verified([Check("claim", False, "1", "2")])
    show.build(Progress("compile", 1.0, 0.5))
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()
