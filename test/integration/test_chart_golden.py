"""The chart renders exactly the golden objects.

For each file in charts/values, and for each values file that the documents offer, the expected objects are in
charts/golden. CRDs are not among them: they are generated and have tests of their own. `UPDATE_GOLDEN=1`
rewrites the golden files; read `git diff` then.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from test.integration.release import ROOT, HelmAlone, Object, render

HERE = Path(__file__).parent / "charts"
VALUES = sorted(
    [*(HERE / "values").glob("*.yaml"), *(ROOT / "docs" / "start").glob("values-*.yaml")],
    key=lambda path: path.name,
)


def text_of(objects: list[Object]) -> str:
    """Return the objects in an order that does not depend on helm."""
    ordered = sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"]))
    return yaml.safe_dump_all(ordered, sort_keys=True, width=120)


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_chart_renders_the_golden_objects(values: Path, tmp_path: Path) -> None:
    arguments = ("--values", str(values), "--set", "crds.enabled=false")
    rendered = text_of(render(HelmAlone(tmp_path), *arguments))
    golden = HERE / "golden" / values.name
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(rendered)
    assert rendered == golden.read_text()


def test_every_golden_file_has_a_values_file() -> None:
    assert [path.name for path in sorted((HERE / "golden").iterdir())] == [path.name for path in VALUES]
