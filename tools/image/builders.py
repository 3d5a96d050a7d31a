"""Choose the program that builds images here, its platforms, and its commands and settings."""

from __future__ import annotations

import configparser
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.image.steps import ImageError, LackingError, alone

DOCKER, PODMAN, BUILDAH = "docker", "podman", "buildah"
BUILDERS = (DOCKER, PODMAN, BUILDAH)
PLATFORMS = ("linux/amd64", "linux/arm64")

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# The kernel's names of the emulators that run programs of another architecture.
_EMULATORS = {"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}
# Bounds the wait for a daemon that does not answer.
_ANSWER_SECONDS = 20
# The settings that say where packages come from. Others, such as find-links, name directories of this
# machine.
_SETTINGS = ("default-timeout", "extra-index-url", "index-url", "proxy", "retries", "timeout", "trusted-host")
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
# The folder in which the builder mounts secrets for commands of the build.
_SHOWN_AT = "/run/secrets"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def _answers(command: list[str]) -> bool:
    try:
        return not subprocess.run(command, capture_output=True, timeout=_ANSWER_SECONDS).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass(frozen=True)
class Machine:
    """Facts about a machine, which tests replace."""

    installed: Callable[[str], bool] = lambda program: shutil.which(program) is not None
    answers: Callable[[list[str]], bool] = _answers
    root: bool = hasattr(os, "geteuid") and os.geteuid() == 0
    architecture: str = platform.machine()
    emulators: Path = Path("/proc/sys/fs/binfmt_misc")


def choose_builder(machine: Machine, requested: str = "") -> str:
    """Return `requested`, or the first of docker, podman and buildah that can build here.

    Raises LackingError if none can, and ImageError if `requested` is not one of them.
    """
    if requested and requested not in BUILDERS:
        raise ImageError(f"BUILDER={requested}: expected one of {', '.join(BUILDERS)}")
    lacks = {}
    for builder in [requested] if requested else BUILDERS:
        lacks[builder] = _lacking(builder, machine)
        if not lacks[builder]:
            return builder
    reasons = "; ".join(f"{builder}: {reason}" for builder, reason in lacks.items())
    raise LackingError(f"nothing here builds images ({reasons})")


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


def choose_platforms(machine: Machine, requested: str = "") -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the platforms for which this machine can build, and the reasons why it cannot build for others.

    requested: a comma-separated list of platforms. Raises LackingError unless all of them are possible.
    """
    platforms = tuple(requested.split(",")) if requested else PLATFORMS
    unknown = [name for name in platforms if name not in PLATFORMS]
    if unknown:
        raise ImageError(f"PLATFORMS={requested}: expected some of {', '.join(PLATFORMS)}")
    refused = {name: why for name in platforms if (why := _not_run(name, machine))}
    if refused and (requested or len(refused) == len(platforms)):
        raise LackingError("; ".join(f"{name} cannot be built: {why}" for name, why in refused.items()))
    possible = [name for name in platforms if name not in refused]
    # All images get the same name in the store of the builder, and the last one keeps it.
    return tuple(sorted(possible, key=lambda name: _is_own(name, machine))), refused


def _not_run(name: str, machine: Machine) -> str:
    emulator = machine.emulators / _EMULATORS[name.partition("/")[2]]
    if _is_own(name, machine) or emulator.exists():
        return ""
    own = machine.architecture
    return f"this machine ({own}) does not run its programs; build there, or install qemu-user-static here"


def _is_own(name: str, machine: Machine) -> bool:
    own = _ARCHITECTURES.get(machine.architecture, machine.architecture)
    return name == f"linux/{own}"


@dataclass(frozen=True)
class Build:
    """One image for one platform."""

    tag: str
    platform: str
    context: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    """Name → file, which exists while commands of the build run and is in no layer."""


@dataclass(frozen=True)
class Builder:
    """A builder and the place of its images. buildah has its own store, so nothing is left elsewhere."""

    name: str
    store: Path
    scratch: Path
    """A folder for temporary files of the build, on a disk, because layers pass through it."""

    def build(self, build: Build) -> list[str]:
        options = ["--network=host", f"--platform={build.platform}", f"--tag={build.tag}"]
        options += [f"--label={key}={value}" for key, value in build.labels.items()]
        options += [f"--build-arg={key}={value}" for key, value in build.arguments.items()]
        options += [f"--secret=id={key},src={path}" for key, path in build.secrets.items()]
        if self.name == DOCKER:
            # Without --load a builder in a container would keep the result to itself.
            return [DOCKER, "buildx", "build", "--progress=plain", "--load", *options, str(build.context)]
        command = [*self._program, "build", "--pull=never", "--layers=false", *options, str(build.context)]
        # As root, buildah mounts what it builds.
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
        """Return a command that ends with 0 if the image is in the store."""
        kind = ["--type=image"] if self.name == BUILDAH else []
        return [*self._program, *([] if self.name == BUILDAH else ["image"]), "inspect", *kind, image]

    def forget(self, image: str) -> list[str]:
        return [*self._program, "rmi", "--force", image]

    @property
    def _program(self) -> list[str]:
        if self.name == BUILDAH:
            # These settings need no systemd, user namespaces or overlayfs, so root can use them on any
            # machine.
            variables = ["BUILDAH_ISOLATION=chroot", "STORAGE_DRIVER=vfs", f"TMPDIR={self.scratch}"]
            return ["env", *variables, BUILDAH, f"--root={self.store}", f"--runroot={self.scratch}/run"]
        return [self.name]


def pip_settings(listed: str) -> dict[str, str]:
    """Parse the output of `pip config list`: lines key='value', of which the last one wins, as in pip."""
    settings = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name in _SETTINGS or name == "cert":
            settings[name] = value.strip("'").replace("\\n", "\n")
    return settings


def write_secrets(directory: Path, listed: str | None = None) -> dict[str, Path]:
    """Write the files of secrets into `directory`, and return name → file."""
    settings = pip_settings(_listed() if listed is None else listed)
    authorities = Path(settings.pop("cert", "") or os.environ.get("SSL_CERT_FILE") or _AUTHORITIES)
    secrets = {}
    if authorities.is_file() and authorities.stat().st_size:
        secrets["authorities"] = authorities
        settings["cert"] = f"{_SHOWN_AT}/authorities"
    document = configparser.RawConfigParser()
    document["global"] = settings
    secrets["pip.conf"] = directory / "pip.conf"
    with open(os.open(secrets["pip.conf"], os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        document.write(file)
    return secrets


def proxy_arguments(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return build arguments for proxies, which every builder knows and keeps out of the image."""
    return {name: environment[name] for name in PROXIES if environment.get(name)}


def _listed() -> str:
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    return done.stdout
