"""Write THIRD_PARTY_LICENCES.md from locks and package metadata, and reject non-permissive licences."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from tools import generated
from tools.release.places import ROOT

PAGE = Path("THIRD_PARTY_LICENCES.md")
LOCKS = {
    "runtime": "In the image, and installed with `lws-controller`",
    "dev": "For development, tests and builds; not in any artifact",
}
PERMISSIVE = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense"}
)
WEAK = {"MPL-2.0": "asks for the source of changes to its own files, of which we make none"}
"""Licences that are accepted although they are not permissive, with the reason."""
_SPELLINGS: Mapping[str, str] = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
_BETWEEN = re.compile(r"[()]|\b(?:AND|OR|WITH)\b")
_INTRODUCTION = """\
# Third-party licences

Of every locked package, from its metadata (`make generate`). The bills of materials of the
images, `….cdx.json`, list Debian packages too. Go modules that tests compile are in no artifact.
"""


class LicenceError(ValueError):
    """The licence of a package is unknown or not accepted; the message says which, and what to do."""


@dataclass(frozen=True)
class Package:
    """A locked package and its licence as an SPDX expression."""

    name: str
    version: str
    licence: str


def pinned(lock: str) -> Iterator[tuple[str, str]]:
    """Yield name and version of each package of a lock."""
    yield from _PINNED.findall(lock)


def expression(name: str, fields: Mapping[str, str], classifiers: Iterable[str]) -> str:
    """Return the licence of a package in SPDX, from its metadata. Raises LicenceError if there is none."""
    text = fields.get("License-Expression", "") or fields.get("License", "").strip()
    if not text or "\n" in text or text == "UNKNOWN":
        parts = [entry.rpartition(" :: ")[2] for entry in classifiers if entry.startswith("License :: OSI")]
        text = " OR ".join(dict.fromkeys(_SPELLINGS.get(part, part) for part in parts))
    text = _SPELLINGS.get(text, text)
    if not text:
        raise LicenceError(f"{name} does not say its licence: look at its sources")
    return text


def refused(expression: str) -> list[str]:
    """Return the licences of an expression that are not accepted."""
    names = (name.strip() for name in _BETWEEN.split(expression))
    return [name for name in names if name and name not in PERMISSIVE and name not in WEAK]


def packages(lock: str) -> Iterator[Package]:
    """Yield every package of a lock. Raises LicenceError for a package that may not be used."""
    for name, version in sorted(set(pinned(lock))):
        try:
            headers = metadata(name)
        except PackageNotFoundError as error:
            raise LicenceError(f"{name} is locked and not installed: `make .venv/.ready`") from error
        fields = {key: headers[key] or "" for key in ("License-Expression", "License")}
        licence = expression(name, fields, headers.get_all("Classifier") or ())
        if wrong := refused(licence):
            raise LicenceError(
                f"{name} is under {', '.join(wrong)}: use another package, or add it with a reason"
            )
        yield Package(name, version, licence)


def page(root: Path = ROOT) -> str:
    """Return the up-to-date page."""
    parts, seen = [_INTRODUCTION], set[Package]()
    for lock, title in LOCKS.items():
        rows = [f"## {title}\n\n| Package | Version | Licence |\n| --- | --- | --- |"]
        for package in packages((root / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")):
            if package not in seen:
                seen.add(package)
                link = f"[{package.name}](https://pypi.org/project/{package.name}/)"
                rows.append(f"| {link} | {package.version} | {package.licence} |")
        parts.append("\n".join(rows) + "\n")
    notes = [f"{licence} {why}." for licence, why in WEAK.items()]
    return "\n".join([*parts, *notes]) + "\n"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line, and return the exit code."""
    try:
        return generated.main(
            "tools.release.licences", lambda: {PAGE: page(root)}, "the locks", arguments, root
        )
    except LicenceError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
