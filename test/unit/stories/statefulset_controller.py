"""A small fake of the StatefulSet controller (Kubernetes 1.37, podManagementPolicy Parallel) and of its pods.

It decides what to delete and create as the real one does. A pod stands for its whole group: it is created,
gets its workers, its leader becomes ready, its workers become ready, and on deletion it lingers a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from test.unit.stories.statefulset_sync import SeenPod, StatefulSetSpec, sync


@dataclass
class FakePod:
    """A leader pod with its workers, whose flags a StatefulSet controller does not see."""

    uid: int
    revision: str
    formed: bool = False
    leader_ready: bool = False
    workers_ready: bool = False
    terminating: bool = False
    broken: bool = False

    @property
    def is_available(self) -> bool:
        """Whether the StatefulSet controller counts the pod as available: by the leader alone."""
        return self.leader_ready and not self.terminating

    @property
    def is_serving(self) -> bool:
        """Whether the whole group serves and is not terminating."""
        return self.is_available and self.workers_ready


@dataclass
class FakeStatefulSet:
    """The leader StatefulSet with its controller.

    max_unavailable: the field of that name; None if the feature is off.
    """

    replicas: int
    revision: str
    partition: int = 0
    last_replicas: int | None = None
    max_unavailable: int | None = None
    generation: int = 1
    observed_generation: int = 0
    current_revision: str = ""
    update_revision: str = ""
    pods: dict[int, FakePod] = field(default_factory=dict)
    taken: list[int] = field(default_factory=list)
    """Leaders that the controller has deleted for the update so far, in the background."""
    _uids: count[int] = field(default_factory=lambda: count(1))

    def sync(self) -> bool:
        """Run one pass of the controller. Return whether it did or reported anything."""
        before = (self.observed_generation, self.current_revision, self.update_revision)
        self.observed_generation = self.generation
        self.update_revision = self.revision
        did = sync(
            StatefulSetSpec(
                replicas=self.replicas,
                current=self.current_revision or self.revision,
                update=self.revision,
                partition=self.partition,
                max_unavailable=self.max_unavailable,
            ),
            (
                SeenPod(index, pod.revision, ready=pod.leader_ready, terminating=pod.terminating)
                for index, pod in self.pods.items()
            ),
        )
        for index, revision in did.create:
            self.pods[index] = FakePod(next(self._uids), revision)
        for index in did.deleted:
            self.pods[index].terminating = True
        self.taken += did.replace
        self.current_revision = did.current
        after = (self.observed_generation, self.current_revision, self.update_revision)
        return bool(did.create or did.deleted) or before != after
