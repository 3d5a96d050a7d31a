"""What a scraper would read of one series."""

from __future__ import annotations

from prometheus_client import CollectorRegistry


def value_of(registry: CollectorRegistry, name: str, /, **labels: str) -> float:
    """The value of the sample with this name and these labels; AssertionError where there is none."""
    value = registry.get_sample_value(name, labels)
    assert value is not None, f"{name} with {labels} is not there"
    return value
