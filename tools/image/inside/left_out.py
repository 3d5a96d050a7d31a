"""Remove from a virtual environment what the image does not need: `python -m inside.left_out /opt/lws`.

The generated models and calls of the Kubernetes client are nine tenths of the environment. The client loads
each module when its name is used, and the manager uses none of these names, because users' objects stay plain
dicts. All unit tests run without these modules (test/unit/conftest.py), and so does the manager in the image.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

KEPT_MODULES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "kubernetes.aio.client.api": frozenset(),
        "kubernetes.aio.client.models": frozenset(),
        "kubernetes.client.api": frozenset(),
        # kopf imports these classes to recognise their objects.
        "kubernetes.client.models": frozenset(
            {"v1_managed_fields_entry", "v1_object_meta", "v1_owner_reference"}
        ),
    }
)
"""Package → its modules that stay beside the package itself. Packages not listed stay complete."""

_LEFT_OUT_SUFFIXES = frozenset({".c", ".h", ".pxd", ".pxi", ".pyi", ".pyx"})
_PROGRAMS = re.compile(r"python[0-9.]*|lws|kubectl.lws|kubectl_complete-lws")


def left_out(module: str) -> bool:
    """Report whether the image leaves out this module, given by its full name."""
    package, _, name = module.rpartition(".")
    return package in KEPT_MODULES and name not in KEPT_MODULES[package]


def unneeded(site_packages: Path) -> Iterator[Path]:
    """Yield every file below `site_packages` that the image does not need."""
    for path in sorted(site_packages.rglob("*")):
        module = ".".join(path.relative_to(site_packages).with_suffix("").parts)
        is_module = path.suffix == ".py" and path.stem != "__init__"
        if path.suffix in _LEFT_OUT_SUFFIXES or (is_module and left_out(module)):
            yield path


def main(environment: Path) -> None:
    """Remove these files and programs from the environment."""
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    programs = (
        path for path in sorted((environment / "bin").iterdir()) if not _PROGRAMS.fullmatch(path.name)
    )
    for path in (*unneeded(site_packages), *programs):
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
