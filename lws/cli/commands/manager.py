"""`lws manager`: flags and configuration file in, the controller running.

In: flags under the names of the original manager. Out: the exit code of the process.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import click

from lws import __version__
from lws.cli.logs import ENCODERS, STACKTRACE_LEVELS, TIME_ENCODINGS, LogOptions, configure, level_of
from lws.config import load

_DEPRECATED = "Better set in the configuration file."


def _log_level(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            level_of(value)
        except ValueError as error:
            raise click.BadParameter(str(error), param=param) from error
    return value


@click.command(context_settings={"auto_envvar_prefix": None})
@click.option(
    "--config", help="Configuration file (config.lws.x-k8s.io/v1alpha1); built-in defaults without one."
)
@click.option(
    "--kubeconfig", help="Access from outside a cluster; $KUBECONFIG without it, then the pod's own account."
)
@click.option("--version", "version", type=bool, help="Print version, build date and commit, then exit.")
@click.option("--kube-api-qps", type=float, help="Requests per second to the API server (500).")
@click.option("--kube-api-burst", type=int, help="Requests at once to the API server (500).")
@click.option("--leader-elect", type=bool, help="Act only while holding the Lease (true).")
@click.option(
    "--leader-elect-lease-duration", help=f"How long others wait for a silent holder (15s). {_DEPRECATED}"
)
@click.option(
    "--leader-elect-renew-deadline", help=f"When a holder that cannot renew stops (10s). {_DEPRECATED}"
)
@click.option("--leader-elect-retry-period", help=f"How often the Lease is tried (2s). {_DEPRECATED}")
@click.option("--leader-elect-resource-lock", help=f"Kind of lock, only `leases`. {_DEPRECATED}")
@click.option("--leader-elect-resource-name", help=f"Name of the Lease (b8b2488c.x-k8s.io). {_DEPRECATED}")
@click.option("--metrics-bind-address", help=f"Address of /metrics (:8443), `0` for none. {_DEPRECATED}")
@click.option("--metrics-per-set", type=bool, help="Metrics of each set by itself (true), else their sums.")
@click.option("--debug-bind-address", help="Loopback address of /debug, such as 127.0.0.1:6060 (none).")
@click.option("--webhook-shutdown-delay", help="How long reviews are still answered after SIGTERM (0s).")
@click.option(
    "--health-probe-bind-address", help=f"Address of the probes (:8081), `0` for none. {_DEPRECATED}"
)
@click.option(
    "--zap-devel",
    type=bool,
    default=True,
    help="Development logging: console lines, level debug, stack traces (default: true).",
)
@click.option("--zap-encoder", type=click.Choice(ENCODERS), help="How log lines look.")
@click.option(
    "--zap-log-level",
    callback=_log_level,
    help="debug, info, error, panic or a positive number (default: debug; info with --zap-devel=false).",
)
@click.option(
    "--zap-stacktrace-level", type=click.Choice(STACKTRACE_LEVELS), help="Stack traces from this level on."
)
@click.option(
    "--zap-time-encoding", type=click.Choice(TIME_ENCODINGS), default="rfc3339", help="How times look."
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
    given = {name.replace("_", "-"): value for name, value in flags.items() if value is not None}
    settings = load(path, given, os.environ)
    configure(options)
    before_imports()
    # Imported late: other subcommands need neither kopf nor the client.
    from lws.registrations import REGISTRATIONS
    from lws.runtime.manager import run

    start = _event_loop()
    after_imports()
    return start(run(settings, kubeconfig, REGISTRATIONS))


def _event_loop() -> Callable[[Coroutine[Any, Any, int]], int]:
    """What runs the manager: uvloop where there is one, else the event loop of Python."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


_NEW_OBJECTS = 10_000

# malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
# TLS is read into 256 KiB at a time, twice for each message: what is larger may cost system calls, that not.
_LARGE_BYTES = 320 * 1024
_SPARE_BYTES = 512 * 1024


def before_imports() -> None:
    """Look for garbage less often, give large buffers back as soon as they are free, have as many files as
    the system lets.
    """
    # Objects come and go by the thousand and hardly ever in circles: to look for those less often saves
    # 5 % of the CPU time.
    gc.set_threshold(_NEW_OBJECTS)
    # Once a large buffer was freed, glibc keeps the place of those to come: 5 MB for pages of lists.
    # Other C libraries have no such call, and Windows no C library without a name.
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
    """As every Go program does: many container runtimes begin with 1,024, which as many callers of a probe
    could use up, and then nobody renews the Lease.
    """
    # Windows has no such limits.
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def after_imports() -> None:
    """What is imported stays: to look through all of it takes 50 ms, in which no review is answered."""
    gc.freeze()
