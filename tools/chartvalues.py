"""Write the files that follow from the models of the manager's configuration and from the schema of the
chart's values.

From the models: `configuration` in the chart's values.schema.json, and the table in
docs/reference/configuration.md. From the schema and values.yaml: the table in the chart's README.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lws_api.config.v1alpha1 import Configuration
from tools import generated

ROOT = Path(__file__).resolve().parent.parent
CHART, PAGE = Path("charts/lws"), Path("docs/reference/configuration.md")
BEGIN, END = "<!-- values: begin -->\n", "<!-- values: end -->\n"
OF_THE_CHART = frozenset(
    [
        *("apiVersion", "kind", "webhook", "health", "internalCertManagement"),
        *("featureGates", "gangSchedulingManagement", "metrics.bindAddress", "leaderElection.leaderElect"),
        *("leaderElection.resourceLock", "leaderElection.resourceName", "leaderElection.resourceNamespace"),
    ]
)
"""Keys of the configuration file that the chart sets itself, from other values."""
_NO_DEFAULT = "–"


@dataclass(frozen=True)
class Value:
    """A value that users may set: dotted path, default as JSON (None for no default) and meaning."""

    path: str
    default: str | None
    meaning: str


def values(schema: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> Iterator[Value]:
    """Yield every value, in the order of the schema. Raises ValueError if a value is not described.

    An object whose keys the schema lists is not a value, but its keys are.
    """
    for key, part in schema["properties"].items():
        path = f"{prefix}{key}"
        if "properties" in part:
            yield from values(part, defaults.get(key, {}), f"{path}.")
            continue
        if not part.get("description"):
            raise ValueError(f"values.schema.json: {path} has no description")
        default = json.dumps(defaults[key], ensure_ascii=False) if key in defaults else None
        yield Value(path, default, part["description"])


def table(schema: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return the Markdown table of values. Its links lead from the chart's folder into the repository."""
    rows = ["| Key | Default | Meaning |", "| --- | --- | --- |"]
    for value in values(schema, defaults):
        default = _NO_DEFAULT if value.default is None else f"`{value.default}`"
        meaning = value.meaning.replace("](docs/", "](../../docs/").replace("|", "\\|")
        rows.append(f"| `{value.path}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def sections() -> dict[str, dict[str, Any]]:
    """Return the schema of each section of the configuration file. Raises ValueError for a stray setting."""
    models = Configuration.model_json_schema(mode="serialization")
    sections = {}
    for key, part in models["properties"].items():
        references = [part, *part.get("anyOf", ())]
        name = next((ref["$ref"].rpartition("/")[2] for ref in references if "$ref" in ref), None)
        if name is not None:
            sections[key] = models["$defs"][name]
        elif key not in OF_THE_CHART:
            raise ValueError(f"{key}: settings must be in a section")
    return sections


def configuration() -> dict[str, Any]:
    """Return the schema of the sections and keys that users may set in the chart's `configuration`."""
    properties = {}
    for section, schema in sections().items():
        keys = {
            key: _value_schema(part)
            for key, part in schema["properties"].items()
            if OF_THE_CHART.isdisjoint((section, f"{section}.{key}"))
        }
        if keys:
            closed = {"type": "object", "additionalProperties": False}
            properties[section] = {**closed, "description": schema["description"], "properties": keys}
    return properties


def _value_schema(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value without keywords that Helm cannot use."""
    described = {"description": " ".join(part["description"].split())}
    if part.get("format") == "duration":
        return {"$ref": "#/definitions/duration", **described}
    keywords = {
        key: part[key] for key in ("type", "enum", "items", "minimum", "maximum", "pattern") if key in part
    }
    return {**keywords, **described}


def settings_table() -> str:
    """Return the table of all keys in Markdown, for a page in docs/reference."""
    rows = ["| Key | Default | Meaning and limits |", "| --- | --- | --- |"]
    for section, schema in sections().items():
        for key, part in schema["properties"].items():
            default = f"`{_default(part)}`" if "default" in part else _NO_DEFAULT
            meaning = " ".join(part["description"].split()).removesuffix(".")
            for folder, link in (("docs/reference/", ""), ("docs/", "../")):
                meaning = meaning.replace(f"]({folder}", f"]({link}")
            rows.append(f"| `{section}.{key}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _default(part: Mapping[str, Any]) -> str:
    """As YAML has it: text that would be read as a number, or is empty, in quotes."""
    default = part["default"]
    return default if isinstance(default, str) and default and not default.isdigit() else json.dumps(default)


def files(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of each file, by path. Raises ValueError if a file has no place for its table."""
    schema = json.loads((root / CHART / "values.schema.json").read_text(encoding="utf-8"))
    schema["properties"]["configuration"]["properties"] = configuration()
    defaults = yaml.safe_load((root / CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        CHART / "values.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        CHART / "README.md": _with_table(root / CHART / "README.md", table(schema, defaults)),
        PAGE: _with_table(root / PAGE, settings_table()),
    }


def _with_table(page: Path, markdown: str) -> str:
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: no place for the table, between {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{markdown}\n{END}{after}"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line, and return the exit code."""
    source = "the models and the schema"
    return generated.main("tools.chartvalues", lambda: files(root), source, arguments, root)


if __name__ == "__main__":
    sys.exit(main())
