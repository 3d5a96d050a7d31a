"""What may a rollout of this set use up, and how far down may it go?

In: a set. Out: its limits as whole numbers, percentages taken of `replicas`.
"""

from __future__ import annotations

from lws.actions import Object
from lws.kube import quantities
from lws.leaderworkerset import spec
from lws.leaderworkerset.rollout.state import Budget, budget


def budget_of(lws: Object) -> Budget:
    """How many groups may be missing and how many may come on top."""
    return budget(spec.replicas_of(lws), _unavailable(lws), _surge(lws))


def statefulset_max_unavailable(lws: Object) -> int:
    """What the StatefulSet is told, where it listens: at least 1 (StatefulSet API), the surge on top."""
    return max(1, _unavailable(lws) + min(_surge(lws), spec.replicas_of(lws)))


def floor_of(lws: Object) -> int:
    """Groups below this index keep their revision."""
    partition: int = spec.rolling_update_of(lws)["partition"]
    return max(0, partition)


def _unavailable(lws: Object) -> int:
    configured = spec.rolling_update_of(lws)["maxUnavailable"]
    return quantities.scaled(configured, spec.replicas_of(lws), round_up=False)


def _surge(lws: Object) -> int:
    return quantities.scaled(spec.rolling_update_of(lws)["maxSurge"], spec.replicas_of(lws), round_up=True)
