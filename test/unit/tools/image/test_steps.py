"""Long steps: progress output, error output, and no process that outlives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.image.steps import ImageError, Steps, reason_in, require_space
from tools.localcluster.progress import Progress


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        pytest.param("Get:1\nE: Unable to fetch x\n", "E: Unable to fetch x", id="apt"),
        pytest.param(
            "ERROR: no matching distribution\nerror building: exit status 1\n",
            "ERROR: no matching distribution",
            id="inner-failure",
        ),
        pytest.param(
            "tar: x: No space left on device\nexit status 2", "no space left on device: free some", id="full"
        ),
        pytest.param("one\n\nlast\n", "last", id="no-word-of-an-error"),
        pytest.param("", "exit code 7", id="nothing"),
    ],
)
def test_the_line_with_the_cause(output: str, reason: str) -> None:
    assert reason_in(output, 7) == reason


def test_a_failure_is_one_line_with_the_log_file(tmp_path: Path) -> None:
    seen: list[Progress] = []
    steps = Steps(tmp_path / "log", seen.append)
    steps.run("first", ["sh", "-c", "echo error of an earlier step"])
    with pytest.raises(ImageError) as failure:
        steps.run("unpack", ["sh", "-c", "echo some; echo E: broken >&2; exit 3"])
    assert str(failure.value) == f"unpack failed: E: broken (all of it: {tmp_path / 'log'})"
    assert [(progress.step, progress.finished) for progress in (seen[0], seen[-1])] == [
        ("first", False),
        ("unpack", False),
    ]


def test_a_short_command_returns_its_success(tmp_path: Path) -> None:
    steps = Steps(tmp_path / "log", lambda _: None)
    assert steps.succeeds(["true"]) and not steps.succeeds(["false"])


def test_an_interrupted_step_ends_its_process(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    steps = Steps(tmp_path / "log", interrupt)
    with pytest.raises(KeyboardInterrupt):
        steps.run("wait", ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"])
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_full_disk_is_reported_before_the_first_step(tmp_path: Path) -> None:
    require_space(tmp_path / "new", 1)
    with pytest.raises(ImageError, match=r"GB free, and the build needs 1000000000\.0 GB"):
        require_space(tmp_path, 10**18)
