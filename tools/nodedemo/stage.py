"""Answers: what does an act of the tour need to see and to do?

In: a cluster with a real node, a display. Out: pods when they have come, commands shown and run, checks.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.demo.plain import PlainShow
from tools.realnode.cluster import RealCluster

NAMESPACE = "default"
SET = "members"
GROUPS, SIZE = 2, 3
NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"

_SECONDS = 300.0
_POLL_SECONDS = 0.1

Pod = Mapping[str, Any]


class NotInTimeError(RuntimeError):
    """What an act waits for did not come."""


@dataclass(frozen=True)
class Stage:
    """A cluster, and where its tour is told."""

    cluster: RealCluster
    show: PlainShow

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        self.show.say(f"$ kubectl {' '.join(arguments)}")
        return self.cluster.kubectl(*arguments, input=input)

    def helm(self, *arguments: str) -> str:
        self.show.say(
            f"$ helm {' '.join(os.path.relpath(each) if '/' in each else each for each in arguments)}"
        )
        return self.cluster.helm(*arguments)

    def object(self, *what: str) -> dict[str, Any]:
        return dict(json.loads(self.cluster.kubectl("get", *what, "-o", "json")))

    def pods(self, selector: str = f"{NAME_LABEL}={SET}", namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """Those of the set, by group and worker."""
        return sorted(self.cluster.pods.matching(namespace, selector), key=_place)

    def until(self, wanted: str, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The pods of the set, once `holds` does. Raises NotInTimeError."""
        self.show.wait_for(wanted)
        deadline = time.monotonic() + _SECONDS
        while not holds(pods := self.pods()):
            if time.monotonic() > deadline:
                there = ", ".join(f"{name_of(pod)} {pod['status'].get('phase')}" for pod in pods)
                raise NotInTimeError(
                    f"{wanted}: not within {_SECONDS:.0f} s; there are: {there or 'no pods'}"
                )
            time.sleep(_POLL_SECONDS)
        return pods


def name_of(pod: Pod) -> str:
    return str(pod["metadata"]["name"])


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def group_of(pod: Pod) -> str:
    return str(pod["metadata"]["labels"].get(GROUP_LABEL, ""))


def is_ready(pod: Pod) -> bool:
    """Ready, and not being deleted."""
    conditions = pod["status"].get("conditions", [])
    leaving = "deletionTimestamp" in pod["metadata"]
    return not leaving and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def all_ready(pods: list[dict[str, Any]]) -> bool:
    """The whole set: every pod of every group."""
    return len(pods) == GROUPS * SIZE and all(map(is_ready, pods))


def _place(pod: Pod) -> tuple[str, str, str]:
    labels = pod["metadata"]["labels"]
    return labels.get(GROUP_LABEL, ""), labels.get(WORKER_LABEL, ""), name_of(pod)
