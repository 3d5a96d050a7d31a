"""Fixtures for tests of revisions: the API server to compare templates, the product to record them."""

from __future__ import annotations

from test.harness.fixtures import (
    api,
    audit,
    product,
    pytest_runtest_makereport,
    world,
)

__all__ = ["api", "audit", "product", "pytest_runtest_makereport", "world"]
