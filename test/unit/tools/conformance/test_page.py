"""tools.conformance.__main__: rows of the page."""

from __future__ import annotations

from tools.conformance.__main__ import Row, page_of


def test_only_what_upstream_lacks_is_listed() -> None:
    rows = (Row("spec.new", "", "t.py::test_b", True), Row("spec.size", "pods", "t.py::test_a"))
    page = page_of({"fields": rows, "differences": (Row("", "So it is.", "t.py::test_a"),)})
    assert "spec.size" not in page
    assert "## Fields that upstream lacks\n\n`spec.new`\n" in page
    assert page.endswith("## Deliberate differences\n\n- So it is.\n")
    assert "t.py" not in page
