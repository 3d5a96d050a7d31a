"""One pass of the StatefulSet controller (Kubernetes 1.37, podManagementPolicy Parallel).

test_recorded.py compares it with recordings of the real one; the stories and the state machines use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """The spec of a StatefulSet.

    current, update: its own revisions, as in its status after the controller has seen the template.
    max_unavailable: the field of that name; None if the feature MaxUnavailableStatefulSet is off.
    """

    replicas: int
    current: str
    update: str
    partition: int = 0
    max_unavailable: int | None = None
    start: int = 0


@dataclass(frozen=True, slots=True)
class SeenPod:
    """One pod.

    ready: whether it is Running and Ready, even if terminating. ended: whether its phase is Failed or
    Succeeded.
    """

    ordinal: int
    revision: str
    ready: bool = False
    terminating: bool = False
    ended: bool = False

    @property
    def is_available(self) -> bool:
        """Whether the pod is ready and not terminating."""
        return self.ready and not self.terminating


@dataclass(frozen=True, slots=True)
class Sync:
    """The decisions of one pass, which takes effect in the order of the fields.

    remove: pods that have ended. create: ordinal and revision of missing pods. condemn: pods beyond the
    replicas. replace: pods that move to the update revision. current: the current revision afterwards.
    """

    remove: tuple[int, ...]
    create: tuple[tuple[int, str], ...]
    condemn: tuple[int, ...]
    replace: tuple[int, ...]
    current: str

    @property
    def deleted(self) -> tuple[int, ...]:
        """Ordinals of all deleted pods, without duplicates."""
        return tuple(dict.fromkeys((*self.remove, *self.condemn, *self.replace)))


def sync(told: Told, pods: Iterable[SeenPod]) -> Sync:
    """Decide one pass over `pods`, which are all pods that the StatefulSet controls."""
    seen = {pod.ordinal: pod for pod in pods}
    wanted = range(told.start, told.start + told.replicas)
    living = {ordinal: seen[ordinal] for ordinal in wanted if ordinal in seen}
    return Sync(
        remove=tuple(pod.ordinal for pod in living.values() if pod.ended and not pod.terminating),
        create=tuple((ordinal, _revision(told, ordinal)) for ordinal in wanted if ordinal not in seen),
        condemn=tuple(
            ordinal
            for ordinal in sorted(seen, reverse=True)
            if ordinal not in wanted and not seen[ordinal].terminating
        ),
        replace=_replaced(told, wanted, living),
        current=told.update if _is_complete(told, seen) else told.current,
    )


def _revision(told: Told, ordinal: int) -> str:
    return told.current if ordinal < told.start + told.partition else told.update


def _replaced(told: Told, wanted: range, living: Mapping[int, SeenPod]) -> tuple[int, ...]:
    targets = [ordinal for ordinal in reversed(wanted) if ordinal >= told.start + told.partition]
    if told.max_unavailable is None:
        return _one_at_a_time(told, targets, living)
    down = sum(not (ordinal in living and living[ordinal].is_available) for ordinal in wanted)
    outdated = [ordinal for ordinal in targets if _is_outdated(told, living.get(ordinal))]
    available = [ordinal for ordinal in outdated if living[ordinal].is_available]
    taken = available[: max(0, told.max_unavailable - down)]
    return (*(ordinal for ordinal in outdated if ordinal not in available), *taken)


def _one_at_a_time(told: Told, targets: Iterable[int], living: Mapping[int, SeenPod]) -> tuple[int, ...]:
    for target in targets:
        pod = living.get(target)
        if _is_outdated(told, pod):
            return (target,)
        if pod is None or not pod.is_available:
            # A missing pod has only just been created.
            return ()
    return ()


def _is_outdated(told: Told, pod: SeenPod | None) -> bool:
    return pod is not None and pod.revision != told.update and not pod.terminating


def _is_complete(told: Told, seen: Mapping[int, SeenPod]) -> bool:
    updated = sum(pod.revision == told.update and not pod.terminating for pod in seen.values())
    ready = sum(pod.ready for pod in seen.values())
    return len(seen) == updated == ready == told.replicas
