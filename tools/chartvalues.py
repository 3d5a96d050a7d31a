"""Write the table of the chart's values into its README, from values.schema.json and values.yaml."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools import generated

CHART = Path(__file__).resolve().parent.parent / "charts" / "lws"
BEGIN, END = "<!-- values: begin -->\n", "<!-- values: end -->\n"
_NO_DEFAULT = "–"


@dataclass(frozen=True)
class Value:
    """What a user may set: its dotted path, what it is without (None: nothing), and what it means."""

    path: str
    default: str | None
    meaning: str


def values(schema: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> Iterator[Value]:
    """Every value, in the order of the schema. Raises ValueError where one is not described.

    An object whose keys the schema lists is not a value, its keys are.
    """
    for key, part in schema["properties"].items():
        path = f"{prefix}{key}"
        if "properties" in part:
            inner = defaults.get(key, {})
            yield from values(part, inner, f"{path}.")
            continue
        if not part.get("description"):
            raise ValueError(f"values.schema.json: {path} has no description")
        default = json.dumps(defaults[key], ensure_ascii=False) if key in defaults else None
        yield Value(path, default, part["description"])


def table(schema: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The table in Markdown; links lead from the chart's folder to documents of the repository."""
    rows = ["| Key | Default | Meaning |", "| --- | --- | --- |"]
    for value in values(schema, defaults):
        default = _NO_DEFAULT if value.default is None else f"`{value.default}`"
        meaning = value.meaning.replace("](docs/", "](../../docs/").replace("|", "\\|")
        rows.append(f"| `{value.path}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def readme(chart: Path = CHART) -> str:
    """The README as it should be. Raises ValueError where it has no place for the table."""
    text = (chart / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{chart / 'README.md'}: no place for the table, between {BEGIN!r} and {END!r}")
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    return f"{before}{BEGIN}\n{table(schema, defaults)}\n{END}{after}"


def main(arguments: list[str] | None = None, chart: Path = CHART) -> int:
    """The command line; returns the exit code."""
    return generated.main(
        "tools.chartvalues", lambda: {Path("README.md"): readme(chart)}, "the schema", arguments, chart
    )


if __name__ == "__main__":
    sys.exit(main())
