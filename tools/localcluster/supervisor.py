"""Answers: what happens when a component dies by itself. It is started again, as a node's kubelet would do.

In: the components. Out: those that were healthy once and ended unasked run again. The scheduler, for example,
ends itself when an answer that was lost with the API server has left its cache wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from tools.localcluster.component import Component

_INTERVAL_SECONDS = 0.5


class Supervisor:
    """Looks after components in a thread of its own from `start` to `stop`."""

    def __init__(self, components: Iterable[Component]) -> None:
        self._components = tuple(components)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="localcluster-supervisor", daemon=True)

    def start(self) -> None:
        """Begin to look after the components."""
        self._thread.start()

    def stop(self) -> None:
        """Return once no component will be started any more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            for component in self._components:
                component.revive()
