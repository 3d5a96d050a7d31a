"""A cluster in memory with DisaggregatedSets, their users, and all controllers that act on them.

All other clients and controllers act between two writes of the manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lws.disaggregatedset.registration import REGISTRATION
from lws.disaggregatedset.status import ROLES_EDITED
from lws.kube.metadata import controller_of
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Key
from lws_api.disaggregatedset.v1 import KIND, REVISION_LABEL, ROLE_LABEL
from test.unit.stories.fake_cluster import FakeCluster
from test.unit.stories.fake_manager import FakeManager
from test.unit.stories.fake_nodes import FakeNodes

CHILD = "LeaderWorkerSet"
_MOST_ROUNDS = 2000


@dataclass(frozen=True)
class Row:
    """Desired groups of the LeaderWorkerSets by role, on old revisions and on the newest one."""

    old: dict[str, int]
    new: dict[str, int]

    def __str__(self) -> str:
        return f"{_counts(self.old)} | {_counts(self.new)}"


def _counts(counts: dict[str, int]) -> str:
    return ",".join(str(counts[role]) for role in sorted(counts)) or "-"


class World:
    """One set named demo, and everything that acts on it.

    is_edited: whether the test edits templates of children. If it does not, the status must not say so.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster = FakeCluster(has_feature=False)
        self.nodes = FakeNodes(self.cluster)
        self.passes: list[Key] = []
        self.is_edited = False
        self._loop = loop
        self.after_pass: Callable[[], None] = lambda: None
        self.restart()

    def restart(self) -> None:
        """Replace the manager process."""
        registrations = REGISTRATIONS if REGISTRATION in REGISTRATIONS else (*REGISTRATIONS, REGISTRATION)
        self.cluster.before_write = lambda: None
        self.manager = FakeManager(self.cluster, self._loop, self._on_plan, registrations)

    def _on_plan(self, key: Key, snapshot: Any, plan: Any) -> None:
        self.passes.append(key)

    def settle(self) -> None:
        """Play until nothing changes any more."""
        for _ in range(_MOST_ROUNDS):
            if not self.go_on():
                assert self.is_edited or ROLES_EDITED not in self.reported
                return
        raise AssertionError("it does not come to rest")

    def go_on(self) -> bool:
        """Run all queued passes, then one move of everything else. Return whether anything changed."""
        version = self.cluster.version
        while self.manager.late or self.manager.queue.keys:
            for kind in self.manager.late:
                self.manager.read(kind)
            if self.manager.run_pass():
                self.after_pass()
        self.nodes.sync_all()
        self.cluster.collect()
        for move in self.nodes.moves():
            move()
        return version != self.cluster.version

    def edit(self, change: Callable[[dict[str, Any]], object], kind: str = KIND, name: str = "demo") -> None:
        """Change the spec of an object, as a user does."""
        obj = self.get(kind, name)
        spec = _deep(obj["spec"])
        change(spec)
        self.cluster.change(obj, spec=spec)

    def get(self, kind: str, name: str = "demo") -> dict[str, Any]:
        obj = self.cluster.find(kind, name)
        assert obj is not None, f"there is no {kind} {name}"
        return obj

    @property
    def children(self) -> list[dict[str, Any]]:
        """LeaderWorkerSets of the set, by name."""
        own = [
            child for child in self.cluster.of_kind(CHILD) if (controller_of(child) or {}).get("kind") == KIND
        ]
        return sorted(own, key=lambda child: str(child["metadata"]["name"]))

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the desired groups of the LeaderWorkerSets over all slices: revision → role → groups."""
        counts: dict[str, dict[str, int]] = {}
        for child in self.children:
            labels = child["metadata"]["labels"]
            of_key = counts.setdefault(labels[REVISION_LABEL], {})
            role = labels[ROLE_LABEL]
            of_key[role] = of_key.get(role, 0) + child["spec"]["replicas"]
        return counts

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.get(KIND).get("status") or {}
        return status

    @property
    def conditions(self) -> dict[str, str]:
        return {condition["type"]: condition["status"] for condition in self.status.get("conditions", ())}

    @property
    def reported(self) -> frozenset[str]:
        """Types of the conditions of the set; none if it is deleted."""
        status = (self.cluster.find(KIND, "demo") or {}).get("status") or {}
        return frozenset(condition["type"] for condition in status.get("conditions", ()))

    @property
    def reasons(self) -> list[str]:
        """Reasons of the Events about the set."""
        announced = self.manager.recorder.announced
        return [event.reason for event in announced if event.regarding.kind == KIND]


def _deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _deep(item) for key, item in value.items()}
    return [_deep(item) for item in value] if isinstance(value, list) else value
