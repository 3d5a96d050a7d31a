"""test.bench.paced.cases: names of rollouts with slow pods, and how long their pods take to start."""

from __future__ import annotations

from collections import Counter

import pytest

from test.bench.manifests import NEW
from test.bench.paced.cases import ALL, DEFAULT, is_paced, parse_cases
from test.bench.paced.startups import ANNOTATION, FIXED, INSTANT, TAIL, UNIFORM

FIRST = [12.0, 16.0, 11.25, 11.0]


def test_a_case_is_parsed_from_its_name() -> None:
    (case,) = parse_cases("1x40x4-uniform")
    assert (case.unavailable, case.surge, case.budget, case.startup) == (4, 0, 4, UNIFORM)
    assert list(case.order) == list(reversed(range(40)))
    limits = case.spec["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert limits == {"maxUnavailable": 4, "maxSurge": 0}


def test_a_surge_replaces_max_unavailable() -> None:
    (case,) = parse_cases("1x40x4-tail-surge2")
    assert (case.unavailable, case.surge, case.budget) == (0, 2, 2)
    assert list(case.order)[:3] == [41, 40, 39]


def test_all_cases_are_parsed() -> None:
    assert [case.name for case in parse_cases(ALL)] == list(DEFAULT)
    assert all(map(is_paced, (*DEFAULT, ALL)))
    assert not any(map(is_paced, ("1x400x4", "1x400x4-hash", "1x4x4-hash-ending", "ds2x2x2x2")))


@pytest.mark.parametrize(
    "text", ["1x40x4-", "1x40x4-often", "40-uniform", "1x40x4-uniform-surge", "2x4x4-tail"]
)
def test_invalid_cases_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"x|set"):
        parse_cases(text)


def test_only_leaders_start_slowly() -> None:
    (case,) = parse_cases("1x40x4-fixed")
    template = case.rolled(NEW)["spec"]["leaderWorkerTemplate"]
    assert template["leaderTemplate"]["metadata"]["annotations"] == {ANNOTATION: "12s"}
    assert "metadata" not in template["workerTemplate"]
    assert case.spec["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["annotations"] == {}


def test_the_start_of_a_pod_depends_on_its_name() -> None:
    """Every run has the same seconds, because nothing is drawn when a pod starts."""
    assert [UNIFORM.of(f"set-0-{index}") for index in range(4)] == FIRST
    assert (INSTANT.of("any"), FIXED.of("any")) == (0.0, 12.0)


def test_one_pod_in_twenty_is_slow() -> None:
    startups = Counter(TAIL.of(f"set-0-{index}") for index in range(400))
    assert set(startups) == {12.0, 60.0}
    assert 15 <= startups[60.0] <= 25


def test_neighbouring_pods_differ() -> None:
    startups = [UNIFORM.of(f"set-0-{index}") for index in range(100)]
    assert len(set(startups)) > 25
    assert (min(startups), max(startups)) == (8.0, 16.0)
    assert 11.0 < sum(startups) / len(startups) < 13.0
