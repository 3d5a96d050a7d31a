"""One command builds every artifact of a release, and all of them name the image and the project.

Needs no cluster.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import yaml

from test.integration.release import HelmAlone, find, render
from tools.release.__main__ import CHECKSUMS, main, release
from tools.release.chart import KUSTOMIZE, MANIFESTS
from tools.release.places import HOME, run, version

VERSION = version()
IMAGE, ADDRESS = "registry.example.com/lws", "https://example.org/lws"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of `make release`, without the image, which test/node builds."""
    directory = tmp_path_factory.mktemp("release") / "dist"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TAG", f"v{VERSION}")
        environment.setenv("IMAGE_REPOSITORY", IMAGE)
        environment.setenv("PROJECT_URL", f"{ADDRESS}/")
        environment.setenv("WITHOUT_IMAGE", "1")
        release(directory)
    return directory


def test_every_artifact_exists(dist: Path) -> None:
    assert sorted(path.name for path in dist.iterdir()) == [
        CHECKSUMS,
        "krew-lws.yaml",
        f"kubectl-lws-{VERSION}.tar.gz",
        KUSTOMIZE,
        f"lws-chart-{VERSION}.tgz",
        f"lws-kustomize-{VERSION}.tar.gz",
        f"lws_api-{VERSION}-py3-none-any.whl",
        f"lws_api-{VERSION}.tar.gz",
        f"lws_controller-{VERSION}-py3-none-any.whl",
        f"lws_controller-{VERSION}.tar.gz",
        MANIFESTS,
    ]


def test_the_checksums_match_the_files(dist: Path) -> None:
    run(["sha256sum", "--check", "--strict", "--quiet", CHECKSUMS], dist)
    listed = {line.split("  ")[1] for line in (dist / CHECKSUMS).read_text().splitlines()}
    files = {path.relative_to(dist).as_posix() for path in dist.rglob("*") if path.is_file()}
    assert listed == files - {CHECKSUMS}


def test_the_packaged_chart_renders_with_the_image_of_the_release(dist: Path, tmp_path: Path) -> None:
    objects = render(HelmAlone(tmp_path), chart=dist / f"lws-chart-{VERSION}.tgz")
    (manager,) = find(objects, "Deployment", "lws-controller-manager")["spec"]["template"]["spec"][
        "containers"
    ]
    assert manager["image"] == f"{IMAGE}:{VERSION}"
    assert f"image: {IMAGE}:{VERSION}\n" in (dist / MANIFESTS).read_text()


def test_the_packages_have_the_homepage_of_the_release(dist: Path) -> None:
    for name in ("lws_api", "lws_controller"):
        with zipfile.ZipFile(dist / f"{name}-{VERSION}-py3-none-any.whl") as wheel:
            metadata = wheel.read(f"{name}-{VERSION}.dist-info/METADATA").decode()
        assert f"Project-URL: Homepage, {ADDRESS}\n" in metadata and HOME not in metadata
    plugin = yaml.safe_load((dist / "krew-lws.yaml").read_text())["spec"]
    assert plugin["homepage"] == ADDRESS
    assert (
        plugin["platforms"][0]["uri"]
        == f"{ADDRESS}/releases/download/v{VERSION}/kubectl-lws-{VERSION}.tar.gz"
    )


def test_a_failed_release_reports_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TAG", "v0.0.1")
    assert main() == 1
    assert f"make release: tag v0.0.1, version {VERSION}" in capsys.readouterr().err
