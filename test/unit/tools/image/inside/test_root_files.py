"""Which files of a base are copied into the image, and where."""

from __future__ import annotations

import re
from pathlib import Path

from tools.image.inside.root_files import RootFiles, libraries_of


def source_in(directory: Path) -> Path:
    """Create a base with the layout of Debian."""
    base = directory / "base"
    for path in ("usr/bin/python3.13", "usr/lib/x/libc.so.6", "usr/lib/python3.13/os.py"):
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_text(path)
    for path in ("test/test_os.py", "ensurepip/pip.whl", "__pycache__/os.pyc", "json/decoder.py"):
        folder = base / "usr/lib/python3.13" / path
        folder.parent.mkdir()
        folder.touch()
    (base / "lib").symlink_to("usr/lib")
    (base / "usr/bin/python3").symlink_to("python3.13")
    (base / "opt/lws/bin").mkdir(parents=True)
    (base / "opt/lws/bin/python").symlink_to("/usr/bin/python3")
    return base


def test_links_keep_their_targets(tmp_path: Path) -> None:
    base, image = source_in(tmp_path), tmp_path / "image"
    files = RootFiles(image, base)
    files.add(Path("/opt/lws/bin/python"))
    files.add(Path("/lib/x/libc.so.6"))
    assert (image / "opt/lws/bin/python").readlink() == Path("/usr/bin/python3")
    assert (image / "usr/bin/python3").readlink() == Path("python3.13")
    assert (image / "usr/bin/python3.13").read_text() == "usr/bin/python3.13"
    assert (image / "lib").is_symlink() and (image / "lib/x/libc.so.6").exists()
    assert files.copied == {"/usr/bin/python3.13", "/usr/lib/x/libc.so.6"}


def test_a_copied_tree_excludes_omitted_files_and_bytecode(tmp_path: Path) -> None:
    files = RootFiles(tmp_path / "image", source_in(tmp_path))
    files.add(Path("/usr/lib/python3.13"), but=re.compile("test|ensurepip"))
    assert files.copied == {"/usr/lib/python3.13/os.py", "/usr/lib/python3.13/json/decoder.py"}


LDD = """\
\tlinux-vdso.so.1 (0x00007ffc)
\tlibssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007f1)
\tlibmissing.so => not found
\t/lib64/ld-linux-x86-64.so.2 (0x00007f2)
"""


def test_libraries_and_the_loader_are_read_from_ldd() -> None:
    commands: list[list[str]] = []

    def run(command: list[str]) -> str:
        commands.append(command)
        return LDD

    assert set(libraries_of(["/usr/bin/python3.13"], run)) == {
        "/lib/x86_64-linux-gnu/libssl.so.3",
        "/lib64/ld-linux-x86-64.so.2",
    }
    assert commands == [["ldd", "/usr/bin/python3.13"]]
