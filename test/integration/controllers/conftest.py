"""Fixtures for tests of the controllers: one product for all, a namespace for each."""

from __future__ import annotations

import pytest

from test.harness.fixtures import (
    audit,
    pods,
    product,
    pytest_runtest_makereport,
    shared_world,
    world,
)
from test.harness.product import Product

__all__ = ["audit", "pods", "product", "pytest_runtest_makereport", "shared_world", "world"]


@pytest.fixture(autouse=True)
def _manager_runs(product: Product) -> None:
    product.ensure_running()
