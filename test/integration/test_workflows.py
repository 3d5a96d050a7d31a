"""Are the workflows written as GitHub reads them, and do they call make targets that exist? No cluster."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tools.release.places import ROOT
from tools.release.workflows import faults

WORKFLOWS = ROOT / ".github" / "workflows"


def test_actionlint_finds_nothing() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("correct", "mistaken", "fault"),
    [
        ("runs-on: ubuntu-24.04\n", "runs-on: ubuntu-nowhere\n", "ubuntu-nowhere"),
        ("needs: [test, image, artifacts]", "needs: [tests, image, artifacts]", "needs job"),
        ("${{ steps.image.outputs.digest }}", "${{ steps.images.outputs.digest }}", "images"),
    ],
    ids=["runner", "job", "step"],
)
def test_actionlint_finds_mistakes(tmp_path: Path, correct: str, mistaken: str, fault: str) -> None:
    text = (WORKFLOWS / "release.yaml").read_text()
    assert correct in text
    (tmp_path / "release.yaml").write_text(text.replace(correct, mistaken, 1))
    shutil.copy(WORKFLOWS / "ci.yaml", tmp_path)
    assert any(fault in each for each in faults(tmp_path))


def test_every_target_that_they_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called: set[str] = set()
    for path in WORKFLOWS.glob("*.yaml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job.get("steps", []):
                called |= set(re.findall(r"\bmake ([a-z0-9-]+)", step.get("run", "")))
            called |= set(job.get("strategy", {}).get("matrix", {}).get("target", []))
    assert called - targets == set()
    assert {"lint", "test-unit", "test-integration", "test-e2e", "image", "release"} <= called
