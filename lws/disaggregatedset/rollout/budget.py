"""Read how many groups of a role a rollout may add, and how many may be unavailable.

Percentages of the surge are rounded up, of `maxUnavailable` down. A value that cannot be read counts as 0:
admission refuses it, but an older definition may have stored it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube import quantities


@dataclass(frozen=True, slots=True)
class RoleBudget:
    surge: int
    unavailable: int


DEFAULT = RoleBudget(surge=1, unavailable=0)
"""Of roles that say nothing, or nothing that a rollout could move with; of removed roles too."""


def budget_of(rolling: Mapping[str, Any] | None, target: int) -> RoleBudget:
    """The budget of a role that is to have `target` groups."""
    if not isinstance(rolling, Mapping):
        return DEFAULT
    surge = max(0, _scaled(rolling.get("maxSurge"), target, round_up=True))
    unavailable = max(0, _scaled(rolling.get("maxUnavailable"), target, round_up=False))
    if unavailable or surge:
        return RoleBudget(surge, unavailable)
    return DEFAULT


def _scaled(value: object, target: int, round_up: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    try:
        return quantities.scaled(value, target, round_up)
    except ValueError:
        return 0
