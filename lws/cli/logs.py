"""How the manager logs: to stderr, as lines for people or as JSON, in the terms of the original's zap flags.

In: the zap flags. Out: a configured root logger.
"""

from __future__ import annotations

import datetime
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from lws.runtime.endpoints import pass_log

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "panic",
}

_TIMES: dict[str, Callable[[float], str | float]] = {
    "epoch": lambda at: at,
    "millis": lambda at: at * 1e3,
    "nano": lambda at: int(at * 1e9),
    "iso8601": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%S.") + f"{_utc(at).microsecond // 1000:03d}Z",
    "rfc3339": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "rfc3339nano": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
}

TIME_ENCODINGS = tuple(_TIMES)
ENCODERS = ("console", "json")
STACKTRACE_LEVELS = ("info", "error", "panic")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The zap flags. None: what development or production logging does by default."""

    devel: bool = True
    encoder: str | None = None
    level: str | None = None
    stacktrace_level: str | None = None
    time_encoding: str = "rfc3339"


def level_of(text: str) -> int:
    """The level a flag names: debug, info, error, panic, or a positive number (larger says more).

    Raises ValueError for anything else.
    """
    if text.lower() in _LEVELS:
        return _LEVELS[text.lower()]
    if text.isascii() and text.isdecimal() and int(text) > 0:
        # Deployments have always passed 2; only above that did the original log each of its steps.
        return logging.DEBUG if int(text) > 2 else logging.INFO
    raise ValueError(f"{text!r} is no log level: use debug, info, error, panic or a positive number")


def configure(options: LogOptions) -> None:
    """Log to stderr from now on."""
    level, stacktraces = (logging.DEBUG, logging.WARNING) if options.devel else (logging.INFO, logging.ERROR)
    if options.level is not None:
        level = level_of(options.level)
    if options.stacktrace_level is not None:
        stacktraces = _LEVELS[options.stacktrace_level]
    encoder = options.encoder or ("console" if options.devel else "json")
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Json if encoder == "json" else _Console
    handler.setFormatter(formatter(_TIMES[options.time_encoding], stacktraces))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Every connection and every request of the HTTP client is not what somebody who asks for debug wants.
    for noisy in ("aiohttp", "asyncio", "kubernetes"):
        logging.getLogger(noisy).setLevel(max(level, logging.INFO))


class _Console(logging.Formatter):
    """Tab-separated: time, level, logger, message, and within a pass its fields as JSON."""

    def __init__(self, encode_time: Callable[[float], str | float], stacktraces: int) -> None:
        super().__init__()
        self._encode_time = encode_time
        self._stacktraces = stacktraces

    def format(self, record: logging.LogRecord) -> str:
        level = _NAMES.get(record.levelno, record.levelname.lower()).upper()
        line = f"{self._encode_time(record.created)}\t{level}\t{record.name}\t{record.getMessage()}"
        if fields := pass_log.fields():
            line += f"\t{orjson.dumps(dict(fields)).decode()}"
        error, stack = self._failure(record)
        return "\n".join(part for part in (f"{line}\t{error}" if error else line, stack) if part)

    def _failure(self, record: logging.LogRecord) -> tuple[str, str]:
        """The exception that is logged, in one line, and how it came to be where that is asked for."""
        if not record.exc_info or record.exc_info[1] is None:
            return "", ""
        error = "; ".join(line.strip() for line in traceback.format_exception_only(record.exc_info[1]))
        if record.levelno < self._stacktraces:
            return error, ""
        return error, "".join(traceback.format_exception(*record.exc_info)).rstrip()


class _Json(_Console):
    """One object per line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "level": _NAMES.get(record.levelno, record.levelname.lower()),
            "ts": self._encode_time(record.created),
            "logger": record.name,
            "msg": record.getMessage(),
            **pass_log.fields(),
        }
        error, stack = self._failure(record)
        entry |= {"error": error} if error else {}
        entry |= {"stacktrace": stack} if stack else {}
        return orjson.dumps(entry).decode()


def _utc(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)
