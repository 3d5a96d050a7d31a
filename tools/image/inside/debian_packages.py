"""Answers: which packages of Debian do files of the image belong to?

In: paths, and the records of dpkg. Out: for each of these packages its record, and its licence, where
scanners of images look for them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

RECORDS = "var/lib/dpkg/status.d"


def owners_of(paths: set[str], dpkg: Path) -> Iterator[str]:
    """The names of the packages, without architecture."""
    wanted = {_merged(path) for path in paths}
    for listed in sorted((dpkg / "info").glob("*.list")):
        lines = listed.read_text(encoding="utf-8").splitlines()
        if any(_merged(line) in wanted for line in lines):
            yield listed.stem.partition(":")[0]


def records_in(status: str) -> dict[str, str]:
    """Name of an installed package → what dpkg says of it."""
    blocks = [block.strip() + "\n" for block in status.split("\n\n") if block.strip()]
    return {_name(block): block for block in blocks if "\nStatus: install ok installed\n" in block}


def copy_records(paths: set[str], target: Path, source: Path = Path("/")) -> None:
    """Write down which packages the files at `paths` come from; nothing where the base has no dpkg."""
    dpkg = source / "var/lib/dpkg"
    if not (dpkg / "status").exists():
        return
    records = records_in((dpkg / "status").read_text(encoding="utf-8"))
    (target / RECORDS).mkdir(parents=True)
    for name in sorted(set(owners_of(paths, dpkg)) & set(records)):
        (target / RECORDS / name).write_text(records[name], encoding="utf-8")
        licence = source / "usr/share/doc" / name / "copyright"
        if licence.exists():
            place = target / "usr/share/doc" / name
            place.mkdir(parents=True)
            shutil.copyfile(licence, place / "copyright")


def _name(record: str) -> str:
    return record.partition("\n")[0].removeprefix("Package: ")


def _merged(path: str) -> str:
    """/lib/x and /usr/lib/x are one file, and packages list it under either."""
    return path if path.startswith("/usr/") else f"/usr{path}"
