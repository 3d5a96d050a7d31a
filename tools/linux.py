"""Report before anything takes long that a control plane runs on Linux only."""

from __future__ import annotations

import sys


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
