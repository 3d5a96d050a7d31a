"""A small fake of the StatefulSet controller (Kubernetes 1.37, podManagementPolicy Parallel), and of the pods
it makes.

What it deletes and creates is decided as the real one does it. A pod stands for its whole group: it is
created, gets its workers, its leader gets ready, its workers get ready, and on deletion it lingers a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from test.unit.stories.statefulset_sync import SeenPod, Told, sync


@dataclass
class FakePod:
    """A leader pod and, in the flags that a StatefulSet controller does not see, its workers."""

    uid: int
    revision: str
    formed: bool = False
    leader_ready: bool = False
    workers_ready: bool = False
    terminating: bool = False
    broken: bool = False

    @property
    def is_available(self) -> bool:
        """As the StatefulSet controller counts: the leader alone."""
        return self.leader_ready and not self.terminating

    @property
    def is_serving(self) -> bool:
        """As users count: the whole group, and not on its way out."""
        return self.is_available and self.workers_ready


@dataclass
class FakeStatefulSet:
    """The leader StatefulSet with its controller. max_unavailable is None where the feature is off."""

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
    """Leaders that the controller has deleted for the update, in the background, so far."""
    _uids: count[int] = field(default_factory=lambda: count(1))

    def sync(self) -> bool:
        """One pass of the controller; True if it did or reported anything."""
        before = (self.observed_generation, self.current_revision, self.update_revision)
        self.observed_generation = self.generation
        self.update_revision = self.revision
        did = sync(
            Told(
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
