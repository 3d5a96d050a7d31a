"""lws.kube.field_errors: the text of validation errors."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.field_errors import (
    FieldError,
    aggregate,
    forbidden,
    invalid,
    not_supported,
    rendered,
    required,
    too_many,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a", '"a"', id="string"),
        pytest.param('say "x" \\', r'"say \"x\" \\"', id="quotes and backslash"),
        pytest.param("a\tb\nc\r\x00\x7f", r'"a\tb\nc\r\x00\x7f"', id="control characters"),
        pytest.param("é 東", '"é 東"', id="printable beyond ASCII"),
        pytest.param("\u200b\ud800", r'"\u200b\ud800"', id="unprintable beyond ASCII"),
        pytest.param("\U000e0001", r'"\U000e0001"', id="unprintable beyond 16 bits"),
        pytest.param("é" * 10**6, '"' + "é" * 8192 + '…"', id="shortened"),
        pytest.param(-1, "-1", id="number"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(None, "null", id="null"),
        pytest.param({"b": 1, "a": ["x"]}, '{"a":["x"],"b":1}', id="object"),
    ],
)
def test_rendered(value: Any, expected: str) -> None:
    assert rendered(value) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            invalid("spec.replicas", -1, "too few"), "spec.replicas: Invalid value: -1: too few", id="number"
        ),
        pytest.param(invalid("a.b", "x%", "no"), 'a.b: Invalid value: "x%": no', id="string"),
        pytest.param(required("a.b", "give one"), "a.b: Required value: give one", id="required"),
        pytest.param(forbidden("a.b", 1, "not here"), "a.b: Forbidden: not here", id="forbidden"),
        pytest.param(
            not_supported("a.b", "x", ("y", "")),
            'a.b: Unsupported value: "x": supported values: "y", ""',
            id="not supported",
        ),
        pytest.param(
            too_many("spec.roles", 11, 10),
            "spec.roles: Too many: 11: must have at most 10 items",
            id="too many, as the API server says it",
        ),
    ],
)
def test_field_error(error: FieldError, expected: str) -> None:
    assert str(error) == expected


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        pytest.param([invalid("a", 1, "x")], "a: Invalid value: 1: x", id="one alone"),
        pytest.param(
            [invalid("b", 1, "x"), required("a", "y")],
            "[b: Invalid value: 1: x, a: Required value: y]",
            id="several in order",
        ),
        pytest.param(
            [invalid("a", 1, "x"), invalid("a", 1, "x")], "a: Invalid value: 1: x", id="equal ones once"
        ),
    ],
)
def test_aggregate(errors: list[FieldError], expected: str) -> None:
    assert aggregate(errors) == expected
