"""Answers: which images does every node have, without a registry?

In: the programs that were compiled for them. Out: archives in the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.image.archive import is_kept
from tools.realnode.archives import SmallImage, write_archive

PAUSE = "localhost/pause:1"
COREDNS = "localhost/coredns:1"
MEMBERS = ("localhost/member:1", "localhost/member:2", "localhost/member:3")
"""One program under names that differ, for rollouts: a process of a group, see go/member/main.go."""
# What examples run where only the shape of groups matters. It is our own program of this kind.
_EXAMPLES = ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.9")


def small_images(programs: Mapping[str, Path]) -> tuple[SmallImage, ...]:
    """Return what is made of the compiled programs."""
    return (
        SmallImage((PAUSE, *_EXAMPLES), programs["pause"]),
        SmallImage((COREDNS,), programs["coredns"]),
        # Each is an image of its own, as a new version is.
        *(SmallImage((name,), programs["member"], labels={"name": name}) for name in MEMBERS),
    )


def write_archives(programs: Mapping[str, Path], cache: Path) -> Iterator[Path]:
    """Return an archive for each image, made where there is no whole one in `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    for image in small_images(programs):
        # Programs lie below a folder that is named by what they are made of.
        made_of = f"{image.names} {image.command} {image.program.resolve()}"
        archive = cache / f"image-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.tar"
        if not is_kept(archive):
            write_archive(image, archive)
        yield archive
