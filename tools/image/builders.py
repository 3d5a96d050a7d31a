"""Answers: what builds images on this machine, and for which platforms?

In: the programs that are installed, whether they answer, who we are. Out: a builder, or an error with what
each of them lacks.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.image.errors import ImageError, LackingError

DOCKER, PODMAN, BUILDAH = "docker", "podman", "buildah"
BUILDERS = (DOCKER, PODMAN, BUILDAH)
PLATFORMS = ("linux/amd64", "linux/arm64")

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# As the kernel names those that it runs by another program.
_EMULATORS = {"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}
# A daemon that is away may be waited for.
_ANSWER_SECONDS = 20


def _answers(command: list[str]) -> bool:
    try:
        return not subprocess.run(command, capture_output=True, timeout=_ANSWER_SECONDS).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass(frozen=True)
class Machine:
    """What is asked of a machine; tests put answers of their own in."""

    installed: Callable[[str], bool] = lambda program: shutil.which(program) is not None
    answers: Callable[[list[str]], bool] = _answers
    root: bool = hasattr(os, "geteuid") and os.geteuid() == 0
    architecture: str = platform.machine()
    emulators: Path = Path("/proc/sys/fs/binfmt_misc")


def choose_builder(machine: Machine, wanted: str = "") -> str:
    """Return `wanted`, or the first of docker, podman and buildah that can build here.

    Raises LackingError where none can, ImageError for one that there is not.
    """
    if wanted and wanted not in BUILDERS:
        raise ImageError(f"BUILDER={wanted}: expected one of {', '.join(BUILDERS)}")
    lacks = {}
    for builder in [wanted] if wanted else BUILDERS:
        lacks[builder] = _lacking(builder, machine)
        if not lacks[builder]:
            return builder
    said = "; ".join(f"{builder}: {what}" for builder, what in lacks.items())
    raise LackingError(f"nothing here builds images ({said})")


def _lacking(builder: str, machine: Machine) -> str:
    if not machine.installed(builder):
        hint = ": as root, `apt-get install buildah debootstrap`" if builder == BUILDAH else ""
        return f"not installed{hint}"
    if builder == DOCKER:
        if not machine.answers([DOCKER, "info"]):
            return "no daemon answers"
        return "" if machine.answers([DOCKER, "buildx", "version"]) else "install its plugin buildx"
    if builder == BUILDAH and not machine.root:
        return "needs root: `sudo make image`"
    return "" if machine.answers([builder, "--version"]) else "does not start"


def choose_platforms(machine: Machine, wanted: str = "") -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the platforms that can be built here, and why the others cannot.

    `wanted`: a comma-separated list, all of which must be possible; LackingError otherwise.
    """
    asked = tuple(wanted.split(",")) if wanted else PLATFORMS
    unknown = [each for each in asked if each not in PLATFORMS]
    if unknown:
        raise ImageError(f"PLATFORMS={wanted}: expected some of {', '.join(PLATFORMS)}")
    refused = {each: why for each in asked if (why := _not_run(each, machine))}
    if refused and (wanted or len(refused) == len(asked)):
        raise LackingError("; ".join(f"{each} cannot be built: {why}" for each, why in refused.items()))
    possible = [each for each in asked if each not in refused]
    # All get one name in the store of the builder: what is built last keeps it.
    return tuple(sorted(possible, key=lambda each: _is_own(each, machine))), refused


def _not_run(wanted: str, machine: Machine) -> str:
    emulator = machine.emulators / _EMULATORS[wanted.partition("/")[2]]
    if _is_own(wanted, machine) or emulator.exists():
        return ""
    own = machine.architecture
    return f"this machine ({own}) does not run its programs; build there, or install qemu-user-static here"


def _is_own(wanted: str, machine: Machine) -> bool:
    own = _ARCHITECTURES.get(machine.architecture, machine.architecture)
    return wanted == f"linux/{own}"
