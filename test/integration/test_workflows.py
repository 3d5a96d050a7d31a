"""The workflows are valid for GitHub, and call make targets that exist. Needs no cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tools.localcluster.build import cache_directory, ensure_built
from tools.localcluster.progress import LinePrinter
from tools.localcluster.recipe import Target
from tools.release.places import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
_ACTIONLINT = Target(
    name="actionlint",
    module=ROOT / "tools" / "release" / "go" / "actionlint",
    package="github.com/rhysd/actionlint/cmd/actionlint",
    linker_flags="-s -w",
    programs=("actionlint",),
)


def faults(directory: Path = WORKFLOWS) -> list[str]:
    """Return the faults in the workflows of a directory.

    Raise BuildError or NoGoError if they cannot be checked.
    """
    program = ensure_built(_ACTIONLINT, cache_directory(os.environ), LinePrinter()) / "actionlint"
    # Neither tool is installed everywhere, and findings must not depend on them.
    command: list[str | Path] = [program, "-no-color", "-oneline", "-shellcheck=", "-pyflakes="]
    paths = sorted(directory.glob("*.yaml"))
    done = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def test_actionlint_finds_nothing() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("correct", "mistaken", "fault"),
    [
        ("runs-on: ubuntu-24.04\n", "runs-on: ubuntu-nowhere\n", "ubuntu-nowhere"),
        ("needs: [names, test, image, artifacts]", "needs: [names, tests, image, artifacts]", "needs job"),
        ("${{ steps.image.outputs.digest }}", "${{ steps.images.outputs.digest }}", "images"),
    ],
    ids=["runner", "job", "step"],
)
def test_actionlint_finds_mistakes(tmp_path: Path, correct: str, mistaken: str, fault: str) -> None:
    text = (WORKFLOWS / "release.yaml").read_text()
    assert correct in text
    (tmp_path / "release.yaml").write_text(text.replace(correct, mistaken, 1))
    shutil.copy(WORKFLOWS / "ci.yaml", tmp_path)
    assert any(fault in message for message in faults(tmp_path))


def test_the_image_name_is_lower_case_for_an_owner_with_capitals(tmp_path: Path) -> None:
    text = (WORKFLOWS / "release.yaml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    (step,) = jobs["names"]["steps"]
    output = tmp_path / "output"
    environment = {"GITHUB_REPOSITORY_OWNER": "Some-Body", "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-e", "-c", step["run"]], env=environment, check=True)
    assert output.read_text() == "image=ghcr.io/some-body/lws\ncharts=ghcr.io/some-body/charts\n"
    assert "github.repository_owner" not in text
    for name, job in jobs.items():
        uses = "$IMAGE" in str(job.get("steps"))
        assert ("IMAGE" in job.get("env", {})) == uses, name


def test_every_make_target_of_a_workflow_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called: set[str] = set()
    for path in WORKFLOWS.glob("*.yaml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job.get("steps", []):
                called |= set(re.findall(r"\bmake ([a-z0-9-]+)", step.get("run", "")))
            called |= set(job.get("strategy", {}).get("matrix", {}).get("target", []))
    assert called - targets == set()
    assert {"lint", "test-unit", "test-integration", "test-e2e", "image", "release"} <= called


def test_releases_do_not_depend_on_the_workflow_for_kind() -> None:
    needed = (WORKFLOWS / "release.yaml").read_text() + (WORKFLOWS / "ci.yaml").read_text()
    assert "CLUSTER=kind" in (WORKFLOWS / "kind.yaml").read_text()
    assert "kind" not in re.findall(r"[\w-]+", needed)


def test_every_action_is_pinned_by_its_commit() -> None:
    """A tag can be moved to other code; the version in the comment is for readers."""
    used = [
        line.partition("uses:")[2].strip()
        for path in sorted(WORKFLOWS.glob("*.yaml"))
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert len(used) > 20
    loose = [
        action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action)
    ]
    assert {action for action in loose if not action.startswith("./")} == set()
    names = {action.partition("@")[0]: action for action in used}
    assert {action for action in used if "@" in action} == set(names.values()) - {
        "./.github/workflows/ci.yaml"
    }
