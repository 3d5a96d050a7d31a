"""How does krew install `kubectl lws`?

In: wheels and locked requirements. Out: the archive that krew unpacks, and the manifest that names it by its
checksum. Compiled packages differ with each interpreter and platform, so the archive holds ours only, and the
first call installs the others, each checked against its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.release.archives import archive
from tools.release.places import ROOT

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


def plugin(wheels: Mapping[str, bytes], seconds: int) -> bytes:
    """The archive: launcher, wheels by name, requirements with hashes, licence."""
    files = {f"wheels/{name}": content for name, content in wheels.items()}
    files[PROGRAM] = _LAUNCHER.read_bytes()
    files["requirements.txt"] = (ROOT / "requirements" / "runtime.txt").read_bytes()
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return archive(files, seconds, executable=frozenset({PROGRAM}))


def manifest(archive_name: str, content: bytes, version: str, home: str) -> str:
    """The manifest of the plugin, for a release at `home`."""
    platform = {
        # Windows starts no scripts: there, `pipx install lws-controller` brings kubectl-lws.exe.
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": f"{home}/releases/download/v{version}/{archive_name}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bin": PROGRAM,
    }
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "lws"},
            "spec": {
                "version": f"v{version}",
                "homepage": home,
                "shortDescription": "See and change LeaderWorkerSets as groups",
                "description": _DESCRIPTION,
                "caveats": _CAVEATS,
                "platforms": [platform],
            },
        },
        sort_keys=False,
    )
