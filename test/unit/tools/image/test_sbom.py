"""The SBOM: what it lists, and in which notation."""

from __future__ import annotations

import json
from pathlib import Path

from test.unit.tools.image.archives import write_archive
from tools.image.archive import read_image
from tools.image.identity import bill_of_materials

SITE = "opt/lws/lib/python3.13/site-packages"
FILES = {
    f"{SITE}/PyYAML-6.0.3.dist-info/METADATA": b"Name: PyYAML\nVersion: 6.0.3\nLicense: MIT\n\ntext",
    f"{SITE}/kopf-1.45.2.dist-info/METADATA": b"Name: kopf\nVersion: 1.45.2\nLicense: a\n whole\n text\n",
    f"{SITE}/kopf/METADATA": b"Name: not one\nVersion: 1\n",
    "var/lib/dpkg/status.d/libc6": b"Package: libc6\nArchitecture: amd64\nVersion: 2.41-12\n",
    "opt/lws/pyvenv.cfg": b"home = /usr/bin\nversion = 3.13.5\n",
}


def test_packages_of_python_and_debian_and_the_interpreter(tmp_path: Path) -> None:
    image = read_image(write_archive(tmp_path / "lws.tar", FILES))
    document = json.loads(bill_of_materials(image, "localhost/lws", "0.1.0"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    component = document["metadata"]["component"]
    assert (component["name"], component["version"], component["type"]) == (
        "localhost/lws",
        "0.1.0",
        "container",
    )
    assert sorted(package["purl"] for package in document["components"]) == [
        "pkg:deb/debian/libc6@2.41-12?arch=amd64",
        "pkg:generic/cpython@3.13.5",
        "pkg:pypi/kopf@1.45.2",
        "pkg:pypi/pyyaml@6.0.3",
    ]


def test_licences_are_listed_if_the_package_declares_one(tmp_path: Path) -> None:
    image = read_image(write_archive(tmp_path / "lws.tar", FILES))
    document = json.loads(bill_of_materials(image, "localhost/lws", "0.1.0"))
    licences = {component["name"]: component.get("licenses") for component in document["components"]}
    assert licences["pyyaml"] == [{"license": {"id": "MIT"}}]
    assert licences["kopf"] is None
