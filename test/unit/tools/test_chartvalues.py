"""tools.chartvalues: every value is listed once, with its default and its meaning."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools.chartvalues import (
    BEGIN,
    CHART,
    END,
    PAGE,
    Value,
    configuration,
    main,
    settings_table,
    table,
    values,
)

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


def test_the_table_is_markdown_with_absolute_links() -> None:
    assert table(SCHEMA, DEFAULTS).splitlines()[2:] == [
        '| `a` | `""` | First \\| see [b](../../docs/b.md). |',
        "| `b.c` | `[443, 6443]` | Has a default. |",
        "| `b.d` | – | Has none. |",
    ]


def test_a_value_without_a_description_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"b\.c has no description"):
        list(values({"properties": {"b": {"properties": {"c": {}}}}}, {}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    chart, page = tmp_path / CHART, tmp_path / PAGE
    chart.mkdir(parents=True)
    page.parent.mkdir(parents=True)
    values_schema = {"a": {"description": "One."}, "configuration": {"properties": {"former": {}}}}
    (chart / "values.schema.json").write_text(json.dumps({"properties": values_schema}))
    (chart / "values.yaml").write_text("a: 1\n")
    for file in (chart / "README.md", page):
        file.write_text(f"before\n{BEGIN}old\n{END}after\n")
    return tmp_path


def test_only_text_between_the_markers_is_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"], root) == 1
    assert "run `python -m tools.chartvalues`" in capsys.readouterr().err
    assert main([], root) == 0
    text = (root / CHART / "README.md").read_text()
    assert text.startswith(f"before\n{BEGIN}") and text.endswith(f"\n{END}after\n")
    assert "| `a` | `1` | One. |\n| `configuration.leaderElection.leaseDuration` | – | How long" in text
    assert main(["--check"], root) == 0


def test_a_readme_without_markers_is_an_error(root: Path) -> None:
    (root / CHART / "README.md").write_text("nothing here\n")
    with pytest.raises(ValueError, match="no place for the table"):
        main([], root)


def test_the_schema_has_only_keywords_supported_by_helm() -> None:
    sections = configuration()
    assert sections["tls"]["properties"]["minVersion"]["enum"] == ["VersionTLS12", "VersionTLS13"]
    shards = sections["sharding"]["properties"]["shards"]
    assert (shards["type"], shards["minimum"], shards["maximum"]) == ("integer", 1, 64)
    assert sections["leaderElection"]["properties"].keys() == {
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
    }
    assert sections["nodeLoss"]["properties"]["after"]["$ref"] == "#/definitions/duration"
    assert "webhook" not in sections


def test_defaults_match_the_manager() -> None:
    defaults = dict(re.findall(r"^\| `([\w.]+)` \| (\S+) \|", settings_table(), re.MULTILINE))
    assert defaults["leaderElection.leaseDuration"] == "`15s`"
    assert (defaults["webhook.host"], defaults["metrics.perSet"]) == ('`""`', "`true`")
    assert (defaults["sharding.shards"], defaults["tls.cipherSuites"]) == ("–", "`[]`")
