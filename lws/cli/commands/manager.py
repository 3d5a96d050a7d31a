"""`lws manager`: run the controller with the flags of upstream's manager, and write its log."""

from __future__ import annotations

import asyncio
import ctypes
import datetime
import gc
import itertools
import logging
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click
import orjson

from lws import __version__
from lws.config import load
from lws.config.loading import FLAGS
from lws.runtime.endpoints import pass_log

_DEPRECATED = "Better set in the configuration file."

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


def _log_level(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            level_of(value)
        except ValueError as error:
            raise click.BadParameter(str(error), param=param) from error
    return value


class _Boolean(click.types.BoolParamType):
    """Rejects an empty value, such as that of a variable that is not set, which click reads as false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        if value == "":
            self.fail("must be true or false, not empty", param, ctx)
        return super().convert(value, param, ctx)


_BOOLEAN = _Boolean()


@click.command(context_settings={"auto_envvar_prefix": None})
@click.option(
    "--config", help="Configuration file (config.lws.x-k8s.io/v1alpha1); built-in defaults without one."
)
@click.option(
    "--kubeconfig", help="Access from outside a cluster; $KUBECONFIG without it, then the pod's own account."
)
@click.option("--version", "version", type=_BOOLEAN, help="Print version, build date and commit, then exit.")
@click.option("--kube-api-qps", type=float, help="Requests per second to the API server (500).")
@click.option("--kube-api-burst", type=int, help="Burst of requests to the API server (500).")
@click.option("--leader-elect", type=_BOOLEAN, help="Act only while holding the Lease (true).")
@click.option(
    "--leader-elect-lease-duration",
    help=f"Time after which a Lease that is not renewed may be acquired (15s). {_DEPRECATED}",
)
@click.option(
    "--leader-elect-renew-deadline",
    help=f"Time after which a holder that cannot renew the Lease stops (10s). {_DEPRECATED}",
)
@click.option(
    "--leader-elect-retry-period",
    help=f"Interval between attempts to acquire or renew the Lease (2s). {_DEPRECATED}",
)
@click.option("--leader-elect-resource-lock", help=f"Kind of lock, only `leases`. {_DEPRECATED}")
@click.option("--leader-elect-resource-name", help=f"Name of the Lease (b8b2488c.x-k8s.io). {_DEPRECATED}")
@click.option("--metrics-bind-address", help=f"Address of /metrics (:8443), `0` for none. {_DEPRECATED}")
@click.option(
    "--metrics-per-set", type=_BOOLEAN, help="Metrics of each set by itself (true), else their sums."
)
@click.option("--debug-bind-address", help="Loopback address of /debug, such as 127.0.0.1:6060 (none).")
@click.option("--feature-gates", help="Features to switch on or off, such as WorkloadAwareScheduling=true.")
@click.option(
    "--webhook-shutdown-delay", help="Time for which reviews are still answered after SIGTERM (0s)."
)
@click.option(
    "--health-probe-bind-address", help=f"Address of the probes (:8081), `0` for none. {_DEPRECATED}"
)
@click.option("--zap-devel", type=_BOOLEAN, help="true: level debug; false: JSON and fewer stack traces.")
@click.option("--zap-encoder", type=click.Choice(ENCODERS), help="Log format.")
@click.option(
    "--zap-log-level",
    callback=_log_level,
    help="debug, info, error, panic or a positive number (default: info; debug with --zap-devel=true).",
)
@click.option(
    "--zap-stacktrace-level", type=click.Choice(STACKTRACE_LEVELS), help="Stack traces from this level on."
)
@click.option(
    "--zap-time-encoding", type=click.Choice(TIME_ENCODINGS), default="rfc3339", help="Timestamp format."
)
def manager(**flags: Any) -> int:
    """Run the controller and its webhooks."""
    if flags.pop("version"):
        build_date, commit = os.environ.get("LWS_BUILD_DATE", "N/A"), os.environ.get("LWS_GIT_COMMIT", "N/A")
        click.echo(f"v{__version__}\n{build_date}\n{commit}")
        return 0
    if sys.platform == "win32":
        raise click.ClickException(
            "the manager runs on Linux and macOS only, its image on Linux; other commands run on Windows too"
        )
    options = LogOptions(
        devel=flags.pop("zap_devel"),
        encoder=flags.pop("zap_encoder"),
        level=flags.pop("zap_log_level"),
        stacktrace_level=flags.pop("zap_stacktrace_level"),
        time_encoding=flags.pop("zap_time_encoding"),
    )
    kubeconfig = flags.pop("kubeconfig") or os.environ.get("KUBECONFIG") or None
    path = flags.pop("config")
    overrides = {name.replace("_", "-"): value for name, value in flags.items() if value is not None}
    settings = load(path, overrides, os.environ)
    configure(options)
    before_imports()
    # Imported late, because other subcommands need neither kopf nor the Kubernetes client.
    from lws.registrations import REGISTRATIONS
    from lws.runtime.manager import run

    start: Callable[[Coroutine[Any, Any, int]], int] = asyncio.run
    with suppress(ImportError):
        import uvloop

        start = uvloop.run
    after_imports()
    return start(run(settings, kubeconfig, REGISTRATIONS))


def as_double_dashed(arguments: Sequence[str], params: Iterable[click.Parameter]) -> list[str]:
    """Rewrite `-flag` to `--flag`, and a boolean `--flag` without a value to `--flag=true`.

    Unlike a boolean flag, any other takes the next argument as its value, even if it looks like a flag.
    """
    flags = {name: param.type for param in params for name in param.opts}
    result: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            return [*result, argument, *remaining]
        if argument.startswith("-") and not argument.startswith("--") and len(argument) > 2:
            argument = f"-{argument}"
        if isinstance(flags.get(argument), click.types.BoolParamType):
            argument = f"{argument}=true"
        result.append(argument)
        if argument in flags:
            result += itertools.islice(remaining, 1)
    return result


def overriding_flags(arguments: Sequence[str]) -> dict[str, object]:
    """Return the flags of a manager with these arguments that override its file: name → value.

    Unknown and malformed flags are left out.
    """
    context = manager.make_context(
        "manager",
        as_double_dashed(arguments, manager.params),
        resilient_parsing=True,
        ignore_unknown_options=True,
        allow_extra_args=True,
    )
    values = {name.replace("_", "-"): value for name, value in context.params.items()}
    return {name: value for name, value in values.items() if name in FLAGS and value is not None}


_NEW_OBJECTS = 10_000

# malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
# TLS is read into buffers of 256 KiB, twice for each message. Only larger buffers may cost system calls.
_LARGE_BYTES = 320 * 1024
_SPARE_BYTES = 512 * 1024


def before_imports() -> None:
    """Collect garbage less often, return large buffers once they are free, and allow more open files."""
    # Thousands of objects are created and freed, rarely in cycles. Fewer searches save 5 % of CPU time.
    gc.set_threshold(_NEW_OBJECTS)
    # glibc keeps large buffers for reuse after they are freed: 5 MB for pages of lists.
    # Other C libraries have no such call, and on Windows no C library can be loaded without a name.
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in (
            (_M_MMAP_THRESHOLD, _LARGE_BYTES),
            (_M_TRIM_THRESHOLD, _SPARE_BYTES),
            (_M_ARENA_MAX, 1),
        ):
            mallopt(parameter, value)
    _open_as_many_files_as_allowed()


def _open_as_many_files_as_allowed() -> None:
    """Raise the limit of open files to the maximum, as Go programs do.

    Often it is 1,024, which as many probe clients would exhaust; then the Lease could not be renewed.
    """
    # Windows has no such limit.
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def after_imports() -> None:
    """Exclude imported objects from garbage collection, which takes 50 ms for them and delays admission."""
    gc.freeze()


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The values of the zap flags; None for flags that are not given."""

    devel: bool | None = None
    encoder: str | None = None
    level: str | None = None
    stacktrace_level: str | None = None
    time_encoding: str = "rfc3339"


def level_of(text: str) -> int:
    """Return the level for the value of a flag: debug, info, error, panic, or a positive number.

    A larger number is more verbose. Raises ValueError for any other value.
    """
    if text.lower() in _LEVELS:
        return _LEVELS[text.lower()]
    if text.isascii() and text.isdecimal() and int(text) > 0:
        # Deployments have always passed 2. Upstream logs each of its steps only above that.
        return logging.DEBUG if int(text) > 2 else logging.INFO
    raise ValueError(f"{text!r} is no log level: use debug, info, error, panic or a positive number")


def configure(options: LogOptions) -> None:
    """Write the log to stderr from now on."""
    # Unlike zap, do not default to the level of development: at debug, each pass writes several lines.
    level = logging.DEBUG if options.devel else logging.INFO
    stacktraces = logging.ERROR if options.devel is False else logging.WARNING
    if options.level is not None:
        level = level_of(options.level)
    if options.stacktrace_level is not None:
        stacktraces = _LEVELS[options.stacktrace_level]
    encoder = options.encoder or ("json" if options.devel is False else "console")
    handler = logging.StreamHandler(sys.stderr)
    formatter = _Json if encoder == "json" else _Console
    handler.setFormatter(formatter(_TIMES[options.time_encoding], stacktraces))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # At debug, these libraries log every connection and request, which would hide all other lines.
    for noisy in ("aiohttp", "asyncio", "kubernetes"):
        logging.getLogger(noisy).setLevel(max(level, logging.INFO))


class _Console(logging.Formatter):
    """Formats lines with tabs: time, level, logger, message, and during a pass its fields as JSON."""

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
        """Return the logged exception in one line, and its stack trace if the level requests one."""
        if not record.exc_info or record.exc_info[1] is None:
            return "", ""
        error = "; ".join(line.strip() for line in traceback.format_exception_only(record.exc_info[1]))
        if record.levelno < self._stacktraces:
            return error, ""
        return error, "".join(traceback.format_exception(*record.exc_info)).rstrip()


class _Json(_Console):
    """Formats each record as one JSON object per line."""

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
