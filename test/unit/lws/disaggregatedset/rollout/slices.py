"""Builders of slices for tests: counts by role, in the order of the roles' names."""

from __future__ import annotations

from lws.disaggregatedset.rollout.state import Count, RevisionCounts, RoleTarget, SliceState
from tools.simulation import start

NAMES = tuple("xyzw")


def ready(replicas: int, initial: int | None = None) -> Count:
    """Return the count of a settled child."""
    return Count(replicas, replicas, replicas, True, initial)


def broken(replicas: int, working: int = 0, initial: int | None = None, on_top: int = 0) -> Count:
    """Return the count of a child with `working` ready groups."""
    return Count(replicas, replicas, working, False, initial, on_top)


def starting(replicas: int, working: int = 0, on_top: int = 0, failed: int = 0) -> Count:
    """Return the count of a child whose other groups may become ready at any moment.

    The `failed` groups, at consecutive indices from the top, may not.
    """
    unready = replicas - working
    on_top = max(on_top, failed)
    return Count(replicas, replicas, working, False, replicas, on_top, unready - failed, failed)


def roles(
    targets: tuple[int, ...], surge: tuple[int, ...] = (), unavailable: tuple[int, ...] = ()
) -> tuple[RoleTarget, ...]:
    surge, unavailable = surge or (1,) * len(targets), unavailable or (0,) * len(targets)
    numbers = zip(NAMES, targets, surge, unavailable, strict=False)
    return tuple(RoleTarget(name, t, s, u) for name, t, s, u in numbers)


def revision(key: str, *counts: Count | int) -> RevisionCounts:
    """Return a revision. A whole number stands for a settled child that had as many groups at the start."""
    children = (ready(count, count) if isinstance(count, int) else count for count in counts)
    return RevisionCounts(key, dict(zip(NAMES, children, strict=False)))


def beginning(initial: tuple[int, ...], targets: tuple[RoleTarget, ...]) -> SliceState:
    """Return a settled slice, before anything of the target revision exists."""
    return start(targets, dict(zip(NAMES, initial, strict=False)))
