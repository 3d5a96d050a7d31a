"""lws.cli.facts.ages: how long ago, in short."""

from __future__ import annotations

import pytest

from lws.cli.facts.ages import age, short
from test.unit.builders import NOW


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3599, "59m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600 + 300, "8h"),
        (47 * 3600, "47h"),
        (2 * 86400, "2d"),
        (2 * 86400 + 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (1000 * 86400, "1000d"),
    ],
)
def test_short(seconds: int, expected: str) -> None:
    assert short(seconds) == expected


def test_age() -> None:
    assert age("2026-03-01T11:59:55Z", NOW) == "5s"
    assert age("2026-03-01T12:59:55+01:00", NOW) == "5s"
    assert (age(None, NOW), age("", NOW)) == ("<unknown>", "<unknown>")
    assert (age("garbage", NOW), age("0001-01-01T00:00:00+14:00", NOW)) == ("<unknown>", "<unknown>")
