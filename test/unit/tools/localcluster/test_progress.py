"""tools.localcluster.progress: a line from time to time."""

from __future__ import annotations

import io

import pytest

from tools.localcluster.progress import LinePrinter, Progress, render


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("compile x", 65.9, 0.421), "compile x 42% 1:05"),
        (Progress("download x", 3, None), "download x 0:03"),
        (Progress("compile x", 125, 1.0, finished=True), "compile x done 2:05"),
    ],
    ids=["fraction", "unknown", "finished"],
)
def test_render(progress: Progress, text: str) -> None:
    assert " ".join(render(progress).split()) == text


def test_a_line_is_printed_at_the_start_periodically_and_at_the_end() -> None:
    stream = io.StringIO()
    report = LinePrinter(stream, interval=10)
    for elapsed in (0, 5, 9, 11, 12, 22):
        report(Progress("compile", elapsed, 0.5))
    report(Progress("compile", 23, 1.0, finished=True))
    report(Progress("link", 0, None))
    lines = [line.split()[0] + " " + line.split()[-1] for line in stream.getvalue().splitlines()]
    assert lines == ["compile 0:00", "compile 0:11", "compile 0:22", "compile 0:23", "link 0:00"]
