"""Build an image of inference engines from locked Debian and PyPI packages, for tests on a real node."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tools.deployment import REPOSITORY
from tools.image.__main__ import cache_directory, workshop
from tools.image.archive import is_kept
from tools.image.builders import Build, Machine, choose_platforms, proxy_arguments, write_secrets

NAME = "localhost/engines"
TAG = "1"
CONTEXT = {
    "Dockerfile": Path(__file__).with_name("Dockerfile"),
    "requirements.txt": REPOSITORY / "requirements" / "engines.txt",
}
"""Name of a file in the Dockerfile → path of the file."""

_NEEDED_BYTES = 4_000_000_000


def engines_archive() -> Path:
    """Return an archive of the image for this machine's platform, built once for the same sources."""
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
    machine = Machine()
    platform = choose_platforms(machine)[0][-1]
    with workshop(machine, "engines", _NEEDED_BYTES) as (shop, scratch):
        context, tag, unfinished = scratch / "context", f"{NAME}:{TAG}", scratch / "archive.tar"
        context.mkdir()
        for file, source in CONTEXT.items():
            shutil.copyfile(source, context / file)
        arguments = {"BASE": shop.base(platform), **proxy_arguments()}
        build = Build(tag, platform, context, {}, arguments, write_secrets(scratch))
        shop.steps.run("engines", shop.builder.build(build))
        shop.steps.run("engines: save", shop.builder.save(tag, unfinished))
        unfinished.replace(archive)
        shop.forget(tag)
