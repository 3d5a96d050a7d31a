"""Engines that are not ours, as an image: what tests on a real node distribute over the pods of a group.

In: packages of Debian and of PyPI, locked. Out: an archive in the cache. It knows nothing of sets.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tools.deployment import REPOSITORY
from tools.image.__main__ import RESULTS, Workshop, cache_directory, only_one
from tools.image.archive import is_kept
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
from tools.image.steps import Steps, require_space
from tools.localcluster.progress import LinePrinter

NAME = "localhost/engines"
TAG = "1"
CONTEXT = {
    "Dockerfile": Path(__file__).with_name("Dockerfile"),
    "requirements.txt": REPOSITORY / "requirements" / "engines.txt",
}
"""Name of a file as the Dockerfile has it -> where it is."""

_NEEDED_BYTES = 4_000_000_000


def engines_archive() -> Path:
    """Return an archive for this machine's platform."""
    cache = cache_directory()
    archive = cache / f"engines-{key()}.tar"
    if not is_kept(archive):
        _build(archive)
        for other in set(cache.glob("engines-*.tar")) - {archive}:
            other.unlink()
    return archive


def key() -> str:
    """Return 16 hexadecimal digits that change with every file that goes into the image."""
    digest = hashlib.sha256()
    for path in CONTEXT.values():
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(archive: Path) -> None:
    machine, cache = Machine(), archive.parent
    name = choose_builder(machine, os.environ.get("BUILDER", ""))
    platform = choose_platforms(machine)[0][-1]
    for directory in (cache, RESULTS):
        require_space(directory, _NEEDED_BYTES)
    with only_one(cache), tempfile.TemporaryDirectory(prefix=".engines-", dir=cache) as scratch:
        builder = Builder(name, cache / "store", Path(scratch))
        steps = Steps(RESULTS / "engines.log", LinePrinter())
        base = Workshop(machine, builder, steps, cache).base(platform)
        context = Path(scratch) / "context"
        context.mkdir()
        for file, source in CONTEXT.items():
            shutil.copyfile(source, context / file)
        tag = f"{NAME}:{TAG}"
        arguments = {"BASE": base, **proxy_arguments()}
        build = Build(tag, platform, context, {}, arguments, write_secrets(Path(scratch)))
        steps.run("engines", builder.build(build))
        unfinished = Path(scratch) / "archive.tar"
        steps.run("engines: save", builder.save(tag, unfinished))
        unfinished.replace(archive)
        if name == BUILDAH:
            steps.succeeds(builder.forget(tag))
