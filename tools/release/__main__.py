"""Create every artifact of a release in dist/: `make release`.

Optional variables: $TAG, the tag that is released; $IMAGE_REPOSITORY, the repository of the image;
$PROJECT_URL, the address of the project; $WITHOUT_IMAGE. If something cannot be built, the program prints one
line, exits with 1 and leaves dist/ unchanged.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from tools.image.__main__ import RESULTS, build_all
from tools.image.builders import Machine
from tools.image.steps import ImageError
from tools.localcluster.build import BuildError, NoGoError, find_programs
from tools.localcluster.progress import LinePrinter
from tools.release.chart import KUSTOMIZE, Chart, write_manifests
from tools.release.packages import PROGRAM, archive, build, checksums, files_below, manifest, plugin
from tools.release.places import ROOT, ReleaseError, commit_time, copy_source, home, put_in, version

DIST = ROOT / "dist"
CHECKSUMS = "SHA256SUMS"


def make(source: Path, target: Path, number: str, seconds: int) -> None:
    """Create every artifact from the files below `source`, except the images."""
    wheels = {path.name: path.read_bytes() for path in build(source, target, number, str(seconds))}
    packed = plugin(wheels, seconds)
    name = f"{PROGRAM}-{number}.tar.gz"
    (target / name).write_bytes(packed)
    (target / "krew-lws.yaml").write_text(manifest(name, packed, number, home(source)), encoding="utf-8")
    chart = Chart(source / "charts" / "lws", find_programs(["helm"], LinePrinter())["helm"])
    chart.package(target, number)
    write_manifests(chart, target)
    packed = archive(files_below(target / KUSTOMIZE), seconds)
    (target / f"lws-kustomize-{number}.tar.gz").write_bytes(packed)


def add_images(target: Path, number: str, repository: str) -> None:
    """Build the image for every platform that is possible here. Raises ImageError."""
    # Results of an earlier commit may be for a platform that is not possible now.
    for stale in RESULTS.glob(f"lws-{number}-*"):
        stale.unlink()
    tag = f"{repository}:{number}" if repository else os.environ.get("IMAGE", "")
    build_all(Machine(), os.environ.get("PLATFORMS", ""), tag)
    for suffix in ("tar", "cdx.json"):
        for file in RESULTS.glob(f"lws-{number}-*.{suffix}"):
            shutil.copy2(file, target / f"lws-image-{file.name.removeprefix('lws-')}")


def check_tag(tag: str, source: Path) -> None:
    """Raise ReleaseError if the tag does not match the version, or if the changelog has no date for it."""
    number = version(source)
    if tag != f"v{number}":
        raise ReleaseError(
            f"tag {tag}, version {number}: tag v{number}, or give `python -m tools.release.places` another"
        )
    changes = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"(?m)^## {re.escape(number)} - \d{{4}}-\d{{2}}-\d{{2}}$", changes):
        raise ReleaseError(f"CHANGELOG.md: no section `## {number} - YEAR-MONTH-DAY`")


def release(dist: Path = DIST) -> None:
    """Create a whole release, and replace `dist` by it."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="release-", dir=build) as directory:
        source, target = Path(directory) / "source", Path(directory) / "dist"
        target.mkdir()
        copy_source(source)
        if tag := os.environ.get("TAG", ""):
            check_tag(tag, source)
        repository = os.environ.get("IMAGE_REPOSITORY", "")
        put_in(source, repository, os.environ.get("PROJECT_URL", ""))
        make(source, target, version(source), int(commit_time()))
        if not os.environ.get("WITHOUT_IMAGE"):
            add_images(target, version(source), repository)
        (target / CHECKSUMS).write_text(checksums(target), encoding="utf-8")
        shutil.rmtree(dist, ignore_errors=True)
        shutil.move(target, dist)
    for path in sorted(dist.iterdir()):
        print(path.relative_to(dist.parent), flush=True)


def main() -> int:
    """Create a release, and return 0 if everything was built."""
    try:
        release()
    except ImageError as error:
        print(f"make release: {error}; or leave the image out: WITHOUT_IMAGE=1", file=sys.stderr)
        return 1
    except (BuildError, NoGoError, OSError, ReleaseError, ValueError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
