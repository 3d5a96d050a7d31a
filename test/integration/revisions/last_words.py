"""A rule for the fault proxy that stops a manager at a certain write: only the writes before it pass.

The number of writes is given for each namespace.
"""

from __future__ import annotations

from collections.abc import Mapping

from test.harness.fault_proxy import Drop, Fault, ManagerRequest


class LastWords:
    """The last writes of one manager. Events do not count, because no decision depends on them."""

    def __init__(self, writes: Mapping[str, int]) -> None:
        self.spent: set[str] = set()
        """Namespaces with a write that the manager did not survive."""
        self._left = dict(writes)

    def __call__(self, request: ManagerRequest) -> Fault | None:
        if not request.is_write or "/events" in request.path:
            return None
        _, separator, suffix = request.path.partition("/namespaces/")
        namespace = suffix.partition("/")[0]
        if not separator or namespace not in self._left:
            return None
        if self._left[namespace] > 0:
            self._left[namespace] -= 1
            return None
        self.spent.add(namespace)
        return Drop()
