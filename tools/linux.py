"""Require Linux, on which alone a control plane runs, before anything takes long. Control child processes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

_PARENT_DEATH_SIGNAL = 1
# `signal.SIGKILL`, which does not exist on Windows, where this module must be importable.
_KILL = 9


class NotLinuxError(RuntimeError):
    """This machine runs an operating system other than Linux."""


def require_linux(platform: str | None = None) -> None:
    """Raise NotLinuxError on any other system: parts of the local control plane need the kernel of Linux."""
    platform = platform or sys.platform
    if platform != "linux":
        raise NotLinuxError(
            f"the local control plane runs on Linux only, and this is {platform}: use a Linux machine, "
            f"virtual machine or container, or CLUSTER=existing for integration tests on a cluster of yours"
        )


def code_within(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """Return the exit code of a process that ends within this number of seconds; None if it does not."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def end_with_parent(number: int = _KILL) -> None:
    """Ask the kernel to send this process a signal when its parent ends, however it ends (prctl(2))."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number)
