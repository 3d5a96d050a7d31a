"""Report before anything takes long that a control plane runs on Linux only."""

from __future__ import annotations

import ctypes
import signal
import sys

_PARENT_DEATH_SIGNAL = 1


class NotLinuxError(RuntimeError):
    """This machine runs another system."""


def require_linux(platform: str | None = None) -> None:
    """Raises NotLinuxError anywhere else: parts of the local control plane need the kernel of Linux."""
    platform = platform or sys.platform
    if platform != "linux":
        raise NotLinuxError(
            f"the local control plane runs on Linux only, and this is {platform}: use a Linux machine, "
            f"virtual machine or container, or CLUSTER=existing for integration tests on a cluster of yours"
        )


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent ends, however it ends (prctl(2))."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number)
