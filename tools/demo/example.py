"""Answers: which examples are there, and what does one of them ask for?

In: the manifests of examples/. Out: one by its name, with what it says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lws_api.leaderworkerset.v1 import KIND
from tools.deployment import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
# The one written in C, where PyYAML has it, takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_AUTOSCALER = "HorizontalPodAutoscaler"


class UnknownExampleError(LookupError):
    """No manifest has that name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Example:
    """One manifest.

    name: its path without suffix. comment: the lines it opens with, without their signs. sets: its
    LeaderWorkerSets by name, as written. least: groups that an autoscaler will not let a set go below.
    """

    name: str
    path: Path
    comment: tuple[str, ...]
    sets: Mapping[str, Mapping[str, Any]]
    least: Mapping[str, int]


def example_names(directory: Path = EXAMPLES) -> list[str]:
    """What may be asked for."""
    found = (path.relative_to(directory).with_suffix("") for path in directory.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found)


def find_example(name: str, directory: Path = EXAMPLES) -> Example:
    """The example of that name, with or without its suffix. Raises UnknownExampleError."""
    known, wanted = example_names(directory), name.removesuffix(".yaml")
    if wanted not in known:
        raise UnknownExampleError(f"there is no example {name!r}; DEMO may be one of: {', '.join(known)}")
    path = directory / f"{wanted}.yaml"
    text = path.read_text("utf-8")
    objects = [each for each in yaml.load_all(text, Loader=_LOADER) if each]
    sets = {each["metadata"]["name"]: each for each in objects if each["kind"] == KIND}
    scaled = [each["spec"] for each in objects if each["kind"] == _AUTOSCALER]
    least = {spec["scaleTargetRef"]["name"]: int(spec.get("minReplicas", 1)) for spec in scaled}
    return Example(wanted, path, tuple(_comment(text)), sets, least)


def _comment(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:].removeprefix(" "))
    return lines
