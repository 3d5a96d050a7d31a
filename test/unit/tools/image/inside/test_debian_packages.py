"""Scanners find exactly the Debian packages whose files are in the image."""

from __future__ import annotations

from pathlib import Path

from tools.image.inside.root_files import RECORDS, copy_records

STATUS = """Package: libc6
Status: install ok installed
Version: 2.41-12

Package: bash
Status: install ok installed
Version: 5.2

Package: gone
Status: deinstall ok config-files
Version: 1
"""
LISTS = {
    "libc6:amd64": "/.\n/usr\n/usr/lib/x/libc.so.6\n",
    "bash": "/.\n/usr\n/usr/bin/bash\n",
    "gone": "/usr/lib/x/libc.so.6\n",
}


def test_records_and_licences_of_installed_packages(tmp_path: Path) -> None:
    dpkg, image = tmp_path / "var/lib/dpkg", tmp_path / "image"
    (dpkg / "info").mkdir(parents=True)
    (dpkg / "status").write_text(STATUS)
    for name, files in LISTS.items():
        (dpkg / "info" / f"{name}.list").write_text(files)
    licence = tmp_path / "usr/share/doc/libc6/copyright"
    licence.parent.mkdir(parents=True)
    licence.write_text("LGPL")
    copy_records({"/lib/x/libc.so.6"}, image, tmp_path)
    assert [path.name for path in (image / RECORDS).iterdir()] == ["libc6"]
    assert "Version: 2.41-12" in (image / RECORDS / "libc6").read_text()
    assert (image / "usr/share/doc/libc6/copyright").read_text() == "LGPL"


def test_a_base_without_dpkg_has_no_records(tmp_path: Path) -> None:
    copy_records({"/usr/bin/python3"}, tmp_path / "image", tmp_path)
    assert not (tmp_path / "image").exists()
