"""Copy what the image needs from its base: `python -m inside.root_files /opt/lws /image`.

This is the environment, its interpreter, the standard library, the libraries that these load, certificate
authorities and users, with the records and licences of their Debian packages where scanners look for them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

RECORDS = "var/lib/dpkg/status.d"


def owners_of(paths: set[str], dpkg: Path) -> Iterator[str]:
    """Yield the names of the packages to which the files belong, without architecture."""
    merged = {_merged(path) for path in paths}
    for listed in sorted((dpkg / "info").glob("*.list")):
        lines = listed.read_text(encoding="utf-8").splitlines()
        if any(_merged(line) in merged for line in lines):
            yield listed.stem.partition(":")[0]


def records_in(status: str) -> dict[str, str]:
    """Return name of an installed package → its record in dpkg's status."""
    blocks = [block.strip() + "\n" for block in status.split("\n\n") if block.strip()]
    return {_name(block): block for block in blocks if "\nStatus: install ok installed\n" in block}


def copy_records(paths: set[str], target: Path, source: Path = Path("/")) -> None:
    """Copy the records of the packages to which these files belong; nothing if the base has no dpkg."""
    dpkg = source / "var/lib/dpkg"
    if not (dpkg / "status").exists():
        return
    records = records_in((dpkg / "status").read_text(encoding="utf-8"))
    (target / RECORDS).mkdir(parents=True)
    for name in sorted(set(owners_of(paths, dpkg)) & set(records)):
        (target / RECORDS / name).write_text(records[name], encoding="utf-8")
        licence = source / "usr/share/doc" / name / "copyright"
        if licence.exists():
            directory = target / "usr/share/doc" / name
            directory.mkdir(parents=True)
            shutil.copyfile(licence, directory / "copyright")


def _name(record: str) -> str:
    return record.partition("\n")[0].removeprefix("Package: ")


def _merged(path: str) -> str:
    """Return a path below /usr: /lib/x and /usr/lib/x are the same file, and packages list either of them."""
    return path if path.startswith("/usr/") else f"/usr{path}"


USER = 65532
# These are imported by nothing, or only by programs that are not in the image. ensurepip contains pip.
_LEFT_OUT = re.compile(
    r"(?:config-3.*|dist-packages|ensurepip|idlelib|lib2to3|pydoc_data|site-packages|test|tkinter"
    r"|turtle\.py|turtledemo|_tkinter\..*|_test.*\.so|_ctypes_test.*\.so|xxlimited.*\.so)"
)
# Modules are compiled again, so that they need not be compared with their sources.
_COMPILED = re.compile("__pycache__")
_SHARED_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_OF_THE_BASE = ("/etc/ld.so.cache", "/etc/os-release", "/usr/lib/ssl/openssl.cnf", "/etc/ssl/openssl.cnf")

Run = Callable[[list[str]], str]


class RootFiles:
    """A root file system that is filled from another one, at the same paths."""

    def __init__(self, target: Path, source: Path = Path("/")) -> None:
        self._target, self._source = target, source
        self.copied: set[str] = set()
        """Absolute paths of the copied files in the source, without links."""

    def add(self, path: Path, but: re.Pattern[str] = _COMPILED) -> None:
        """Copy a file or tree, except names that match `but`, with the links on its way and their targets."""
        real = self._add_links(path)
        origin = self._source / real.relative_to("/")
        if origin.is_dir():
            self._make(real)
            for entry in sorted(origin.iterdir()):
                if not but.fullmatch(entry.name) and not _COMPILED.fullmatch(entry.name):
                    self.add(real / entry.name, but)
        elif str(real) not in self.copied and origin.is_file():
            self._make(real.parent)
            shutil.copy2(origin, self._target / real.relative_to("/"))
            self.copied.add(str(real))

    def write(self, path: str, text: str) -> None:
        """Write a file that does not come from the source."""
        file = self._target / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _make(self, directory: Path) -> None:
        (self._target / directory.relative_to("/")).mkdir(parents=True, exist_ok=True)

    def _add_links(self, path: Path) -> Path:
        """Return the path without symbolic links, and copy the links that were part of it."""
        real = Path("/")
        for part in path.parts[1:]:
            step = real / part
            origin = self._source / step.relative_to("/")
            if not origin.is_symlink():
                real = step
                continue
            link, copy = os.readlink(origin), self._target / step.relative_to("/")
            if not copy.is_symlink():
                self._make(step.parent)
                copy.symlink_to(link)
            real = self._add_links(Path(os.path.normpath(step.parent / link)))
        return real


def libraries_of(paths: list[str], run: Run) -> Iterator[str]:
    """Yield the shared libraries that programs and libraries load when they start, the loader included."""
    for path in paths:
        yield from _SHARED_LIBRARY.findall(run(["ldd", path]))


def _loads_libraries(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def main(environment: Path, target: Path) -> None:
    """Fill the root file system at `target`."""
    files = RootFiles(target)
    files.add(environment)
    files.add(environment / "bin" / "python3")
    files.add(Path(sysconfig.get_path("stdlib")), but=_LEFT_OUT)
    programs = [path for path in sorted(files.copied) if _loads_libraries(Path(path))]
    for library in sorted(set(libraries_of(programs, _run))):
        files.add(Path(library))
    for path in (*map(Path, _OF_THE_BASE), _AUTHORITIES):
        if path.exists():
            files.add(path)
    files.write("/etc/passwd", f"root:x:0:0:root:/:/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/nologin\n")
    files.write("/etc/group", f"root:x:0:\nnonroot:x:{USER}:\n")
    files.write("/etc/nsswitch.conf", "hosts: files dns\n")
    (target / "tmp").mkdir()
    (target / "tmp").chmod(0o1777)
    copy_records(files.copied, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
