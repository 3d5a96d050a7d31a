"""tools.chartvalues: every value once, with its default and its meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.chartvalues import BEGIN, END, Value, main, table, values

SCHEMA: dict[str, Any] = {
    "properties": {
        "a": {"description": "First | see [b](docs/b.md).", "type": "string"},
        "b": {
            "description": "Not a value.",
            "properties": {
                "c": {"description": "Has a default."},
                "d": {"description": "Has none."},
            },
        },
    }
}
DEFAULTS = {"a": "", "b": {"c": [443, 6443]}}


def test_values_are_the_leaves_of_the_schema() -> None:
    assert list(values(SCHEMA, DEFAULTS)) == [
        Value("a", '""', "First | see [b](docs/b.md)."),
        Value("b.c", "[443, 6443]", "Has a default."),
        Value("b.d", None, "Has none."),
    ]


def test_the_table_is_markdown_whose_links_lead_out_of_the_chart() -> None:
    assert table(SCHEMA, DEFAULTS).splitlines()[2:] == [
        '| `a` | `""` | First \\| see [b](../../docs/b.md). |',
        "| `b.c` | `[443, 6443]` | Has a default. |",
        "| `b.d` | – | Has none. |",
    ]


def test_a_value_without_a_description_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"b\.c has no description"):
        list(values({"properties": {"b": {"properties": {"c": {}}}}}, {}))


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "values.schema.json").write_text('{"properties": {"a": {"description": "One."}}}')
    (tmp_path / "values.yaml").write_text("a: 1\n")
    (tmp_path / "README.md").write_text(f"before\n{BEGIN}old\n{END}after\n")
    return tmp_path


def test_only_what_is_between_the_marks_is_written(chart: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"], chart) == 1
    assert "run `python -m tools.chartvalues`" in capsys.readouterr().err
    assert main([], chart) == 0
    text = (chart / "README.md").read_text()
    assert text.startswith(f"before\n{BEGIN}") and text.endswith(f"| `a` | `1` | One. |\n\n{END}after\n")
    assert main(["--check"], chart) == 0


def test_a_readme_without_marks_is_an_error(chart: Path) -> None:
    (chart / "README.md").write_text("nothing here\n")
    with pytest.raises(ValueError, match="no place for the table"):
        main([], chart)
