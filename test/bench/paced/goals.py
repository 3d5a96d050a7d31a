"""Targets for how fully a rollout uses its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OF_IDEAL, UTILISATION = 0.97, 0.95


@dataclass(frozen=True)
class AtLeast:
    """One figure with its minimum."""

    measure: str
    figure: float
    least: float

    @property
    def holds(self) -> bool:
        return self.figure >= self.least


def paced_verdicts(figures: Mapping[str, Any]) -> tuple[AtLeast, ...]:
    """Return every verdict on one rollout."""
    return (
        AtLeast("of the ideal", figures["of_ideal"], OF_IDEAL),
        AtLeast("utilisation", figures["utilisation"], UTILISATION),
    )
