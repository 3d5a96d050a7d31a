"""Tests of lws.leaderworkerset.admission.validation: whole numbers and percentages."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.admission.validation import amount_errors

PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


@pytest.mark.parametrize("amount", [0, 1, 10**9, "0%", "100%", "0000000100%"])
def test_valid_amounts_are_accepted(amount: int | str) -> None:
    assert amount_errors("spec.x", amount) == []


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (-1, "spec.x: Invalid value: -1: must be greater than or equal to 0"),
        ("5", f'spec.x: Invalid value: "5": {PERCENT}'),
        ("-5%", f'spec.x: Invalid value: "-5%": {PERCENT}'),
        ("101%", 'spec.x: Invalid value: "101%": must not be greater than 100%'),
        ("1000%", 'spec.x: Invalid value: "1000%": must not be greater than 100%'),
    ],
)
def test_invalid_amounts_are_rejected(amount: int | str, expected: str) -> None:
    assert [str(error) for error in amount_errors("spec.x", amount)] == [expected]


def test_a_number_of_any_length_is_read() -> None:
    assert len(amount_errors("spec.x", "9" * 10_000 + "%")) == 1
