"""Read the chart's templates without rendering them.

Directives are removed; text that a directive would insert is `X`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "lws"
TEMPLATES = CHART / "templates"

_WHOLE_LINE = re.compile(r"^\s*\{\{.*\}\}\s*$", re.MULTILINE)
_WITHIN_LINE = re.compile(r"\{\{.*?\}\}")


def stripped(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a template, with every optional part."""
    text = _WITHIN_LINE.sub("X", _WHOLE_LINE.sub("", path.read_text()))
    return [document for document in yaml.safe_load_all(text) if document]


def all_text() -> str:
    """Return the text of every template and partial; of generated CRDs only the directives."""
    paths = [*TEMPLATES.rglob("*.yaml"), *TEMPLATES.rglob("*.tpl"), *TEMPLATES.rglob("*.txt")]
    texts = [(path.parent.name == "crds", path.read_text()) for path in paths]
    return "\n".join("\n".join(_WHOLE_LINE.findall(text)) if large else text for large, text in texts)
