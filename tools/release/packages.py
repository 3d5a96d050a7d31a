"""Build wheels, source distributions, and the archive from which krew installs `kubectl lws`.

Compiled packages differ with each interpreter and platform, so the archive contains only our own packages.
The plugin's first call installs the others, and checks each against its hash.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.release.places import ROOT, ReleaseError, run

PROGRAM = "kubectl-lws"
_LAUNCHER = Path(__file__).parent / "plugin" / "launcher.py"
_DESCRIPTION = """\
Shows every group of a LeaderWorkerSet and why it waits, its revisions and what
changed between them, says what an apply would restart before it does, goes back
to an earlier revision, restarts, pauses and resumes rollouts. The same for
DisaggregatedSets.
"""
_CAVEATS = """\
Needs python3, 3.11 or newer, with its module venv. The first call installs
locked packages from PyPI, or the mirror that pip is configured for.
"""
PROJECTS = {"lws-controller": ".", "lws-api": "api"}
"""Name on PyPI → folder of its pyproject.toml. The name `lws` belongs to another project there."""


def plugin(wheels: Mapping[str, bytes], seconds: int) -> bytes:
    """Return the archive of the plugin: launcher, wheels by name, requirements with hashes, and licence."""
    files = {f"wheels/{name}": content for name, content in wheels.items()}
    files[PROGRAM] = _LAUNCHER.read_bytes()
    files["requirements.txt"] = (ROOT / "requirements" / "runtime.txt").read_bytes()
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return archive(files, seconds, executable=frozenset({PROGRAM}))


def manifest(archive_name: str, content: bytes, version: str, home: str) -> str:
    """Return the manifest of the plugin, for a release at `home`."""
    platform = {
        # Windows starts no scripts. Its users get kubectl-lws.exe from `pipx install lws-controller`.
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": f"{home}/releases/download/v{version}/{archive_name}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bin": PROGRAM,
    }
    spec = {
        "version": f"v{version}",
        "homepage": home,
        "shortDescription": "See and change LeaderWorkerSets as groups",
        "description": _DESCRIPTION,
        "caveats": _CAVEATS,
        "platforms": [platform],
    }
    head = {"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin"}
    return yaml.safe_dump({**head, "metadata": {"name": "lws"}, "spec": spec}, sort_keys=False)


def files_below(directory: Path) -> Mapping[str, bytes]:
    """Return path below `directory` → content."""
    paths = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def archive(files: Mapping[str, bytes], seconds: int, executable: frozenset[str] = frozenset()) -> bytes:
    """Return a compressed archive whose files all have one date, in seconds since 1970."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=seconds, filename="") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), seconds
            entry.mode = 0o755 if name in executable else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def checksums(directory: Path) -> str:
    """Return a line for each file below `directory`, in the format of `sha256sum --check`."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files_below(directory).items()
    )


def build(source: Path, target: Path, version: str, epoch: str) -> list[Path]:
    """Build every package below `source` into `target`, and return the wheels. Raises ReleaseError."""
    wheels = []
    for name, directory in PROJECTS.items():
        command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-d", target.resolve()]
        run(command, source / directory, epoch=epoch)
        stem = f"{name.replace('-', '_')}-{version}"
        wheel, archive = target / f"{stem}-py3-none-any.whl", target / f"{stem}.tar.gz"
        for file in (wheel, archive):
            if not file.is_file():
                raise ReleaseError(f"{directory}/pyproject.toml: no {file.name} came of it")
        wheels.append(wheel)
    return wheels
