"""Answers: what has to be found, fetched and built before a node starts? Outside, where there is a network.

In: the machine, archives of further images. Out: a kit. Raises MissingError, BuildError or NoGoError.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.localcluster.build import cache_directory, find_programs
from tools.localcluster.components import Options
from tools.localcluster.progress import Report
from tools.localcluster.versions import DEFAULT, VARIABLE, chosen_minor
from tools.realnode.debian import SystemPrograms, find_system_programs, lacking_packages
from tools.realnode.errors import MissingError
from tools.realnode.images import write_archives
from tools.realnode.kit import Kit
from tools.realnode.network import NODE_ADDRESS
from tools.realnode.recipe import build_programs
from tools.realnode.requirements import Machine, can_overlay, lacks

_CACHE = "realnode"


def require_machine(state_folder: Path, machine: Machine | None = None) -> SystemPrograms:
    """Return what the system brings. Raises MissingError with all that is lacking; nothing is built."""
    cache = cache_directory()
    found = lacks(machine or Machine(), cache, state_folder)
    if chosen_minor() != DEFAULT:
        found.insert(0, f"a real node is of Kubernetes {DEFAULT}: leave out {VARIABLE}")
    if found:
        raise MissingError("; ".join([*found, *lacking_packages(cache / _CACHE)]))
    return find_system_programs(cache / _CACHE)


def prepare(state: Path, system: SystemPrograms, archives: Sequence[Path], report: Report) -> Kit:
    """Build what is missing, and return what a node in `state` is made of."""
    find_programs([*Options(node_address=NODE_ADDRESS).programs, "kubectl", "helm"], report)
    built = build_programs(report)
    small = write_archives(built, cache_directory() / _CACHE)
    return Kit(
        name=state.name,
        state=str(state),
        overlay=can_overlay(state, Machine()),
        programs={name: str(path) for name, path in {**built, **system.paths}.items()},
        libraries=tuple(map(str, system.libraries)),
        archives=tuple(str(archive.resolve()) for archive in (*small, *archives)),
    )
