"""tools.release.places: one version everywhere, and one command that changes it."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

import lws
import lws_api
from tools.release.places import HOME, NUMBER, PLACES, ROOT, Place, found, main, version, write


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the files with places, and nothing else."""
    for place in PLACES:
        (tmp_path / place.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place.path, tmp_path / place.path)
    return tmp_path


def test_every_place_has_the_same_version() -> None:
    assert version() == lws.__version__ == lws_api.__version__


def test_the_version_is_above_every_version_of_upstream() -> None:
    """Otherwise `helm list` and GitOps tools would show the handover as a downgrade."""
    assert int(version().split(".")[0]) > 1000


def test_all_places_change_together(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["2027.1.0"], copy) == 0
    assert capsys.readouterr().out == "2027.1.0\n"
    assert all(versions == {"2027.1.0"} for versions in found(copy).values())
    for place in PLACES:
        assert version() not in (copy / place.path).read_text(), place.path
    write(version(), copy)
    for place in PLACES:
        assert (copy / place.path).read_bytes() == (ROOT / place.path).read_bytes()


@pytest.mark.parametrize("new", ["v2027.1.0", "2027.1", "2027.1.0rc1", "latest"])
def test_an_invalid_version_is_rejected(copy: Path, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([new], copy) == 1
    assert "is no version: three numbers" in capsys.readouterr().err


def test_a_differing_or_missing_place_is_reported(copy: Path) -> None:
    chart = copy / "charts" / "lws" / "Chart.yaml"
    text = chart.read_text()
    chart.write_text(text.replace(f'appVersion: "{version()}"', 'appVersion: "1.0.0"'))
    with pytest.raises(ValueError, match=r"charts/lws/Chart\.yaml: 1\.0\.0"):
        version(copy)
    chart.write_text(text.replace("appVersion", "other"))
    with pytest.raises(ValueError, match=r"charts/lws/Chart\.yaml: nothing"):
        version(copy)


def test_a_pattern_matches_only_the_version() -> None:
    place = Place("a", rf"lws-({NUMBER})-linux")
    assert place.pattern.count("(") == 1


def test_both_packages_name_the_home_of_the_project() -> None:
    for path in ("pyproject.toml", "api/pyproject.toml"):
        project = tomllib.loads((ROOT / path).read_text())["project"]
        assert {url.split("#")[0].removesuffix("/issues") for url in project["urls"].values()} == {HOME}
        assert project["license"] == "Apache-2.0"
    assert f"home: {HOME}\n" in (ROOT / "charts" / "lws" / "Chart.yaml").read_text()


def test_both_packages_carry_the_licence() -> None:
    assert (ROOT / "api" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_controller_requires_the_api_of_its_release() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"lws-api=={version()}" in dependencies
