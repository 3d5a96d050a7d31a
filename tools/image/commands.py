"""Answers: which command lines build, pull and save an image with each builder? Pure.

In: a builder, what is to be built. Out: arguments of programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.image.builders import BUILDAH, DOCKER
from tools.image.steps import alone


@dataclass(frozen=True)
class Build:
    """One image for one platform."""

    tag: str
    platform: str
    context: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    """Name → file, there while commands of the build run, in no layer."""


@dataclass(frozen=True)
class Builder:
    """A builder and where it keeps images: buildah gets a store of its own, so nothing is left elsewhere."""

    name: str
    store: Path
    scratch: Path
    """For what is gone after the build; on a disk, as layers pass through it."""

    def build(self, build: Build) -> list[str]:
        options = ["--network=host", f"--platform={build.platform}", f"--tag={build.tag}"]
        options += [f"--label={key}={value}" for key, value in build.labels.items()]
        options += [f"--build-arg={key}={value}" for key, value in build.arguments.items()]
        options += [f"--secret=id={key},src={path}" for key, path in build.secrets.items()]
        if self.name == DOCKER:
            # --load: a builder in a container keeps what it has built to itself.
            return [DOCKER, "buildx", "build", "--progress=plain", "--load", *options, str(build.context)]
        command = [*self._program, "build", "--pull=never", "--layers=false", *options, str(build.context)]
        # As root it mounts what it builds.
        return alone(command) if self.name == BUILDAH else command

    def save(self, tag: str, archive: Path) -> list[str]:
        if self.name == DOCKER:
            return [DOCKER, "save", f"--output={archive}", tag]
        if self.name == BUILDAH:
            return [*self._program, "push", tag, f"oci-archive:{archive}:{tag}"]
        return [*self._program, "save", "--format=oci-archive", f"--output={archive}", tag]

    def pull(self, image: str, platform: str) -> list[str]:
        return [*self._program, "pull", f"--platform={platform}", image]

    def find(self, image: str) -> list[str]:
        """Ends with 0 where the image is there."""
        kind = ["--type=image"] if self.name == BUILDAH else []
        return [*self._program, *([] if self.name == BUILDAH else ["image"]), "inspect", *kind, image]

    def forget(self, image: str) -> list[str]:
        return [*self._program, "rmi", "--force", image]

    @property
    def _program(self) -> list[str]:
        if self.name == BUILDAH:
            # Without systemd, user namespaces and overlayfs: what root has on any machine.
            variables = ["BUILDAH_ISOLATION=chroot", "STORAGE_DRIVER=vfs", f"TMPDIR={self.scratch}"]
            return ["env", *variables, BUILDAH, f"--root={self.store}", f"--runroot={self.scratch}/run"]
        return [self.name]
