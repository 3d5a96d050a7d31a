"""tools.release.places: a release is built from files that git does not ignore."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.release.places import ReleaseError, commit_time, copy_source, put_in, run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    for name in ("kept", "gone", "new", "ignored"):
        (root / name).write_text(name)
    (root / ".gitignore").write_text("ignored\n")
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "-q"], ["add", "kept", "gone", ".gitignore"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    (root / "gone").unlink()
    return root


def test_ignored_files_are_excluded(repository: Path, tmp_path: Path) -> None:
    copy_source(tmp_path / "copy", repository)
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [".gitignore", "kept", "new"]
    assert int(commit_time(repository)) > 0


def test_a_failed_command_reports_its_output(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="not a git repository"):
        copy_source(tmp_path / "copy", tmp_path)
    with pytest.raises(ReleaseError, match="no-such-program: No such file"):
        run(["no-such-program"], tmp_path)


@pytest.mark.parametrize(
    ("repository_name", "expected"),
    [("", "repository: localhost/lws\n"), ("r.example.com/lws", "repository: r.example.com/lws\n")],
)
def test_the_image_repository_is_inserted(tmp_path: Path, repository_name: str, expected: str) -> None:
    values = tmp_path / "charts" / "lws" / "values.yaml"
    values.parent.mkdir(parents=True)
    values.write_text("repository: localhost/lws\n")
    put_in(tmp_path, repository_name)
    assert values.read_text() == expected


def test_a_chart_without_its_place_is_an_error(tmp_path: Path) -> None:
    values = tmp_path / "charts" / "lws" / "values.yaml"
    values.parent.mkdir(parents=True)
    values.write_text("repository: other\n")
    with pytest.raises(ReleaseError, match="no place for the repository"):
        put_in(tmp_path, "r.example.com/lws")
