"""tools.release.licences: every locked package is listed, with a permitted licence."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tools.release.licences import LOCKS, PAGE, LicenceError, expression, packages, page, pinned, refused
from tools.release.places import ROOT


def test_the_page_matches_the_lock_files() -> None:
    assert (ROOT / PAGE).read_text() == page()


def test_every_locked_package_is_on_the_page() -> None:
    text = page()
    for lock in LOCKS:
        for name, version in pinned((ROOT / "requirements" / f"{lock}.txt").read_text()):
            assert f"| [{name}](https://pypi.org/project/{name}/) | {version} | " in text


def test_every_dependency_of_the_controller_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[<>=; ]", requirement)[0] for requirement in project["dependencies"]}
    nodes = (node for path in (ROOT / "lws").rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    modules = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.partition(".")[0])
    owners = packages_distributions()
    imported = {name.lower().replace("_", "-") for module in modules for name in owners.get(module, ())}
    assert required - imported - {"lws-api"} == set()


@pytest.mark.parametrize(
    ("metadata", "classifiers", "licence"),
    [
        ({"License-Expression": "Apache-2.0 OR MIT", "License": "other"}, (), "Apache-2.0 OR MIT"),
        ({"License": "Apache 2.0"}, (), "Apache-2.0"),
        ({"License": "A whole\ntext"}, ("License :: OSI Approved :: MIT License",), "MIT"),
        (
            {"License": "UNKNOWN"},
            ("License :: OSI Approved :: BSD License", "Typing :: Typed"),
            "BSD-3-Clause",
        ),
    ],
)
def test_a_licence_is_read_from_any_metadata_field(
    metadata: dict[str, str], classifiers: tuple[str, ...], licence: str
) -> None:
    assert expression("a", metadata, classifiers) == licence


def test_a_package_without_a_licence_is_an_error() -> None:
    with pytest.raises(LicenceError, match="a does not say its licence"):
        expression("a", {}, ())


@pytest.mark.parametrize(
    ("licence", "wrong"),
    [
        ("MIT", []),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", []),
        ("GPL-3.0-only", ["GPL-3.0-only"]),
        ("MIT AND (LGPL-2.1-only OR BSD-3-Clause)", ["LGPL-2.1-only"]),
        ("Some Licence Of Ours", ["Some Licence Of Ours"]),
    ],
)
def test_only_known_licences_are_accepted(licence: str, wrong: list[str]) -> None:
    assert refused(licence) == wrong


def test_a_package_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(LicenceError, match="no-such-package is locked and not installed"):
        list(packages("no-such-package==1.0 \\\n    --hash=sha256:0\n"))
