"""The zap flags of the manager, tested by the log lines that they produce."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from lws.cli.commands.manager import (
    ENCODERS,
    STACKTRACE_LEVELS,
    TIME_ENCODINGS,
    LogOptions,
    configure,
    level_of,
)
from lws.runtime.endpoints import pass_log

ROOT = Path(__file__).parents[5]
AT = 1767323045.678901
"""2026-01-02T03:04:05.678901Z"""


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    names = ("aiohttp", "asyncio", "kubernetes")
    before = root.level, root.handlers[:], [logging.getLogger(name).level for name in names]
    # `force` closes the handlers that it replaces, and must not close pytest's own.
    root.handlers[:] = []
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    for name, level in zip(names, before[2], strict=True):
        logging.getLogger(name).setLevel(level)


def _log(level: int, error: BaseException | None = None, text: str = "hello %s") -> None:
    record = logging.LogRecord("lws.test", level, __file__, 1, text, ("you",), None)
    record.created = AT
    if error is not None:
        try:
            raise error
        except type(error) as caught:
            record.exc_info = (type(caught), caught, caught.__traceback__)
    if logging.getLogger("lws.test").isEnabledFor(level):
        logging.getLogger().handle(record)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("debug", logging.DEBUG),
        ("info", logging.INFO),
        ("error", logging.ERROR),
        ("panic", logging.CRITICAL),
        ("INFO", logging.INFO),
        ("1", logging.INFO),
        ("2", logging.INFO),
        ("3", logging.DEBUG),
        ("10", logging.DEBUG),
    ],
)
def test_levels(text: str, level: int) -> None:
    assert level_of(text) == level


@pytest.mark.parametrize("text", ["", "warn", "loud", "0", "-1", "1.5", "²"])
def test_invalid_levels_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="use debug, info, error, panic or a positive number"):
        level_of(text)


def test_a_console_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogOptions())
    _log(logging.INFO)
    captured = capsys.readouterr()
    assert captured.err == "2026-01-02T03:04:05Z\tINFO\tlws.test\thello you\n" and captured.out == ""


def test_a_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogOptions(encoder="json"))
    _log(logging.INFO, text="hello %s: ü\n")
    lines = capsys.readouterr().err.splitlines()
    assert [orjson.loads(line) for line in lines] == [
        {"level": "info", "ts": "2026-01-02T03:04:05Z", "logger": "lws.test", "msg": "hello you: ü\n"}
    ]


@pytest.mark.parametrize(
    ("options", "is_json"),
    [
        (LogOptions(), False),
        (LogOptions(devel=False), True),
        (LogOptions(encoder="json"), True),
        (LogOptions(devel=False, encoder="console"), False),
    ],
    ids=["development", "production", "development-with-json", "production-with-console"],
)
def test_encoders(options: LogOptions, is_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure(options)
    _log(logging.ERROR)
    assert capsys.readouterr().err.startswith("{") is is_json


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), ["INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(devel=True), ["DEBUG", "INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(devel=True, level="2"), ["INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(devel=False, encoder="console"), ["INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(level="2"), ["INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(level="5"), ["DEBUG", "INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(level="debug"), ["DEBUG", "INFO", "WARN", "ERROR", "PANIC"]),
        (LogOptions(level="error"), ["ERROR", "PANIC"]),
        (LogOptions(level="panic"), ["PANIC"]),
        (
            LogOptions(devel=False, encoder="console", level="debug"),
            ["DEBUG", "INFO", "WARN", "ERROR", "PANIC"],
        ),
    ],
    ids=lambda value: value.level or f"devel={value.devel}" if isinstance(value, LogOptions) else "",
)
def test_lines_below_the_level_are_not_logged(
    options: LogOptions, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(options)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        _log(level)
    assert [line.split("\t")[1] for line in capsys.readouterr().err.splitlines()] == expected


@pytest.mark.parametrize(
    ("encoding", "time"),
    [
        ("epoch", AT),
        ("millis", AT * 1e3),
        ("iso8601", "2026-01-02T03:04:05.678Z"),
        ("rfc3339", "2026-01-02T03:04:05Z"),
        ("rfc3339nano", "2026-01-02T03:04:05.678901Z"),
    ],
)
def test_times(encoding: str, time: Any, capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogOptions(encoder="json", time_encoding=encoding))
    _log(logging.INFO)
    assert orjson.loads(capsys.readouterr().err)["ts"] == time


def test_nanoseconds_are_a_whole_number(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogOptions(encoder="json", time_encoding="nano"))
    _log(logging.INFO)
    written = orjson.loads(capsys.readouterr().err)["ts"]
    assert isinstance(written, int) and written == pytest.approx(AT * 1e9, rel=1e-12)


def test_the_table_of_times_is_complete() -> None:
    assert set(TIME_ENCODINGS) == {"epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"}
    assert set(ENCODERS) == {"console", "json"} and set(STACKTRACE_LEVELS) == {"info", "error", "panic"}


@pytest.mark.parametrize(
    ("options", "from_level"),
    [
        (LogOptions(level="debug"), logging.WARNING),
        (LogOptions(devel=False, encoder="console", level="debug"), logging.ERROR),
        (LogOptions(level="debug", stacktrace_level="info"), logging.INFO),
        (LogOptions(level="debug", stacktrace_level="error"), logging.ERROR),
        (LogOptions(level="debug", stacktrace_level="panic"), logging.CRITICAL),
    ],
    ids=["development", "production", "info", "error", "panic"],
)
def test_stack_traces(options: LogOptions, from_level: int, capsys: pytest.CaptureFixture[str]) -> None:
    configure(options)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        _log(level, KeyError("spec"))
        written = capsys.readouterr().err
        assert written.splitlines()[0].endswith("\thello you\tKeyError: 'spec'"), "errors are always logged"
        assert ("Traceback" in written) is (level >= from_level)
        _log(level)
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("has_stack", [True, False])
def test_errors_in_json(has_stack: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogOptions(encoder="json", stacktrace_level="error" if has_stack else "panic"))
    _log(logging.ERROR, ValueError("a\nb"))
    entry = orjson.loads(capsys.readouterr().err)
    assert entry["error"] == "ValueError: a\nb"
    assert ("stacktrace" in entry) is has_stack
    if has_stack:
        assert re.match(r"Traceback \(most recent call last\):\n", entry["stacktrace"])


@pytest.mark.parametrize(("level", "expected"), [("debug", logging.INFO), ("error", logging.ERROR)])
def test_libraries_do_not_flood_the_log(level: str, expected: int) -> None:
    configure(LogOptions(level=level))
    assert {logging.getLogger(name).level for name in ("aiohttp", "asyncio", "kubernetes")} == {expected}


def test_disabled_debug_lines_are_not_formatted() -> None:
    """Arguments of a log line are computed only after the level was checked; errors are rare enough."""
    for path in (ROOT / "lws").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                assert not _computes_for_debug(function), f"{path}:{function.lineno} {function.name}"


def _computes_for_debug(function: ast.AST) -> bool:
    if "isEnabledFor" in ast.unparse(function):
        return False
    rarely = {
        id(node)
        for part in ast.walk(function)
        if isinstance(part, ast.ExceptHandler)
        for node in ast.walk(part)
    }
    lines = (
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "log.debug" and id(node) not in rarely
    )
    return any(
        not isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.expr_context)
        for line in lines
        for argument in line.args
        for node in ast.walk(argument)
    )


def test_configuring_again_replaces_the_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogOptions())
    configure(LogOptions(encoder="json"))
    _log(logging.INFO)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_lines_of_a_pass_carry_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    for encoder in ENCODERS:
        configure(LogOptions(encoder=encoder, level="debug"))
        with pass_log.numbered({"set": "demo"}):
            pass_log.add({"group": 1})
            _log(logging.DEBUG)
        _log(logging.DEBUG)
    within, outside, as_json, plain_json = capsys.readouterr().err.splitlines()
    fields = orjson.loads(within.rpartition("\t")[2])
    assert (fields["set"], fields["group"]) == ("demo", 1) and isinstance(fields["pass"], int)
    assert outside.endswith("\thello you")
    assert {"set": "demo", "group": 1}.items() <= orjson.loads(as_json).items()
    assert "set" not in orjson.loads(plain_json)
