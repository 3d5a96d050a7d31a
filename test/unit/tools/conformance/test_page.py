"""tools.conformance.__main__: rows of the page."""

from __future__ import annotations

from tools.conformance.__main__ import Row, page_of


def test_the_page_lists_additional_features_and_names() -> None:
    rows = (Row("spec.new", "", "t.py::test_b", True), Row("spec.size", "pods", "t.py::test_a"))
    labels = (Row("example.com/new", "", "t.py::test_b", True), Row("example.com/name", "", "t.py::test_a"))
    page = page_of({"fields": rows, "labels": labels, "differences": (Row("", "So it is.", "t.py::test_a"),)})
    assert "spec.size" not in page
    assert "## Fields that upstream lacks\n\n`spec.new`\n" in page
    assert "## Labels\n\n`example.com/name`\n" in page
    assert "## Labels that upstream lacks\n\n`example.com/new`\n" in page
    assert page.endswith("## Deliberate differences\n\n- So it is.\n")
    assert "t.py" not in page
