"""Fixtures for tests of takeovers: one manager for all, which does not act while another holds the Lease."""

from __future__ import annotations

from test.harness.fixtures import (
    api,
    audit,
    product,
    pytest_runtest_makereport,
    world,
)

__all__ = ["api", "audit", "product", "pytest_runtest_makereport", "world"]
