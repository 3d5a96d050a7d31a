"""Return the samples of one series as a scraper would read them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry


def value_of(registry: CollectorRegistry, name: str, /, **labels: str) -> float:
    """Return the value of the sample with this name and labels. Raise AssertionError if there is none."""
    value = registry.get_sample_value(name, labels)
    assert value is not None, f"{name} with {labels} is not there"
    return value
