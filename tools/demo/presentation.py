"""Answers: what does somebody who starts the demo get to see, from the first line to the last?

In: an example or the tour, and whether to end after it. Out: an exit code, and nothing left behind.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

from rich.console import Console

from tools.demo.example import Example
from tools.demo.exhibit import run_example
from tools.demo.live import LiveShow
from tools.demo.manifest import read_manifest
from tools.demo.mirror import NotInTime
from tools.demo.plain import PlainShow
from tools.demo.scene import Scene, set_up
from tools.demo.show import Show
from tools.demo.tour import MANIFEST, Result, run_tour
from tools.deployment import DeploymentError
from tools.localcluster import (
    ApiError,
    BuildError,
    CommandError,
    ComponentError,
    NoGoError,
    UnknownVersionError,
)

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
    UnknownVersionError,
)


def present(once: bool, example: Example | None = None) -> int:
    """Play the example or the tour, stay unless `once`, take all down: 0 if every check held, else 1."""
    show = choose_show()
    try:
        with set_up(show) as scene:
            result = run_tour(scene, show) if example is None else run_example(scene, show, example)
            show.tell(["", *verdict(result)])
            if not once:
                _stay(scene, show, example)
        return 0 if result.is_good else 1
    except BrokenPipeError:
        # Nobody reads any more; the interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _EXPECTED as error:
        show.fail(f"error: {error}")
        return 1
    finally:
        show.close()


def verdict(result: Result) -> list[str]:
    """The tour in one line, and the claims that did not hold."""
    if result.is_good:
        return [f"All {result.checks} checks held."]
    return [f"{len(result.failed)} of {result.checks} checks did not hold:", *result.failed]


def invitation(kubeconfig: Path, programs: Path, example: Example | None = None) -> list[str]:
    """How to use the cluster from another terminal, each command on a line of its own."""
    access = [
        "",
        "The cluster stays up. In another terminal:",
        "",
        f"export KUBECONFIG={kubeconfig}",
        f"export PATH={programs}:$PATH",
        "",
    ]
    if example is not None:
        return [*access, *example.comment, ""]
    name = read_manifest(MANIFEST.read_text("utf-8")).name
    return [
        *access,
        "Three things to try; watch here what they do:",
        "",
        f"kubectl apply -f {os.path.relpath(MANIFEST)}",
        f"kubectl delete pod {name}-2-1",
        f"kubectl describe lws {name}",
        "",
    ]


def _stay(scene: Scene, show: Show, example: Example | None) -> None:
    """Here Ctrl-C is the way to end, not a way to break off."""
    programs = scene.cluster.binary("kubectl").parent
    show.tell(invitation(scene.cluster.kubeconfig, programs, example))
    show.wait_for("Ctrl-C, which ends and removes everything")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def choose_show() -> Show:
    """Control codes are for terminals only; what a stream cannot encode must not end the demo."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveShow(Console())
    return PlainShow(sys.stdout)
