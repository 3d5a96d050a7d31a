"""test.bench.scrape: values read from the Prometheus text format."""

from __future__ import annotations

import pytest

from test.bench.meter import objects_listed
from test.bench.scrape import parse

TEXT = """# HELP passes Passes.
passes_total{controller="set",result="success"} 4
passes_total{controller="set",result="error"} 1
passes_total{controller="pod",result="success"} 7.0
up 1
seconds_bucket{name="m",le="0.01"} 50
seconds_bucket{name="m",le="0.1"} 90
seconds_bucket{name="m",le="+Inf"} 100
seconds_bucket{name="other",le="+Inf"} 1000
"""


def test_sums() -> None:
    scrape = parse(TEXT)
    assert scrape.total("passes_total") == 12
    assert scrape.total("passes_total", controller="set") == 5
    assert scrape.total("nothing") == 0
    assert scrape.by("passes_total", "controller") == {"set": 5, "pod": 7}


def test_differences_between_scrapes() -> None:
    later = parse(TEXT.replace("} 4\n", "} 9\n") + 'passes_total{controller="new",result="success"} 2\n')
    assert later.since(parse(TEXT)).by("passes_total", "controller") == {"set": 5, "pod": 0, "new": 2}


@pytest.mark.parametrize(
    ("share", "seconds"),
    [
        pytest.param(0.25, 0.005, id="first-bucket"),
        pytest.param(0.5, 0.01, id="at-a-bound"),
        pytest.param(0.7, 0.055, id="between-bounds"),
        pytest.param(0.99, 0.1, id="beyond-the-last-bound"),
    ],
)
def test_quantiles(share: float, seconds: float) -> None:
    assert parse(TEXT).quantile("seconds", share, name="m") == pytest.approx(seconds)


def test_a_quantile_without_samples() -> None:
    assert parse(TEXT).quantile("seconds", 0.5, name="nobody") is None
    assert parse('seconds_bucket{le="+Inf"} 0').quantile("seconds", 0.5) is None


def test_lists_of_other_clients_are_ignored() -> None:
    listed = parse(
        'apiserver_cache_list_returned_objects_total{group="",resource="pods"} 371\n'
        'apiserver_cache_list_returned_objects_total{group="x",resource="leaderworkersets"} 2\n'
    )
    requests = {"list leaderworkersets": 1, "get pods": 3, "create pods": 9}
    assert objects_listed(listed, requests) == {"leaderworkersets": 2}
    assert objects_listed(listed, {"list pods": 1}) == {"pods": 371}
