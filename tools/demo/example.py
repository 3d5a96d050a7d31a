"""Find a manifest of examples/ by name, with what it contains and what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lws_api.disaggregatedset import v1 as disaggregated
from lws_api.leaderworkerset.v1 import KIND
from tools.deployment import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
# The one written in C, where PyYAML has it, takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_AUTOSCALER = "HorizontalPodAutoscaler"
_STAND_INS = {"ScaledObject": Path(__file__).parent / "stand_ins" / "scaledobjects.keda.sh.yaml"}


class UnknownExampleError(LookupError):
    """No manifest has that name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Example:
    """One manifest.

    name: its path without suffix. comment: the lines it opens with, without their signs. sets, disaggregated:
    its LeaderWorkerSets and DisaggregatedSets by name, as written. least: groups that an autoscaler leaves a
    set, or the role of a scaler, at least. needs: definitions of kinds that a plain cluster lacks.
    """

    name: str
    path: Path
    comment: tuple[str, ...]
    sets: Mapping[str, Mapping[str, Any]]
    least: Mapping[str, int]
    disaggregated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: tuple[Path, ...] = ()


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
    scaled = [each["spec"] for each in objects if each["kind"] == _AUTOSCALER]
    kinds = {each["kind"] for each in objects}
    return Example(
        wanted,
        path,
        tuple(_comment(text)),
        sets=_by_name(objects, KIND),
        least={spec["scaleTargetRef"]["name"]: int(spec.get("minReplicas", 1)) for spec in scaled},
        disaggregated=_by_name(objects, disaggregated.KIND),
        needs=tuple(definition for kind, definition in _STAND_INS.items() if kind in kinds),
    )


def _by_name(objects: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Mapping[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def _comment(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:].removeprefix(" "))
    return lines
