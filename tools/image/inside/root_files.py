"""Answers: which files of the base does the image need?

In: a virtual environment, on the base that it was made on (`python -m inside.root_files /opt/lws /image`).
Out: a directory with it, its interpreter, the standard library, the libraries that these load, authorities
and users; and which packages of Debian those files belong to, where scanners look for that.
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

from .debian_packages import copy_records

USER = 65532
# Nothing imports them, or only programs that are not in the image; ensurepip carries pip.
_LEFT_OUT = re.compile(
    r"(?:config-3.*|dist-packages|ensurepip|idlelib|lib2to3|pydoc_data|site-packages|test|tkinter"
    r"|turtle\.py|turtledemo|_tkinter\..*|_test.*\.so|_ctypes_test.*\.so|xxlimited.*\.so)"
)
# It is compiled anew, so that it need not be compared with its sources.
_COMPILED = re.compile("__pycache__")
_SHARED_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_OF_THE_BASE = ("/etc/ld.so.cache", "/etc/os-release", "/usr/lib/ssl/openssl.cnf", "/etc/ssl/openssl.cnf")

Run = Callable[[list[str]], str]


class RootFiles:
    """A root file system that is filled from another, at the same paths."""

    def __init__(self, target: Path, source: Path = Path("/")) -> None:
        self._target, self._source = target, source
        self.copied: set[str] = set()
        """Files, without links, by their absolute paths there."""

    def add(self, path: Path, but: re.Pattern[str] = _COMPILED) -> None:
        """Copy a file or a tree, with the symbolic links on the way to it and what these point to.

        `but`: which names in the tree stay behind.
        """
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
        """A file of our own."""
        place = self._target / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def _make(self, directory: Path) -> None:
        (self._target / directory.relative_to("/")).mkdir(parents=True, exist_ok=True)

    def _add_links(self, path: Path) -> Path:
        """Return the path without symbolic links; those that were on it are there afterwards."""
        real = Path("/")
        for part in path.parts[1:]:
            step = real / part
            origin = self._source / step.relative_to("/")
            if not origin.is_symlink():
                real = step
                continue
            link, place = os.readlink(origin), self._target / step.relative_to("/")
            if not place.is_symlink():
                self._make(step.parent)
                place.symlink_to(link)
            real = self._add_links(Path(os.path.normpath(step.parent / link)))
        return real


def libraries_of(paths: list[str], run: Run) -> Iterator[str]:
    """The shared libraries that programs and libraries load when they start, the loader included."""
    for path in paths:
        yield from _SHARED_LIBRARY.findall(run(["ldd", path]))


def _loads_libraries(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def main(environment: Path, target: Path) -> None:
    """Fill `target`."""
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
