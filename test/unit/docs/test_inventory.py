"""test.unit.docs.inventory and tools.conformance: what is found in sources, and which tests are not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from test.unit.docs.inventory import said_in
from tools.conformance.__main__ import missing_tests


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("say(x, 'A')", {"A"}, id="constant"),
        pytest.param("say(x, reason='A', note='B')", {"A"}, id="keyword"),
        pytest.param("A = 'B'\ndef f(): say(x, A)", {"B"}, id="constant of a module"),
        pytest.param("def f():\n  a = 'B' if x else 'C'\n  say(x, a)", {"B", "C"}, id="one or the other"),
        pytest.param("say(x, a.reason)", set(), id="known at run time only"),
        pytest.param("other(x, 'A')", set(), id="another call"),
    ],
)
def test_said_in(source: str, said: set[str]) -> None:
    assert said_in([ast.parse(source)], {"say": 1}) == said


def test_a_name_may_come_from_another_module() -> None:
    assert said_in([ast.parse("A = 'B'"), ast.parse("from a import A\nsay(x, A)")], {"say": 1}) == {"B"}


def test_tests_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_b(): ...\nasync def test_c(): ...\n")
    named = ["test_a.py::test_b", "test_a.py::test_c", "test_a.py::test_d", "test_b.py::test_b"]
    assert missing_tests(named, tmp_path) == ["test_a.py::test_d", "test_b.py::test_b"]
