"""Which roles of which slices find no room on any node, or are kept from looking for it?

In: children, with what their pods wait for. Out: a line for each, for the status; and when to look again,
because no event says that a pod has waited for long.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lws import timing
from lws.disaggregatedset.snapshot import ChildFacts
from lws.kube.pods import NodeWait


def without_nodes(children: Iterable[ChildFacts], now: datetime) -> tuple[str, ...]:
    """By slice and role, those with a pod that has waited for long and still does, and what for."""
    found = {
        (each.slice_index, each.role, _awaited(wait))
        for each in children
        for wait in each.waits
        if wait.until is None and now - wait.since >= timing.NODE_WAIT_IS_LONG
    }
    return tuple(
        f"slice {index}: role {role}: pods wait for {awaited}" for index, role, awaited in sorted(found)
    )


def look_again(children: Iterable[ChildFacts]) -> float | None:
    """Seconds; None where every group serves."""
    is_awaited = any(each.ready < each.wanted for each in children)
    return timing.NODE_WAIT_IS_LONG.total_seconds() if is_awaited else None


def _awaited(wait: NodeWait) -> str:
    return f"scheduling gate {wait.gate}" if wait.gate else "nodes"
