"""Tests that the fake StatefulSet controller does what a real one did.

`test.integration.record_statefulsets` recorded the sequences, with the feature MaxUnavailableStatefulSet off
and on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from test.unit.stories.statefulset_sync import SeenPod, StatefulSetSpec, sync

RECORDED = Path(__file__).parent / "recorded"


@dataclass
class Replay:
    """One StatefulSet with the pods of the recording. Revisions are named after their templates."""

    spec: StatefulSetSpec = field(default_factory=lambda: StatefulSetSpec(replicas=0, current="", update=""))
    pods: dict[int, SeenPod] = field(default_factory=dict)

    def do(self, step: list[Any]) -> dict[str, Any]:
        """Repeat one recorded action. Return what the controller then does until it settles."""
        kind, value = step
        if kind == "spec":
            self._apply_spec(value)
        elif kind == "gone":
            del self.pods[value]
        else:
            self.pods[value] = _changed(self.pods[value], kind)
        created: list[list[Any]] = []
        deleted: list[int] = []
        while True:
            did = sync(self.spec, self.pods.values())
            if not did.create and not did.deleted and did.current == self.spec.current:
                break
            for ordinal, revision in did.create:
                self.pods[ordinal] = SeenPod(ordinal, revision)
            for ordinal in did.deleted:
                self.pods[ordinal] = replace(self.pods[ordinal], terminating=True)
            self.spec = replace(self.spec, current=did.current)
            created += map(list, did.create)
            deleted += did.deleted
        return {
            "create": sorted(created),
            "delete": sorted(deleted, reverse=True),
            "current": self.spec.current,
        }

    def _apply_spec(self, spec: dict[str, Any]) -> None:
        update = spec.get("template", self.spec.update)
        self.spec = replace(
            self.spec,
            replicas=spec.get("replicas", self.spec.replicas),
            partition=spec.get("partition", self.spec.partition),
            max_unavailable=spec.get("maxUnavailable", self.spec.max_unavailable),
            current=self.spec.current or update,
            update=update,
        )


def _changed(pod: SeenPod, kind: str) -> SeenPod:
    changes = {
        "ready": {"ready": True},
        "unready": {"ready": False},
        "failed": {"ready": False, "ended": True},
        "delete": {"terminating": True},
    }
    return replace(pod, **changes[kind])


def recordings(feature: str) -> list[list[dict[str, Any]]]:
    sequences: list[list[dict[str, Any]]] = json.loads((RECORDED / f"feature-{feature}.json").read_text())
    return sequences


@pytest.mark.parametrize("feature", ["off", "on"])
def test_the_fake_matches_the_recordings(feature: str) -> None:
    for number, steps in enumerate(recordings(feature)):
        replay = Replay()
        for index, step in enumerate(steps):
            seen = {name: step[name] for name in ("create", "delete", "current")}
            assert replay.do(step["do"]) == seen, f"sequence {number}, step {index}: {step['do']}, {replay}"


@pytest.mark.parametrize("feature", ["off", "on"])
def test_the_recordings_cover_the_cases_of_a_rollout(feature: str) -> None:
    steps = [step for steps in recordings(feature) for step in steps]
    kinds = {step["do"][0] for step in steps}
    changed = {key for step in steps if step["do"][0] == "spec" for key in step["do"][1]}
    moved = [step for step in steps if step["delete"] and step["do"][0] != "spec"]
    assert len(recordings(feature)) == 25
    assert kinds == {"spec", "ready", "unready", "failed", "delete", "gone"}
    assert {"replicas", "template", "partition"} <= changed
    assert len(moved) >= 10
    assert any(len(step["delete"]) > 1 for step in steps)
