"""Read the metrics of a process in the Prometheus text format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Scrape:
    """The metrics of one process at one moment."""

    series: Mapping[tuple[str, Labels], float]

    def total(self, name: str, /, **labels: str) -> float:
        """Return the sum over all series of a name with these labels."""
        required = frozenset(labels.items())
        return sum(value for (its, has), value in self.series.items() if its == name and required <= has)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return sums over all series of a name, by the values of one label."""
        result: dict[str, float] = {}
        for (its, labels), value in self.series.items():
            key = dict(labels).get(label)
            if its == name and key is not None:
                result[key] = result.get(key, 0.0) + value
        return result

    def since(self, before: Scrape) -> Scrape:
        """Return the increase since an earlier scrape, for counters and histograms."""
        return Scrape({key: value - before.series.get(key, 0.0) for key, value in self.series.items()})

    def quantile(self, name: str, share: float, /, **labels: str) -> float | None:
        """Return the seconds below which this share of observations is, or None without observations.

        The value is interpolated linearly between two buckets.
        """
        required = frozenset(labels.items())
        buckets: dict[float, float] = {}
        for (its, has), value in self.series.items():
            if its == f"{name}_bucket" and required <= has:
                bound = float(dict(has)["le"])
                buckets[bound] = buckets.get(bound, 0.0) + value
        bounds = sorted(buckets)
        if not bounds or not buckets[bounds[-1]]:
            return None
        rank, low, below = share * buckets[bounds[-1]], 0.0, 0.0
        for bound in bounds:
            if buckets[bound] >= rank:
                if bound == float("inf"):
                    return low
                inside = buckets[bound] - below
                return low + (bound - low) * (rank - below) / inside if inside else bound
            low, below = bound, buckets[bound]
        return low


def parse(text: str) -> Scrape:
    """Parse the text, without comments and values that are not numbers."""
    series = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is not None:
            name, labels, value = match.groups()
            series[(name, frozenset(_LABEL.findall(labels or "")))] = float(value)
    return Scrape(series)
