"""Answers: which packages are in an image?

In: its files. Out: a bill of materials in CycloneDX 1.6 (JSON): packages of Python by their metadata,
packages of Debian by their records, and the interpreter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.image.archive import Image
from tools.image.inside.debian_packages import RECORDS

_PYTHON_METADATA = re.compile(r".*/site-packages/[^/]+\.dist-info/METADATA")
_ENVIRONMENT = re.compile(r"opt/lws/pyvenv\.cfg")


def bill_of_materials(image: Image, name: str, version: str) -> str:
    """Return the document as JSON."""
    files = [(path, content) for path, entry, content in image.files() if entry.isfile()]
    whole = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref="image")
    bom = Bom(components=components_of(files, image.config["architecture"]))
    bom.metadata.component = whole
    bom.register_dependency(whole, bom.components)
    return json.dumps(json.loads(JsonV1Dot6(bom).output_as_string()), indent=2) + "\n"


def components_of(files: Iterable[tuple[str, bytes]], architecture: str) -> list[Component]:
    """Every package that `files` (path and content) tell of."""
    return sorted({each.bom_ref.value: each for each in _found(files, architecture)}.values())


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
    said = HeaderParser().parsestr(metadata)
    name = re.sub(r"[-_.]+", "-", said["Name"]).lower()
    licence = said["License-Expression"] or said["License"] or ""
    # Some put the whole text there.
    return _component(PackageURL("pypi", None, name, said["Version"]), "" if "\n" in licence else licence)


def _of_debian(record: str, architecture: str) -> Component:
    said = HeaderParser().parsestr(record)
    qualifiers = {"arch": said["Architecture"] or architecture}
    return _component(PackageURL("deb", "debian", said["Package"], said["Version"], qualifiers))


def _component(purl: PackageURL, licence: str = "") -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        purl=purl,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
    )
