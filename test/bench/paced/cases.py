"""Rollouts of slow pods to measure, by names such as 1x40x4-uniform or 1x40x4-uniform-surge2."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from test.bench.manifests import OLD, pod_spec
from test.bench.paced.startups import STARTUPS, Startup
from test.bench.shapes import Shape, parse

_CASE = re.compile(r"(\d+x\d+x\d+)-(\w+?)(?:-surge(\d+))?")

DEFAULT = ("1x40x4-uniform", "1x40x4-tail", "1x100x4-uniform", "1x100x4-tail", "1x40x4-uniform-surge2")
ALL = "paced"
"""Stands for all cases."""


@dataclass(frozen=True)
class Case:
    """A rollout of slow pods. unavailable, surge: the budget of the rollout, in groups."""

    name: str
    shape: Shape
    startup: Startup
    unavailable: int
    surge: int

    @property
    def budget(self) -> int:
        return self.unavailable + self.surge

    @property
    def order(self) -> range:
        """Return the groups in the order of a rollout: from the top, surge groups first."""
        return range(self.shape.groups + self.surge - 1, -1, -1)

    @property
    def set_name(self) -> str:
        return f"slow-{self.name}"

    @property
    def spec(self) -> dict[str, Any]:
        """Return the part of a set's `spec` that differs from other shapes; all pods start at once."""
        template = self._template(OLD, {})
        limits = {"maxUnavailable": self.unavailable, "maxSurge": self.surge}
        strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}
        return {"leaderWorkerTemplate": template, "rolloutStrategy": strategy, "replicas": self.shape.groups}

    def rolled(self, image: str) -> dict[str, Any]:
        """Return the patch that starts a rollout with slow leaders and fast workers."""
        return {"spec": {"leaderWorkerTemplate": self._template(image, self.startup.annotations)}}

    def seconds_of(self, index: int) -> float:
        """Return the seconds that a group takes to become ready after its leader is on a node."""
        return self.startup.of(f"{self.set_name}-{index}")

    def _template(self, image: str, annotations: dict[str, str]) -> dict[str, Any]:
        return {
            "size": self.shape.size,
            "leaderTemplate": {"metadata": {"annotations": annotations}, "spec": pod_spec(image)},
            "workerTemplate": {"spec": pod_spec(image)},
        }


def is_paced(text: str) -> bool:
    """Report whether the text names a rollout of slow pods, or all of them."""
    return text.strip() == ALL or "-" in text.strip().removesuffix("-ending").removesuffix("-hash")


def parse_cases(text: str) -> list[Case]:
    """Parse the name of a case, or of all cases. Raise ValueError with the expected format."""
    return [_parsed(case_text) for case_text in (DEFAULT if text.strip() == ALL else [text.strip()])]


def _parsed(text: str) -> Case:
    match = _CASE.fullmatch(text)
    if match is None or match[2] not in STARTUPS:
        startups = ", ".join(STARTUPS)
        raise ValueError(
            f"{text!r} is no rollout of slow pods: write a shape and one of {startups}, such as "
            "1x40x4-uniform, or 1x40x4-uniform-surge2"
        )
    shape, surge = parse(match[1]), int(match[3] or 0)
    if shape.sets != 1:
        raise ValueError(f"{text!r}: one set at a time")
    unavailable = 0 if surge else max(1, shape.groups // 10)
    return Case(text, shape, STARTUPS[match[2]], unavailable, surge)
