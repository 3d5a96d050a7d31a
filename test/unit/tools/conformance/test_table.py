"""tools.conformance.__main__: validation of the rows of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.conformance.__main__ import Row, proofs_of, read_table

TEXT = """
fields:
  - {name: spec.size, what: pods, test: "a.py::test_b"}
  - {name: spec.new, test: "a.py::test_b", added: true}
differences:
  - {what: "It is so, because.", test: "a.py::test_a"}
"""


def test_rows(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(TEXT)
    table = read_table(tmp_path / "table.yaml")
    assert table == {
        "fields": (Row("spec.size", "pods", "a.py::test_b"), Row("spec.new", "", "a.py::test_b", True)),
        "differences": (Row("", "It is so, because.", "a.py::test_a"),),
    }
    assert proofs_of(table) == ["a.py::test_a", "a.py::test_b"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("fields: [{name: spec.size}]", id="no test"),
        pytest.param("differences: [{test: 'a.py::test_a'}]", id="no reason"),
        pytest.param("fields: [{name: a, test: b, tests: c}]", id="unknown key"),
    ],
)
def test_invalid_rows_are_rejected_with_their_number(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.yaml").write_text(text)
    with pytest.raises(ValueError, match="a row needs"):
        read_table(tmp_path / "table.yaml")
