"""Compute an image's labels, build arguments and bill of materials, which is CycloneDX 1.6 (JSON)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

import yaml
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

import lws
from tools.image.archive import Image
from tools.image.inside.root_files import RECORDS

UNKNOWN = "unknown"
# user:password@ must not end up in a label, and a local path means nothing to others.
_REMOTE = re.compile(
    r"(?:https?://|ssh://|git://)?(?:[^@/]*@)?(?P<host>[\w.-]+\.[a-z]+)[:/](?P<path>[\w./~-]+?)(?:\.git)?/?"
)

Git = Callable[[list[str]], str]
_PYTHON_METADATA = re.compile(r".*/site-packages/[^/]+\.dist-info/METADATA")
_ENVIRONMENT = re.compile(r"opt/lws/pyvenv\.cfg")


@dataclass(frozen=True)
class Identity:
    """The data that is recorded on an image."""

    tag: str
    """Repository and version of the image, as the chart requests it."""
    version: str
    revision: str
    """The commit, followed by -dirty if files differ from it."""
    source: str
    """The address of the repository; empty if it has none."""
    created: str
    """A time in RFC 3339, UTC; $SOURCE_DATE_EPOCH if it is set."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the OCI image specification."""
        names = ("created", "revision", "source", "version")
        return {f"org.opencontainers.image.{name}": value for name in names if (value := getattr(self, name))}

    @property
    def build_arguments(self) -> Mapping[str, str]:
        return {"BUILD_DATE": self.created, "GIT_COMMIT": self.revision}


def identify(repository: Path, tag: str = "", git: Git | None = None) -> Identity:
    """Determine the identity from `repository`. `tag` replaces the tag that the chart requests."""
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
    """Return the web page of a git remote, without credentials; empty for a remote on this machine."""
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


def bill_of_materials(image: Image, name: str, version: str) -> str:
    """Return the bill of materials as JSON."""
    files = [(path, content) for path, entry, content in image.files() if entry.isfile()]
    container = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref="image")
    bom = Bom(components=components_of(files, image.config["architecture"]))
    bom.metadata.component = container
    bom.register_dependency(container, bom.components)
    return json.dumps(json.loads(JsonV1Dot6(bom).output_as_string()), indent=2) + "\n"


def components_of(files: Iterable[tuple[str, bytes]], architecture: str) -> list[Component]:
    """Return every package that is recorded in `files` (path and content)."""
    return sorted({component.bom_ref.value: component for component in _found(files, architecture)}.values())


def _found(files: Iterable[tuple[str, bytes]], architecture: str) -> Iterator[Component]:
    for path, content in files:
        if _PYTHON_METADATA.fullmatch(path):
            yield _of_python(content.decode())
        elif path.startswith(f"{RECORDS}/"):
            yield _of_debian(content.decode(), architecture)
        elif _ENVIRONMENT.fullmatch(path):
            settings = dict(line.partition(" = ")[::2] for line in content.decode().splitlines())
            yield _component(PackageURL("generic", None, "cpython", settings["version"]), "PSF-2.0")


def _of_python(metadata: str) -> Component:
    fields = HeaderParser().parsestr(metadata)
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    licence = fields["License-Expression"] or fields["License"] or ""
    # Some packages contain the whole text of the licence here.
    return _component(PackageURL("pypi", None, name, fields["Version"]), "" if "\n" in licence else licence)


def _of_debian(record: str, architecture: str) -> Component:
    fields = HeaderParser().parsestr(record)
    qualifiers = {"arch": fields["Architecture"] or architecture}
    return _component(PackageURL("deb", "debian", fields["Package"], fields["Version"], qualifiers))


def _component(purl: PackageURL, licence: str = "") -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        purl=purl,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
    )
