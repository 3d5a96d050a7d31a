"""test.unit.docs.inventory: names that are found in sources."""

from __future__ import annotations

import ast

import pytest

from test.unit.docs.inventory import strings_passed_to


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("say(x, 'A')", {"A"}, id="constant"),
        pytest.param("say(x, reason='A', note='B')", {"A"}, id="keyword"),
        pytest.param("A = 'B'\ndef f(): say(x, A)", {"B"}, id="constant of a module"),
        pytest.param("def f():\n  a = 'B' if x else 'C'\n  say(x, a)", {"B", "C"}, id="one or the other"),
        pytest.param("say(x, a.reason)", set(), id="known at run time only"),
        pytest.param("other(x, 'A')", set(), id="another call"),
    ],
)
def test_strings_passed_to_a_function_are_found(source: str, expected: set[str]) -> None:
    assert strings_passed_to([ast.parse(source)], {"say": 1}) == expected


def test_a_name_may_come_from_another_module() -> None:
    assert strings_passed_to([ast.parse("A = 'B'"), ast.parse("from a import A\nsay(x, A)")], {"say": 1}) == {
        "B"
    }
