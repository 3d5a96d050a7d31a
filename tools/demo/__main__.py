"""Answers: how is the demo started? Run as `python -m tools.demo [--once]`.

In: the command line and signals. Out: 0 if every check held, 1 if not or if something is missing, 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Never

from rich.console import Console

from tools.demo.live import LiveShow
from tools.demo.mirror import NotInTime
from tools.demo.plain import PlainShow
from tools.demo.scene import Scene, set_up
from tools.demo.show import Show
from tools.demo.tour import MANIFEST, Result, run_tour
from tools.deployment import DeploymentError
from tools.localcluster import ApiError, BuildError, CommandError, ComponentError, NoGoError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 128 + signal.SIGINT
# What tells by its message alone what is wrong.
_EXPECTED = (
    ApiError,
    BuildError,
    CommandError,
    ComponentError,
    DeploymentError,
    NoGoError,
    NotInTime,
    OSError,
)


def main() -> int:
    """Play the tour, stay if asked to, and take everything down."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.demo", description="Show a LeaderWorkerSet live on a control plane of its own."
    )
    parser.add_argument("--once", action="store_true", help="end after the tour instead of staying up")
    once = parser.parse_args().once
    with _ended_by_signals():
        show = _choose_show()
        try:
            return _present(show, once)
        except KeyboardInterrupt:
            return _INTERRUPTED
        except BrokenPipeError:
            # Nobody reads any more; the interpreter would complain when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except _EXPECTED as error:
            show.fail(f"error: {error}")
            return 1
        finally:
            show.close()


def _present(show: Show, once: bool) -> int:
    with set_up(show) as scene:
        result = run_tour(scene, show)
        show.tell(["", _verdict(result)])
        if not once:
            _stay(scene, show)
    return 0 if result.is_good else 1


def _stay(scene: Scene, show: Show) -> None:
    """Say what can be tried, and wait; here Ctrl-C is the way to end, not a way to break off."""
    kubectl = scene.cluster.binary("kubectl")
    show.tell(
        [
            "",
            "The cluster stays up. In another terminal:",
            "",
            f"export KUBECONFIG={scene.cluster.kubeconfig}",
            f"export PATH={kubectl.parent}:$PATH",
            "",
            "Three things to try; watch here what they do:",
            "",
            f"kubectl apply -f {os.path.relpath(MANIFEST)}",
            "kubectl delete pod quickstart-2-1",
            "kubectl describe lws quickstart",
            "",
        ]
    )
    show.wait_for("Ctrl-C, which ends and removes everything")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def _verdict(result: Result) -> str:
    if result.is_good:
        return f"All {result.checks} checks held."
    return f"{result.failed} of {result.checks} checks did not hold."


def _choose_show() -> Show:
    """Control codes are for terminals only."""
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveShow(Console())
    return PlainShow(sys.stdout)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """The first signal ends what runs in this block; further ones must not disturb the cleaning up."""

    def end(number: int, _: FrameType | None) -> Never:
        for each in _SIGNALS:
            signal.signal(each, lambda *_: None)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    former = {each: signal.signal(each, end) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


if __name__ == "__main__":
    sys.exit(main())
