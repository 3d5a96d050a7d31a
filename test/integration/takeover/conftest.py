"""Fixtures for tests of takeovers: one manager, which is not active while the test holds the Lease."""

from __future__ import annotations

from test.harness.fixtures import (
    api,
    audit,
    pods,
    product,
    pytest_runtest_makereport,
    world,
)

__all__ = ["api", "audit", "pods", "product", "pytest_runtest_makereport", "world"]
