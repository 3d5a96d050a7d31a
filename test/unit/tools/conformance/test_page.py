"""tools.conformance.__main__: rows of the page."""

from __future__ import annotations

from tools.conformance.__main__ import Row, page_of


def test_what_the_original_lacks_has_a_table_of_its_own() -> None:
    rows = (Row("spec.new", "", "t.py::test_b", True), Row("spec.size", "pods", "t.py::test_a"))
    page = page_of({"fields": rows, "differences": (Row("", "So it is.", "t.py::test_a"),)})
    assert "runs these 2 tests" in page
    assert "## Fields\n\n| Field | Meaning |\n| --- | --- |\n| `spec.size` | pods |\n" in page
    assert "### Fields that upstream lacks\n\n`spec.new`\n" in page
    assert page.endswith("## Deliberate differences\n\n- So it is.\n")
    assert "t.py" not in page
