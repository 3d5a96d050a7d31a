"""The sizes that the rolling update of the Deployment controller (Kubernetes 1.37) gives its ReplicaSets.

The new ReplicaSet grows within the surge. Old ones shrink as far as availability allows, pods that are not
ready first. Nothing is scaled in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.kube.quantities import scaled


def sizes_after(
    spec: Mapping[str, Any], newest: str, sizes: Mapping[str, int], ready: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of pods that each ReplicaSet gets.

    spec: that of the Deployment. newest: the ReplicaSet of its template; any other name if there is none.
    sizes: their present numbers, by name. ready: how many of these pods are ready.
    """
    counts = dict(sizes)
    desired, rolling = spec["replicas"], spec["strategy"]["rollingUpdate"]
    if spec.get("paused"):
        for name in sorted(counts, key=lambda candidate: -counts[candidate])[:1]:
            counts[name] += desired - sum(counts.values())
        return counts
    surge = scaled(rolling["maxSurge"], desired, True)
    unavailable = scaled(rolling["maxUnavailable"], desired, False)
    old = sum(count for name, count in counts.items() if name != newest)
    counts[newest] = max(0, min(desired, desired + surge - old))
    least = desired - (unavailable or (0 if surge else 1))
    room = sum(counts.values()) - least - max(counts[newest] - ready[newest], 0)
    olds = [name for name in counts if name != newest] if room > 0 else []
    for name in olds:
        broken = max(min(room, counts[name] - ready[name]), 0)
        counts[name] -= broken
        room -= broken
    room = sum(ready.values()) - least
    for name in olds:
        sound = max(min(room, counts[name]), 0)
        counts[name] -= sound
        room -= sound
    return counts
