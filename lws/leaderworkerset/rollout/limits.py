"""What may a rollout of this set use up?

In: what the set asks for. Out: its limits as whole numbers, percentages taken of `replicas`.
"""

from __future__ import annotations

from lws.leaderworkerset.rollout.state import Budget, budget
from lws.leaderworkerset.spec import SetSpec


def budget_of(spec: SetSpec) -> Budget:
    """How many groups may be missing and how many may come on top."""
    return budget(spec.replicas, spec.unavailable_groups or 0, spec.surge_groups or 0)


def statefulset_max_unavailable(spec: SetSpec) -> int:
    """What the StatefulSet is told, where it listens: at least 1 (StatefulSet API), the surge on top."""
    return max(1, (spec.unavailable_groups or 0) + (spec.surge_groups or 0))
