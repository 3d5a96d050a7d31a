"""`make image` itself: its output, what it leaves, and what a second run reuses. Run by `make test-image`.

Needs root and an image builder. Otherwise the tests are skipped, and the reason names what is missing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.image.__main__ import RESULTS, bill_beside, cache_directory
from tools.image.archive import Image, read_image
from tools.image.builders import Machine, choose_builder, choose_platforms
from tools.image.steps import LackingError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Built:
    """The result of one `make image`."""

    output: str
    commit: str
    archive: Path
    image: Image
    mounts_before: int
    mounts_after: int


def build() -> Built:
    before, head = mounts(), ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-m", "tools.image"],
        cwd=ROOT,
        env={**os.environ, "PLATFORMS": choose_platforms(Machine())[0][-1]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (archive,) = re.findall(r"^\S+ for \S+: (\S+), \d+ MB$", done.stdout, re.MULTILINE)
    return Built(done.stdout, commit, ROOT / archive, read_image(ROOT / archive), before, mounts())


def mounts() -> int:
    return Path("/proc/self/mounts").read_text().count("\n")


@pytest.fixture(scope="module")
def built() -> Built:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        choose_builder(Machine(), os.environ.get("BUILDER", ""))
    except LackingError as error:
        pytest.skip(str(error))
    return build()


def test_the_image_is_of_this_commit_and_has_a_bill_of_materials(built: Built) -> None:
    revision = built.image.config["config"]["Labels"]["org.opencontainers.image.revision"]
    assert revision.removesuffix("-dirty") == built.commit
    assert bill_beside(built.archive).exists()


def test_a_second_build_reuses_the_base_and_leaves_nothing_behind(built: Built) -> None:
    again = build()
    assert "base from Debian packages" not in again.output and "base: archive" not in again.output
    assert (again.mounts_before, again.mounts_after) == (built.mounts_before, built.mounts_before)
    assert sorted(path.name for path in cache_directory().glob(".*")) == []
    processes = subprocess.run(
        ["pgrep", "--full", str(cache_directory())], capture_output=True, text=True
    ).stdout.split()
    assert processes == []
    # Logs of the engines' image, and archives of other versions and platforms, may be in the same folder.
    assert {path.suffix for path in RESULTS.iterdir()} == {".json", ".log", ".tar"}
