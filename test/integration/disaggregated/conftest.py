"""Who runs while these tests run, and where does each work? One product for all, a namespace for each."""

from __future__ import annotations

from test.harness.fixtures import product, pytest_runtest_makereport, world

__all__ = ["product", "pytest_runtest_makereport", "world"]
