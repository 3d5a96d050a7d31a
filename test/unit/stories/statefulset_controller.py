"""A small fake of the StatefulSet controller (Kubernetes 1.36, podManagementPolicy Parallel), and of the pods
it makes.

What it deletes, and when, follows the real one step by step; everything else is left out. A pod stands for
its whole group: it is created, gets its workers, its leader gets ready, its workers get ready, and on
deletion it lingers a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count


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
    asked: int | None = None
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
        self.current_revision = self.current_revision or self.revision
        acted = self._create_missing() | self._scale_down() | self._update()
        self._complete_update()
        return acted or before != (self.observed_generation, self.current_revision, self.update_revision)

    def _create_missing(self) -> bool:
        missing = [index for index in range(self.replicas) if index not in self.pods]
        for index in missing:
            revision = self.current_revision if index < self.partition else self.update_revision
            self.pods[index] = FakePod(next(self._uids), revision)
        return bool(missing)

    def _scale_down(self) -> bool:
        condemned = [
            pod for index, pod in self.pods.items() if index >= self.replicas and not pod.terminating
        ]
        for pod in condemned:
            pod.terminating = True
        return bool(condemned)

    def _update(self) -> bool:
        targets = self._one_at_a_time() if self.max_unavailable is None else self._several_at_once()
        for index in targets:
            self.pods[index].terminating = True
        self.taken += targets
        return bool(targets)

    def _one_at_a_time(self) -> list[int]:
        for index in reversed(range(self.partition, self.replicas)):
            pod = self.pods[index]
            if pod.revision != self.update_revision and not pod.terminating:
                return [index]
            if not pod.is_available:
                return []
        return []

    def _several_at_once(self) -> list[int]:
        unavailable = sum(not self.pods[index].is_available for index in range(self.replicas))
        outdated = [
            index
            for index in reversed(range(self.partition, self.replicas))
            if self.pods[index].revision != self.update_revision and not self.pods[index].terminating
        ]
        return outdated[: max(0, (self.max_unavailable or 0) - unavailable)]

    def _complete_update(self) -> None:
        updated = [
            pod for pod in self.pods.values() if pod.revision == self.update_revision and not pod.terminating
        ]
        ready = [pod for pod in self.pods.values() if pod.leader_ready]
        if len(self.pods) == len(updated) == len(ready) == self.replicas:
            self.current_revision = self.update_revision
