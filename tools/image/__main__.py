"""Build archives of the image with their bills of materials: `make image`, or once for the same sources.

$BUILDER, $BASE, $PLATFORMS and $IMAGE are optional. An error is one line, with exit code 1.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tools.deployment import REPOSITORY
from tools.image.archive import add_docker_manifest, is_kept, read_image
from tools.image.base import REGISTRY_BASE, DebianBase, add_to_builder
from tools.image.builders import (
    BUILDAH,
    Build,
    Builder,
    Machine,
    choose_builder,
    choose_platforms,
    proxy_arguments,
    write_secrets,
)
from tools.image.identity import Identity, bill_of_materials, identify
from tools.image.steps import ImageError, LackingError, Steps, require_space
from tools.localcluster.progress import LinePrinter
from tools.localcluster.recipe import digest_of

RESULTS = REPOSITORY / "build" / "image"
LARGEST = 120_000_000
"""The maximum number of bytes that a node may have to pull."""
_NEEDED_BYTES = 3_000_000_000
_FILES = ("Dockerfile", "LICENSE", "README.md", "pyproject.toml")
_FOLDERS = ("requirements", "api", "lws", "tools/image/inside")
_KEPT = 3


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory that keeps bases between runs, below $XDG_CACHE_HOME or ~/.cache."""
    directory = environment.get("XDG_CACHE_HOME")
    return (Path(directory) if directory else Path.home() / ".cache") / "lws-image"


@dataclass(frozen=True)
class Workshop:
    """The tools of a build."""

    machine: Machine
    builder: Builder
    steps: Steps
    cache: Path

    def base(self, platform: str) -> str:
        """Return a base that the builder has: $BASE, the Dockerfile's, or one built from Debian packages."""
        image = os.environ.get("BASE") or REGISTRY_BASE
        # A base that is here already may be old or for another platform, so pulling comes first.
        if self.steps.succeeds(self.builder.pull(image, platform)):
            return image
        if self.steps.succeeds(self.builder.find(image)):
            return image
        if os.environ.get("BASE"):
            raise ImageError(
                f"BASE={image} is neither here nor can it be pulled: {self.builder.name} pull {image}"
            )
        print(f"no registry gives {image}: the base is one from Debian packages", flush=True)
        if not self.machine.installed("debootstrap"):
            raise LackingError("a base needs debootstrap: `apt-get install debootstrap`, or BASE=<image>")
        if not self.machine.root:
            raise LackingError("a base from Debian packages needs root: `sudo make image`, or BASE=<image>")
        base = DebianBase(self.cache, platform.partition("/")[2])
        return add_to_builder(base, self._key(base), self.builder, self.steps)

    def forget(self, tag: str) -> None:
        """Remove an image from buildah's store, which keeps only the base: the result is the archive."""
        if self.builder.name == BUILDAH:
            self.steps.succeeds(self.builder.forget(tag))

    def _key(self, base: DebianBase) -> str:
        try:
            return base.key()
        except ImageError as error:
            key = base.newest()
            if not key:
                raise
            print(f"{error}: the base that was made last is used", flush=True)
            return key


def build_image(shop: Workshop, identity: Identity, platform: str, directory: Path) -> Path:
    """Build the image for `platform`, and return its archive."""
    base = shop.base(platform)
    arguments = {"BASE": base, **identity.build_arguments, **proxy_arguments()}
    build = Build(identity.tag, platform, REPOSITORY, identity.labels, arguments, write_secrets(directory))
    shop.steps.run(f"build for {platform}", shop.builder.build(build))
    archive = RESULTS / f"lws-{identity.version}-{platform.replace('/', '-')}.tar"
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    shop.steps.run("save", shop.builder.save(identity.tag, unfinished))
    image = read_image(unfinished)
    add_docker_manifest(unfinished)
    if image.compressed_size > LARGEST:
        raise ImageError(
            f"the image has {image.compressed_size / 1e6:.0f} MB, and may have {LARGEST / 1e6:.0f}"
        )
    name = identity.tag.rpartition(":")[0]
    archive.with_suffix(".cdx.json").write_text(bill_of_materials(image, name, identity.version))
    unfinished.replace(archive)
    size = f"{image.compressed_size / 1e6:.0f} MB"
    print(f"{identity.tag} for {platform}: {archive.relative_to(REPOSITORY)}, {size}", flush=True)
    return archive


def clear_remains(cache: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Remove what killed runs have left. Raises ImageError if something is mounted in the cache."""
    held = [line.split()[1] for line in mounts.read_text().splitlines() if f" {cache}/" in line]
    if held:
        raise ImageError(f"something is mounted in {cache}: `umount {' '.join(held)}`")
    for remains in cache.glob(".*-*"):
        shutil.rmtree(remains)


@contextmanager
def workshop(machine: Machine, name: str, needed: int = _NEEDED_BYTES) -> Iterator[tuple[Workshop, Path]]:
    """Provide a workshop and a temporary folder for one process at a time. Raises LackingError."""
    builder, cache = choose_builder(machine, os.environ.get("BUILDER", "")), cache_directory()
    for directory in (cache, RESULTS):
        require_space(directory, needed)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clear_remains(cache)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache) as scratch:
            tools = Builder(builder, cache / "store", Path(scratch))
            yield (
                Workshop(machine, tools, Steps(RESULTS / f"{name}.log", LinePrinter()), cache),
                Path(scratch),
            )


def build_all(machine: Machine, requested: str = "", tag: str = "") -> list[Path]:
    """Build for the given platforms, or for every possible platform, and return the archives.

    Raises LackingError before anything is built, and ImageError if a build fails.
    """
    platforms, refused = choose_platforms(machine, requested)
    for platform, why in refused.items():
        print(f"{platform} is not built: {why}", flush=True)
    identity = identify(REPOSITORY, tag)
    with workshop(machine, "build") as (shop, scratch):
        archives = [build_image(shop, identity, platform, scratch) for platform in platforms]
        shop.forget(identity.tag)
    return archives


def main() -> int:
    """Build the images. Return 0 if everything that can be built here was built."""
    try:
        build_all(Machine(), os.environ.get("PLATFORMS", ""), os.environ.get("IMAGE", ""))
    except ImageError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def current_archive() -> Path:
    """Return an archive of the image for this machine's platform, built once for the same sources."""
    cache = cache_directory()
    archive = cache / f"current-{sources_key(REPOSITORY)}.tar"
    if not (bill_beside(archive).exists() and is_kept(archive)):
        built, unfinished = _build(), archive.with_suffix(".unfinished")
        shutil.copyfile(bill_beside(built), bill_beside(archive))
        shutil.copyfile(built, unfinished)
        unfinished.replace(archive)
        for old in sorted(cache.glob("current-*.tar"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            bill_beside(old).unlink(missing_ok=True)
            old.unlink()
    return archive


def bill_beside(archive: Path) -> Path:
    """Return the path of an archive's bill of materials."""
    return archive.with_suffix(".cdx.json")


def sources_key(repository: Path) -> str:
    """Return 16 hexadecimal digits that change with every file that goes into the image."""
    files = [repository / name for name in _FILES]
    for folder in _FOLDERS:
        below = (path for path in (repository / folder).rglob("*") if path.is_file())
        files += (path for path in below if "__pycache__" not in path.parts)
    named = ((str(path.relative_to(repository)).encode(), path.read_bytes()) for path in sorted(files))
    return digest_of(chain.from_iterable(named))


def _build() -> Path:
    machine = Machine()
    (archive,) = build_all(machine, choose_platforms(machine)[0][-1])
    return archive


if __name__ == "__main__":
    sys.exit(main())
