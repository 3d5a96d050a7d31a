"""Controller of LeaderWorkerSets and DisaggregatedSets: observe → plan → apply, with every decision pure."""

from __future__ import annotations

__version__ = "2026.11.0"
