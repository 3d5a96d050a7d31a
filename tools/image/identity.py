"""Answers: what does an image say of itself: name, version, revision, source, date?

In: the chart, the package, git, the clock. Out: values for labels and build arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

import lws

UNKNOWN = "unknown"
# user:password@ must not end up in a label, and a path says nothing to others.
_REMOTE = re.compile(
    r"(?:https?://|ssh://|git://)?(?:[^@/]*@)?(?P<host>[\w.-]+\.[a-z]+)[:/](?P<path>[\w./~-]+?)(?:\.git)?/?"
)

Git = Callable[[list[str]], str]


@dataclass(frozen=True)
class Identity:
    """What is written on an image."""

    tag: str
    """As the chart asks for it: repository and version."""
    version: str
    revision: str
    """The commit, with -dirty behind it where files differ from it."""
    source: str
    """Where the repository is, empty where it has no address."""
    created: str
    """RFC 3339, UTC; $SOURCE_DATE_EPOCH where that is set."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of the OCI image specification."""
        said = {
            "created": self.created,
            "revision": self.revision,
            "source": self.source,
            "version": self.version,
        }
        return {f"org.opencontainers.image.{key}": value for key, value in said.items() if value}

    @property
    def build_arguments(self) -> Mapping[str, str]:
        return {"BUILD_DATE": self.created, "GIT_COMMIT": self.revision}


def identify(repository: Path, tag: str = "", git: Git | None = None) -> Identity:
    """Read it off `repository`; `tag` in place of the one that the chart asks for."""
    git = git or _git_in(repository)
    revision = git(["rev-parse", "HEAD"]) or UNKNOWN
    changed = revision != UNKNOWN and git(["status", "--porcelain"])
    return Identity(
        tag=tag or _chart_tag(repository),
        version=lws.__version__,
        revision=f"{revision}-dirty" if changed else revision,
        source=public_address(git(["remote", "get-url", "origin"])),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_now())),
    )


def public_address(remote: str) -> str:
    """Return the page of a git remote, without credentials; empty for one on this machine."""
    parts = _REMOTE.fullmatch(remote)
    return f"https://{parts['host']}/{parts['path']}" if parts else ""


def _chart_tag(repository: Path) -> str:
    chart = repository / "charts" / "lws"
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    version = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    manager = values["image"]["manager"]
    return f"{manager['repository']}:{manager['tag'] or version}"


def _now() -> float:
    return float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())


def _git_in(repository: Path) -> Git:
    def git(arguments: list[str]) -> str:
        try:
            done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True)
        except OSError:
            return ""
        return "" if done.returncode else done.stdout.strip()

    return git
