"""A separate cluster for evictions, whose nodes no other test drains."""

from __future__ import annotations

from test.harness.fixtures import audit, pods, product, pytest_runtest_makereport, world

__all__ = ["audit", "pods", "product", "pytest_runtest_makereport", "world"]
