"""Fixtures for tests of DisaggregatedSets: one product for all, a namespace for each."""

from __future__ import annotations

from test.harness.fixtures import api, product, pytest_runtest_makereport, shared_world, world

__all__ = ["api", "product", "pytest_runtest_makereport", "shared_world", "world"]
