"""tools.localcluster.versions: the Kubernetes version that $K8S selects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.localcluster.versions import DEFAULT, RELEASES, UnknownVersionError, chosen_minor, number_of

REPOSITORY = Path(__file__).resolve().parents[4]


def test_the_newest_is_the_default() -> None:
    assert chosen_minor({}) == chosen_minor({"K8S": ""}) == DEFAULT == list(RELEASES)[-1]


@pytest.mark.parametrize("minor", RELEASES)
def test_a_known_version_is_used(minor: str) -> None:
    assert chosen_minor({"K8S": minor}) == minor
    assert RELEASES[minor].rpartition(".")[0] == minor


def test_versions_have_the_order_of_their_numbers() -> None:
    assert sorted(["1.37", "1.9", *RELEASES], key=number_of) == ["1.9", *RELEASES, "1.37"]


@pytest.mark.parametrize("minor", ["1.2", "1.29", "v1.32", "1.32.2", "latest"])
def test_an_unknown_version_is_rejected_with_a_list_of_known_ones(minor: str) -> None:
    message = f"K8S={minor}: the local cluster can be one of 1.30, 1.32, 1.34, 1.36, 1.37"
    with pytest.raises(UnknownVersionError, match=f"^{message}$"):
        chosen_minor({"K8S": minor})


def test_all_are_listed() -> None:
    done = command("--known-versions", K8S="")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, list(RELEASES), "")


@pytest.mark.parametrize("arguments", [(), ("--known-versions",), ("--build-only",)])
def test_one_line_for_an_unknown_version(arguments: tuple[str, ...]) -> None:
    done = command(*arguments, K8S="1.7")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: K8S=1.7: the local cluster can be one of 1.30, 1.32, 1.34, 1.36, 1.37\n"


def command(*arguments: str, K8S: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.localcluster", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "K8S": K8S},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
