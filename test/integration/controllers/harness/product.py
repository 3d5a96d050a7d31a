"""How does the product run in tests? The chart as a release, the manager as a process that may be killed.

In: a cluster. Out: a `Product` whose manager answers webhooks and acts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.deployment import Deployment, ManagerProcess
from tools.localcluster import ClusterAccess

# A killed manager leaves the Lease to its successor after this time; the defaults would have every restart wait 15 s.
QUICK_LEASE = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)


class Product:
    """A release and its manager."""

    def __init__(self, deployment: Deployment, *flags: str) -> None:
        self.deployment = deployment
        self.unexpected_ends = 0
        self._flags = flags
        self._stopped_by_us: set[int] = set()
        self.start()

    @property
    def manager(self) -> ManagerProcess:
        """The one started last."""
        return self.deployment.managers[-1]

    def start(self) -> ManagerProcess:
        """A new manager that is ready."""
        return self.deployment.start_manager(*self._flags)

    def kill(self) -> None:
        """SIGKILL: no last words, no release of the Lease."""
        self._stopped_by_us.add(self.manager.pid)
        self.manager.kill()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._stopped_by_us.add(self.manager.pid)
        return self.manager.stop()

    def restart(self) -> None:
        """An orderly end and a new manager."""
        self.stop()
        self.start()

    def ensure_running(self) -> None:
        """Whatever the test before has done: the next one has a manager."""
        if not self.manager.is_running:
            if self.manager.pid not in self._stopped_by_us:
                self.unexpected_ends += 1
            self.start()

    def log(self) -> str:
        """What all managers have logged."""
        paths = sorted(self.deployment.workspace.glob("manager-*.log"))
        return "".join(path.read_text(errors="replace") for path in paths)


@contextmanager
def running_product(cluster: ClusterAccess, workspace: Path, *arguments: str) -> Iterator[Product]:
    """The chart installed and one manager running; both go at the end. Further arguments go to helm."""
    deployment = Deployment(cluster, workspace)
    deployment.install(*arguments)
    try:
        yield Product(deployment, *QUICK_LEASE)
    finally:
        deployment.stop()
        deployment.uninstall()
